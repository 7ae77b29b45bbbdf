package scenario

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"sort"
	"strconv"
	"strings"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/nodeauthz"
)

//go:embed testdata/*.txtar
var corpus embed.FS

// Corpus returns the files of the shared corpus, for Load.
func Corpus() fs.FS {
	sub, err := fs.Sub(corpus, "testdata")
	if err != nil {
		panic(err) // the directory is embedded above
	}
	return sub
}

// Scenario is one file of the corpus. The slices are not to be changed.
type Scenario struct {
	// Name is the file's without its extension, Path the file's in the file system that was loaded.
	Name, Path string
	// Comment says what the scenario shows and where it comes from.
	Comment string
	Flags   Flags
	// State is a journal or a snapshot, as analyze reads with --state; nil when there is none.
	State []byte
	// Log is the audit log, byte for byte as it would lie on disk, damage included.
	Log []byte
	// Want are the expected verdicts in the order of judgement, Report the lines expected of Summarize.
	Want   []Verdict
	Report []string

	archive *txtar.Archive
}

// Flags are what analyze would be called with.
type Flags struct {
	// Features are those of the version and the gates that are given. With the minor 0 none are: the log tells.
	Features nodeauthz.Features
	Skew     time.Duration
	// Mode is the value of --authorization-mode.
	Mode string
	// StateFromAudit is whether bodies in the log count as state.
	StateFromAudit bool

	day      time.Time
	envelope string
	damage   map[string]bool
}

// Error is what is wrong with a scenario file, and where.
type Error struct {
	Path string
	Line int // from 1
	Err  error
}

// Error is one sentence without an end.
func (e *Error) Error() string { return fmt.Sprintf("%s:%d: %v", e.Path, e.Line, e.Err) }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Load reads all *.txtar files at the root of a file system, in the order of their names. An *Error names the first bad line.
func Load(fsys fs.FS) ([]Scenario, error) {
	names, err := fs.Glob(fsys, "*.txtar")
	if err != nil {
		return nil, fmt.Errorf("listing scenarios: %w", err)
	}
	sort.Strings(names)
	var out []Scenario
	for _, name := range names {
		data, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, fmt.Errorf("reading a scenario: %w", err)
		}
		s, err := Parse(name, data)
		if err != nil {
			return nil, err
		}
		out = append(out, *s)
	}
	return out, nil
}

// Cluster loads the scenario's state anew; it is empty where there is none.
func (s *Scenario) Cluster() (*cluster.State, error) {
	state := cluster.NewState()
	if s.State == nil {
		return state, nil
	}
	if err := state.Load([]string{"-"}, bytes.NewReader(s.State)); err != nil {
		return nil, fmt.Errorf("%s: the state: %w", s.Path, err)
	}
	return state, nil
}

// sectionOrder ranks the names that sections can have; those of one rank exclude each other.
func sectionOrder(name string) (rank int, ok bool) {
	switch name {
	case "flags":
		return 1, true
	case "cluster", "cluster.jsonl", "cluster.yaml":
		return 2, true
	case "audit":
		return 3, true
	case "want":
		return 4, true
	case "report":
		return 5, true
	}
	return 0, false
}

// Parse reads one scenario; name is for errors and for the scenario's own.
func Parse(name string, data []byte) (*Scenario, error) {
	s := &Scenario{Path: name, Name: strings.TrimSuffix(path.Base(name), ".txtar"), archive: txtar.Parse(data)}
	s.Comment = strings.TrimSpace(string(s.archive.Comment))
	fail := func(line int, err error) error { return &Error{Path: name, Line: line, Err: err} }
	if s.Comment == "" {
		return nil, fail(1, fmt.Errorf("there is no comment that says what the scenario shows and where it comes from"))
	}
	var err error
	if s.Flags, err = parseFlags(nil); err != nil {
		return nil, fail(1, err)
	}
	line, last := 1+bytes.Count(s.archive.Comment, []byte{'\n'}), 0
	have := map[string]bool{}
	for _, f := range s.archive.Files {
		rank, ok := sectionOrder(f.Name)
		switch {
		case !ok:
			return nil, fail(line, fmt.Errorf("section %q is none of flags, cluster, cluster.jsonl, cluster.yaml, audit, want, report", f.Name))
		case rank <= last:
			return nil, fail(line, fmt.Errorf("section %q comes twice or too late", f.Name))
		}
		last, have[f.Name] = rank, true
		if err := s.section(f.Name, linesOf(f.Data, line+1)); err != nil {
			return nil, &Error{Path: name, Line: err.line, Err: err.err}
		}
		if f.Name == "cluster.jsonl" || f.Name == "cluster.yaml" {
			s.State = f.Data
		}
		line += 1 + bytes.Count(f.Data, []byte{'\n'})
	}
	if !have["audit"] {
		return nil, fail(line, fmt.Errorf("there is no section audit"))
	}
	return s, nil
}

// textLine is a line with its number in the file.
type textLine struct {
	n    int
	text string
}

// lineError is an error at a line.
type lineError struct {
	line int
	err  error
}

// linesOf cuts a section into its lines, without those that do not count.
func linesOf(data []byte, first int) []textLine {
	var out []textLine
	for i, text := range strings.Split(string(data), "\n") {
		text = strings.TrimSpace(text)
		if text == "" || text[0] == '#' {
			continue
		}
		out = append(out, textLine{first + i, text})
	}
	return out
}

func (s *Scenario) section(name string, lines []textLine) *lineError {
	var err *lineError
	switch name {
	case "flags":
		s.Flags, err = flagsOf(lines)
	case "cluster":
		s.State, err = expandCluster(lines, s.Flags.day)
	case "audit":
		s.Log, err = expandAudit(lines, &s.Flags)
	case "want":
		for _, l := range lines {
			v, perr := ParseVerdict(l.text)
			if perr != nil {
				return &lineError{l.n, perr}
			}
			s.Want = append(s.Want, v)
		}
	case "report":
		for _, l := range lines {
			s.Report = append(s.Report, l.text)
		}
	}
	return err
}

func flagsOf(lines []textLine) (Flags, *lineError) {
	values := map[string]string{}
	at := map[string]int{}
	for _, l := range lines {
		key, value, ok := strings.Cut(l.text, ":")
		if _, twice := values[key]; !ok || twice {
			return Flags{}, &lineError{l.n, fmt.Errorf("%q is not a flag as in %q, or comes twice", l.text, "skew: 150ms")}
		}
		values[key], at[key] = strings.TrimSpace(value), l.n
	}
	f, err := parseFlags(values)
	if err != nil {
		n := 0
		for key, line := range at {
			if n == 0 || strings.HasPrefix(err.Error(), key+":") {
				n = line
			}
		}
		return Flags{}, &lineError{n, err}
	}
	return f, nil
}

// defaultVersion is the version whose reasons the corpus has.
const defaultVersion = "1.36"

// parseFlags reads flags; an error begins with the flag's name.
func parseFlags(values map[string]string) (f Flags, err error) {
	f = Flags{Skew: time.Second, Mode: "auto", StateFromAudit: true, envelope: "lines", damage: map[string]bool{}}
	if f.Features, err = nodeauthz.FeaturesFor(cmp.Or(values["kubernetes-version"], defaultVersion)); err != nil {
		return f, fmt.Errorf("kubernetes-version: %w", err)
	}
	f.day = time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	for key, value := range values {
		switch key {
		case "kubernetes-version":
		case "feature-gates":
			err = setGates(&f.Features, value)
		case "skew":
			f.Skew, err = time.ParseDuration(value)
		case "authorization-mode":
			f.Mode = value
		case "state-from-audit":
			f.StateFromAudit, err = strconv.ParseBool(value)
		case "day":
			f.day, err = time.Parse(time.DateOnly, value)
		case "envelope":
			if f.envelope = value; value != "lines" && value != "eventlist" && value != "array" && value != "document" {
				err = fmt.Errorf("%q is none of lines, eventlist, array, document", value)
			}
		case "damage":
			for _, d := range strings.Split(value, ",") {
				if d != "bom" && d != "crlf" && d != "nul" && d != "glue" && d != "torn" {
					err = fmt.Errorf("%q is none of bom, crlf, nul, glue, torn", d)
				}
				f.damage[d] = true
			}
		default:
			err = fmt.Errorf("there is no such flag")
		}
		if err != nil {
			return f, fmt.Errorf("%s: %w", key, err)
		}
	}
	return f, nil
}

func setGates(f *nodeauthz.Features, list string) error {
	for _, g := range strings.Split(list, ",") {
		name, value, _ := strings.Cut(g, "=")
		on, err := strconv.ParseBool(value)
		if err != nil {
			return fmt.Errorf("%q is not NAME=true or NAME=false", g)
		}
		if err := f.Set(name, on); err != nil {
			return err
		}
	}
	return f.Validate()
}

// Rewritten returns the file with other expectations.
func (s *Scenario) Rewritten(want []Verdict, report []string) []byte {
	var w strings.Builder
	for i := range want {
		w.WriteString(want[i].String() + "\n")
	}
	r := strings.Join(report, "\n") + "\n"
	out := &txtar.Archive{Comment: s.archive.Comment}
	for _, f := range s.archive.Files {
		if f.Name != "want" && f.Name != "report" {
			out.Files = append(out.Files, f)
		}
	}
	out.Files = append(out.Files, txtar.File{Name: "want", Data: []byte(w.String())}, txtar.File{Name: "report", Data: []byte(r)})
	return txtar.Format(out)
}

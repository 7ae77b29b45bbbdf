package file

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/internal/filekind"
	"github.com/nodetrail/nodetrail/internal/userfile"
)

// Input is one file to read, or standard input.
type Input struct {
	// Path is the file's, "-" for standard input.
	Path string
	// first is the time of its first event, zero if it has none near its beginning.
	first time.Time
	// newest is the time of its first event if that is the latest in its beginning; then first is zero, since the oldest event may be anywhere.
	newest time.Time
	// kind is what its beginning shows it to be.
	kind filekind.Kind
	// events is whether its beginning has audit events, rather than text in which they may be.
	events bool
	// pipe says that what was read is gone and that reading may wait for somebody: anything but a regular file.
	pipe  bool
	stdin io.Reader
}

// String names the input in messages.
func (in *Input) String() string {
	if in.stdin != nil {
		return "<stdin>"
	}
	return in.Path
}

// Expand resolves the arguments of analyze: files, globs, folders (the logs in them, not those deeper), and "-" for stdin. The inputs
// come in the order of their first event, each file once by whatever names it is given. An argument that yields nothing is an error
// that says so, and so is a file that shows to be something else, unless a folder or a glob has logs next to it.
func Expand(args []string, stdin io.Reader) ([]Input, error) {
	var out []Input
	var misplaced error
	logs := 0
	seen := map[string]bool{}
	for _, arg := range args {
		paths, err := resolve(arg)
		if err != nil {
			return nil, err
		}
		for _, p := range paths {
			id := identity(p)
			if seen[id] {
				continue
			}
			seen[id] = true
			in := Input{Path: p}
			if p == "-" {
				in.stdin, in.pipe = stdin, true
			} else if err := in.look(); err != nil {
				return nil, err
			}
			out = append(out, in)
			if err := in.misplaced(); err == nil {
				logs++
			} else if misplaced = cmp.Or(misplaced, err); p == arg {
				return nil, err
			}
		}
	}
	if logs == 0 && misplaced != nil {
		return nil, misplaced
	}
	slices.SortStableFunc(out, func(a, b Input) int {
		if c := a.first.Compare(b.first); c != 0 {
			return c
		}
		return strings.Compare(a.Path, b.Path)
	})
	return out, nil
}

// Followable is the error of a path that is there and is no log that is written to: a folder, a pipe, or a file that shows to be something else. Nil for what
// is not there yet, is empty, or cannot be read, which may become one.
func Followable(path string) error {
	in := Input{Path: path}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil //nolint:nilerr // it may come to be a log
	case info.IsDir():
		return fmt.Errorf("%s is a folder: name the log in it that is written to, such as %s", path, filepath.Join(path, "audit.log"))
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is no regular file, and only such a file is followed", path)
	case in.look() != nil:
		return nil //nolint:nilerr // as above
	}
	return in.misplaced()
}

// misplaced is the error of a file that is no audit log, by its beginning.
func (in *Input) misplaced() error {
	if what := in.kind.Misplaced(filekind.AuditLog); what != "" {
		return fmt.Errorf("%s: %s", in.String(), what)
	}
	return nil
}

// kindOf is what a beginning shows an input to be. Text in which events may be is a log, whatever its first line is.
func kindOf(head []byte) filekind.Kind {
	switch k := filekind.Of(head, false); k {
	case filekind.Archive, filekind.Report, filekind.Verdicts:
		return k
	default:
		if bytes.Contains(head, []byte("auditID")) {
			return filekind.AuditLog
		}
		return k
	}
}

// hasEvents is whether the beginning of what kindOf takes for an audit log has audit events. The API server's own log has audit IDs, too.
func hasEvents(head []byte) bool {
	switch filekind.Of(head, false) {
	case filekind.AuditLog, filekind.OwnLog, filekind.Unknown: // an envelope may look like the log of another program
		return bytes.Contains(head, []byte(`requestURI"`)) || bytes.Contains(head, []byte(`requestURI\`))
	}
	return false
}

// identity is the same for all names of a file that lead through links and folders; a hard link is another file.
func identity(path string) string {
	abs, err := filepath.Abs(path)
	if path == "-" || err != nil {
		return path
	}
	if target, err := filepath.EvalSymlinks(abs); err == nil {
		return target
	}
	return abs
}

func unreadable(path string, err error) error {
	return fmt.Errorf("cannot read the audit log %s: %w", path, userfile.Cause(err))
}

func resolve(arg string) ([]string, error) {
	if arg == "-" {
		return []string{arg}, nil
	}
	info, err := os.Stat(arg)
	switch {
	case err == nil && info.IsDir():
		return folder(arg)
	case err == nil:
		return []string{arg}, nil
	case !errors.Is(err, fs.ErrNotExist) || !strings.ContainsAny(arg, "*?["):
		return nil, unreadable(arg, err)
	}
	matches, err := filepath.Glob(arg)
	if err != nil {
		return nil, fmt.Errorf("%s: not a pattern: %w", arg, err)
	}
	var out []string
	for _, m := range matches {
		if info, err := os.Stat(m); err == nil && info.IsDir() {
			// A folder counts as it would if the shell had expanded the pattern, but need not hold a log.
			if logs, err := folder(m); err == nil {
				out = append(out, logs...)
			}
			continue
		}
		out = append(out, m)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: no audit log matches this pattern", arg)
	}
	return out, nil
}

// folder lists the logs in a directory, not those deeper: what is named like one, rotated and compressed ones included. Where some are named for
// audit, the others count only if they have audit events: the API server's own log mostly is in the same place.
func folder(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, unreadable(dir, err)
	}
	var logs, audits []string
	for _, e := range entries {
		name := strings.ToLower(e.Name())
		if strings.HasPrefix(name, ".") || !logName.MatchString(name) || otherName.MatchString(name) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			continue
		}
		logs = append(logs, path)
		if strings.Contains(name, "audit") {
			audits = append(audits, path)
		}
	}
	if len(audits) > 0 {
		return slices.DeleteFunc(logs, func(path string) bool {
			in := Input{Path: path}
			return !slices.Contains(audits, path) && (in.look() != nil || !in.events)
		}), nil
	}
	if len(logs) == 0 {
		return nil, fmt.Errorf("%s: no audit logs in this folder (files named *.log, *.json, *.jsonl or *audit*, also rotated and compressed)", dir)
	}
	return logs, nil
}

var (
	logName   = regexp.MustCompile(`(\.(log|json|jsonl|ndjson)|audit)([-._].*)?$`)
	otherName = regexp.MustCompile(`\.(ya?ml|md|conf|sh|idx|pos|tmp|swp|lock)(\.(gz|zst))?$|~$`)
)

// headBytes is how far into a log its first event's time is looked for.
const headBytes = 256 << 10

var timeKeys = [][]byte{[]byte(`"stageTimestamp"`), []byte(`"requestReceivedTimestamp"`)}

// look finds the time of the file's first event, and whether the file is a pipe, of which nothing may be read yet. That there is
// no event is no error here.
func (in *Input) look() error {
	info, err := os.Stat(in.Path)
	if err != nil {
		return unreadable(in.Path, err)
	}
	if in.pipe = !info.Mode().IsRegular(); in.pipe {
		return nil
	}
	f, err := os.Open(in.Path)
	if err != nil {
		return unreadable(in.Path, err)
	}
	defer func() { _ = f.Close() }()
	r, closeReader, err := decompress(f)
	if err != nil {
		return nil // whoever reads it to the end will say what is wrong with it
	}
	defer closeReader()
	head := make([]byte, headBytes)
	n, _ := io.ReadFull(r, head)
	in.kind = kindOf(head[:n])
	in.events = in.kind == filekind.AuditLog && hasEvents(head[:n])
	in.first = firstTimeIn(head[:n])
	if audit.IsDocument(head[:n]) && timeIn(head[:n], bytes.LastIndex).Before(in.first) {
		in.first, in.newest = time.Time{}, in.first
	}
	return nil
}

// firstTimeIn decodes lines until one has a time. Only where none is whole are the keys searched for, since what the request's body
// holds may be named like them.
func firstTimeIn(head []byte) time.Time {
	for line := range bytes.Lines(head) {
		var ev struct {
			StageTimestamp, RequestReceivedTimestamp time.Time
		}
		if json.Unmarshal(bytes.Trim(line, "\x00 \r\n\t\ufeff"), &ev) != nil {
			continue
		}
		if t := ev.StageTimestamp; !t.IsZero() {
			return t
		}
		if t := ev.RequestReceivedTimestamp; !t.IsZero() {
			return t
		}
	}
	return timeIn(head, bytes.Index)
}

// timeIn returns the first time (or with bytes.LastIndex the last) that b holds under one of the keys.
func timeIn(b []byte, index func(s, sep []byte) int) time.Time {
	for _, key := range timeKeys {
		i := index(b, key)
		if i < 0 {
			continue
		}
		rest := bytes.TrimLeft(b[i+len(key):], " \t:")
		if len(rest) == 0 || rest[0] != '"' {
			continue
		}
		end := bytes.IndexByte(rest[1:], '"')
		if end < 0 {
			continue
		}
		if t, err := time.Parse(time.RFC3339Nano, string(rest[1:1+end])); err == nil {
			return t
		}
	}
	return time.Time{}
}

// LastTime returns the time of the last event of the inputs, for windows counted from the log's end; zero if it is unknown.
// Compressed files are read through for it. Pipes and standard input cannot be.
func LastTime(inputs []Input) (time.Time, error) {
	var last time.Time
	for _, in := range inputs {
		if in.pipe {
			return time.Time{}, fmt.Errorf("the end of %s is not known before it is read: give a time", in.String())
		}
		t, err := lastTime(in.Path)
		if err != nil {
			return time.Time{}, err
		}
		for _, t := range []time.Time{t, in.newest} {
			if t.After(last) {
				last = t
			}
		}
	}
	return last, nil
}

func lastTime(path string) (time.Time, error) {
	f, err := os.Open(path)
	if err != nil {
		return time.Time{}, unreadable(path, err)
	}
	defer func() { _ = f.Close() }()
	magic := make([]byte, 4)
	n, _ := f.ReadAt(magic, 0)
	if formOf(magic[:n]) == plain {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && info.Size() > 4*headBytes {
			if _, err := f.Seek(-4*headBytes, io.SeekEnd); err != nil {
				return time.Time{}, fmt.Errorf("%s: %w", path, err)
			}
		}
	}
	r, closeReader, err := decompress(f)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s: %w", path, err)
	}
	defer closeReader()
	var last time.Time
	buf, kept := make([]byte, 2*headBytes), 0
	for {
		n, err := io.ReadFull(r, buf[kept:])
		if t := timeIn(buf[:kept+n], bytes.LastIndex); !t.IsZero() {
			last = t // the last in the file, not the latest: a body may hold any time
		}
		if err != nil {
			return last, nil // whoever reads it to the end will say what is wrong with it
		}
		kept = copy(buf, buf[headBytes:])
	}
}

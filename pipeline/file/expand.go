package file

import (
	"bytes"
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
)

// Input is one log to read.
type Input struct {
	// Path is the file's, "-" for standard input.
	Path string
	// group names the log that the file is a piece of.
	group string
	// first is the time of its first event, zero if it has none near its beginning.
	first time.Time
	stdin io.Reader
}

// Expand resolves the arguments of analyze: files, globs, folders (the logs in them, not those deeper), and "-" for stdin. The files
// of one log come in the order of their first event. An argument that yields nothing is an error that says so.
func Expand(args []string, stdin io.Reader) ([]Input, error) {
	var out []Input
	seen := map[string]bool{}
	for _, arg := range args {
		paths, err := resolve(arg)
		if err != nil {
			return nil, err
		}
		for _, p := range paths {
			if seen[p] {
				continue
			}
			seen[p] = true
			in := Input{Path: p, group: groupOf(p)}
			if p == "-" {
				in.stdin = stdin
			} else if in.first, err = firstTime(p); err != nil {
				return nil, err
			}
			out = append(out, in)
		}
	}
	slices.SortStableFunc(out, func(a, b Input) int {
		if c := strings.Compare(a.group, b.group); c != 0 {
			return c
		}
		if c := a.first.Compare(b.first); c != 0 {
			return c
		}
		return strings.Compare(a.Path, b.Path)
	})
	return out, nil
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
		return nil, fmt.Errorf("cannot read the audit log: %w", err)
	}
	matches, err := filepath.Glob(arg)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", arg, err)
	}
	if len(matches) == 0 {
		return nil, fmt.Errorf("%s: no file matches", arg)
	}
	slices.Sort(matches)
	return matches, nil
}

// folder lists the logs in a directory: what is named like one, rotated and compressed ones included.
func folder(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot read the folder: %w", err)
	}
	var out []string
	for _, e := range entries {
		name := strings.ToLower(e.Name())
		if e.IsDir() || strings.HasPrefix(name, ".") {
			continue
		}
		if logName.MatchString(name) {
			out = append(out, filepath.Join(dir, e.Name()))
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: no audit logs in this folder (files named *.log, *.json, *.jsonl or *audit*, also rotated and compressed)", dir)
	}
	return out, nil
}

var (
	logName    = regexp.MustCompile(`(\.(log|json|jsonl|ndjson)|audit)([-.].*)?$`)
	compressed = regexp.MustCompile(`\.(gz|zst|zstd)$`)
	rotated    = regexp.MustCompile(`\.[0-9]+$`)
	extension  = regexp.MustCompile(`\.(log|json|jsonl|ndjson|txt)$`)
	stamped    = regexp.MustCompile(`-[0-9]{4}-?[0-9]{2}-?[0-9]{2}([T-][0-9:.-]+)?$`)
)

// groupOf is the folder and base name that the pieces of one rotated log share: audit.log, audit.log.1.gz and lumberjack's
// audit-2026-11-21T06-04-03.123.log.
func groupOf(path string) string {
	dir, name := filepath.Split(path)
	for _, re := range []*regexp.Regexp{compressed, rotated, compressed, extension, stamped} {
		name = re.ReplaceAllString(name, "")
	}
	return filepath.Join(dir, name)
}

// headBytes is how far into a log its first event's time is looked for.
const headBytes = 256 << 10

var timeKeys = [][]byte{[]byte(`"stageTimestamp"`), []byte(`"requestReceivedTimestamp"`)}

// firstTime finds the time of the file's first event. That there is none is no error here.
func firstTime(path string) (time.Time, error) {
	f, err := os.Open(path)
	if err != nil {
		return time.Time{}, fmt.Errorf("cannot read the audit log: %w", err)
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err == nil && !info.Mode().IsRegular() {
		return time.Time{}, nil // a pipe: what is read from it is gone
	}
	r, closeReader, err := decompress(f)
	if err != nil {
		return time.Time{}, nil //nolint:nilerr // whoever reads it to the end will say what is wrong with it
	}
	defer closeReader()
	head := make([]byte, headBytes)
	n, _ := io.ReadFull(r, head)
	return timeIn(head[:n], bytes.Index), nil
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

// LastTime returns the time of the last event of the inputs, for windows counted from the log's end; zero if it cannot be told.
// Compressed files are read through for it. Standard input cannot be.
func LastTime(inputs []Input) (time.Time, error) {
	var last time.Time
	for _, in := range inputs {
		if in.stdin != nil {
			return time.Time{}, errors.New("the end of standard input is not known beforehand: give --since and --until as times")
		}
		t, err := lastTime(in.Path)
		if err != nil {
			return time.Time{}, err
		}
		if t.After(last) {
			last = t
		}
	}
	return last, nil
}

func lastTime(path string) (time.Time, error) {
	f, err := os.Open(path)
	if err != nil {
		return time.Time{}, fmt.Errorf("cannot read the audit log: %w", err)
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
		if t := timeIn(buf[:kept+n], bytes.LastIndex); t.After(last) {
			last = t
		}
		if err != nil {
			return last, nil //nolint:nilerr // whoever reads it to the end will say what is wrong with it
		}
		kept = copy(buf, buf[headBytes:])
	}
}

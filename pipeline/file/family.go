package file

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// What rotation adds to a name, before its extension or at its end: audit-2026-11-21T06-04-03.123.log (lumberjack), audit.1.log,
// audit.log.1, audit.log-20261121, audit.log.1.gz (logrotate), and both at once.
const (
	inName  = `(?:[-._](?:\d{4}[-._]?\d{2}[-._]?\d{2}[-._T:\dZ+]*|\d{10,13})|\.\d{1,4})`
	atEnd   = `(?:[-._](?:\d[-._T:\dZ+]*|old))`
	packing = `(?:\.(?:gz|gzip|zst|zstd))`
)

var (
	packedName = regexp.MustCompile(`^(.+?)` + packing + `$`)
	endedName  = regexp.MustCompile(`^(.+?)` + atEnd + `$`)
	datedName  = regexp.MustCompile(`^(.+?)` + inName + `(\.[A-Za-z]\w*)$`)
	numbered   = regexp.MustCompile(`\.(\d{1,6})$`)
)

// liveNames are the names that a log may be written under whose rotated file is named so, the shortest first.
func liveNames(name string) []string {
	var out []string
	for _, form := range []*regexp.Regexp{packedName, endedName, datedName} {
		for m := form.FindStringSubmatch(name); m != nil; m = form.FindStringSubmatch(name) {
			name = strings.Join(m[1:], "")
			out = append(out, name)
		}
	}
	slices.Reverse(out)
	return out
}

// family is a log with its rotated predecessors, known by their names and where they are.
type family struct {
	live    string
	reach   *reach
	folders []folderOf
	seen    map[string]entry // by path, of the last scan
}

type folderOf struct {
	dir  string
	name *regexp.Regexp
}

func newFamily(live string, r *reach) *family {
	f := &family{live: live, reach: r}
	f.add(live)
	if target, err := r.resolve(live); err == nil && filepath.Dir(target) != filepath.Dir(live) {
		f.add(target) // it is rotated where it is, not where the link is
	}
	return f
}

func (f *family) add(path string) {
	dir, base := filepath.Split(path)
	ext := filepath.Ext(base)
	stem := regexp.QuoteMeta(strings.TrimSuffix(base, ext))
	ext = regexp.QuoteMeta(ext)
	f.folders = append(f.folders, folderOf{filepath.Clean(dir), regexp.MustCompile(`^` + stem + inName + `?` + ext + atEnd + `*` + packing + `?$`)})
}

// owns is whether the path is named like one of the family.
func (f *family) owns(path string) bool {
	if path == f.live {
		return true
	}
	dir, base := filepath.Split(path)
	dir = filepath.Clean(dir)
	return slices.ContainsFunc(f.folders, func(x folderOf) bool { return x.dir == dir && x.name.MatchString(base) })
}

// entry is a file of a family, as it was when its folder was read.
type entry struct {
	mark
	path   string
	reach  *reach
	stem   string // what is before number
	number int    // logrotate's, which counts from the newest; -1 if there is none
	live   bool
	packed bool
	// cut says that not even the head of a compressed file is there. It may be in the making.
	cut bool
	// first is the time of its first event, or when it was last written where none is found.
	first time.Time
	err   error // why nothing is known of it
}

// scan lists the family's files from the oldest to the live one. Files that cannot be read have their error and are the first. Its error is
// errChanged while files are being renamed.
func (f *family) scan() ([]entry, error) {
	before, err := f.list()
	if err != nil {
		return nil, err
	}
	for range 10 {
		out := make([]entry, 0, len(before))
		seen := make(map[string]entry, len(before))
		for _, l := range before {
			e, known := f.seen[l.path]
			if !known || !tells(e.head) || !os.SameFile(e.info, l.info) || e.info.Size() != l.info.Size() || !e.info.ModTime().Equal(l.info.ModTime()) {
				e = f.reach.look(l.path)
				e.live = l.path == f.live
			}
			seen[l.path] = e
			out = append(out, e)
		}
		// A folder that is read while its files are renamed may show one twice or not at all, and each may have been another by the time it
		// was looked at.
		after, err := f.list()
		if err != nil {
			return nil, err
		}
		f.seen = seen
		if slices.EqualFunc(before, after, listed.same) && !slices.ContainsFunc(after, func(l listed) bool {
			e := seen[l.path]
			return e.info == nil && e.err == nil || e.info != nil && !os.SameFile(e.info, l.info)
		}) {
			arrange(out)
			return out, nil
		}
		before = after
	}
	return nil, fmt.Errorf("the files of %s are being renamed: %w", f.live, errChanged)
}

type listed struct {
	path string
	info fs.FileInfo
}

func (l listed) same(other listed) bool {
	return l.path == other.path && os.SameFile(l.info, other.info)
}

func (f *family) list() ([]listed, error) {
	var out []listed
	for i, folder := range f.folders {
		entries, err := os.ReadDir(folder.dir)
		if err != nil && i == 0 && !errors.Is(err, fs.ErrNotExist) {
			return nil, unreadable(folder.dir, err)
		}
		for _, e := range entries {
			path := filepath.Join(folder.dir, e.Name())
			if !folder.name.MatchString(e.Name()) {
				continue
			}
			info, err := os.Stat(path)
			if err != nil || !info.Mode().IsRegular() || i > 0 && slices.ContainsFunc(out, func(l listed) bool { return os.SameFile(l.info, info) }) {
				continue
			}
			out = append(out, listed{path, info})
		}
	}
	return out, nil
}

// look reads what a file begins with.
func (r *reach) look(path string) entry {
	e := entry{path: path, reach: r}
	e.stem, e.number = numberOf(path)
	f, err := r.open(path)
	if err != nil {
		e.err = unreadable(path, err)
		return e
	}
	defer f.Close()
	if e.info, err = f.Stat(); err != nil {
		e.err = unreadable(path, err)
		return e
	}
	e.first = e.info.ModTime()
	text, packed, closeReader, err := unpack(f)
	if err != nil {
		e.packed, e.cut = true, true
		return e
	}
	defer closeReader()
	e.packed = packed
	var head []byte
	for _, n := range []int{8 << 10, 64 << 10, headBytes} {
		more := make([]byte, n-len(head))
		got, err := io.ReadFull(text, more)
		head = append(head, more[:got]...)
		if t := firstTimeIn(head); !t.IsZero() {
			e.first = t
		}
		e.cut = packed && len(head) == 0 && !errors.Is(err, io.EOF)
		if err != nil || strings.Contains(string(head), "\n") {
			break
		}
	}
	e.head = slices.Clone(head[:min(len(head), fingerprintBytes)])
	return e
}

// arrange orders by age: what cannot be read, then by logrotate's numbers if all rotated files have one, else by the time of the first
// event; the live log is the newest. Numbers come first because a clock may have been set back.
func arrange(entries []entry) {
	stem, all := "", true
	for _, e := range entries {
		all = all && (e.live || e.number >= 0 && (stem == "" || e.stem == stem))
		if !e.live {
			stem = e.stem
		}
	}
	rank := func(e entry) int {
		switch {
		case e.live:
			return 2
		case e.err != nil:
			return 0
		}
		return 1
	}
	slices.SortStableFunc(entries, func(a, b entry) int {
		switch {
		case rank(a) != rank(b):
			return rank(a) - rank(b)
		case all && a.number != b.number:
			return b.number - a.number
		case !a.first.Equal(b.first):
			return a.first.Compare(b.first)
		case a.number >= 0 && b.number >= 0 && a.number != b.number:
			return b.number - a.number
		}
		return strings.Compare(a.path, b.path)
	})
}

// numberOf finds logrotate's number in a name, and what is before it.
func numberOf(path string) (string, int) {
	if m := packedName.FindStringSubmatch(path); m != nil {
		path = m[1]
	}
	m := numbered.FindStringSubmatchIndex(path)
	if m == nil {
		return path, -1
	}
	n, _ := strconv.Atoi(path[m[2]:m[3]])
	return path[:m[0]], n
}

// unread drops from entries what is done already, is empty, or is there twice; copies of one file count as the live one, a plain one, or
// the longest.
func unread(entries []entry, isDone func(mark) bool) []entry {
	var out []entry
	for _, e := range entries {
		if e.err != nil || len(e.head) == 0 && !e.cut || isDone(e.mark) {
			continue
		}
		i := slices.IndexFunc(out, func(o entry) bool { return o.same(e.mark) })
		if i < 0 {
			out = append(out, e)
			continue
		}
		if o := out[i]; e.live || !o.live && (o.packed && !e.packed || o.packed == e.packed && o.info.Size() < e.info.Size()) {
			out[i] = e
		}
	}
	arrange(out)
	return out
}

package cluster

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

// stateJournal is the journal of one kind that Live keeps: files named <resource>-<time>.jsonl, each of which begins with all objects there
// were. A file gets its name when that list is in it; until then it is hidden, and gone after a crash. It is not safe for concurrent use.
//
// What was appended and flushed survives the end of the process, but not that of the machine: then the watch resumes from where the file
// ends. An error (a full disk) ends the file there. The state continues without; some time later another file is begun with a new list.
type stateJournal struct {
	dir, resource string
	max           int64 // bytes after which the next file is begun
	log           zerolog.Logger

	f      *os.File // nil: there is none, see failed
	w      *bufio.Writer
	path   string // as it will be named; hidden as long as it has no list
	hidden string
	off    int64 // bytes appended
	base   int64 // bytes when its list had ended
	line   []byte
	failed time.Time
}

const (
	journalSuffix = ".jsonl"
	packedSuffix  = ".jsonl.zst"
	hiddenSuffix  = ".tmp"
	fileTime      = "20060102T150405.000000000Z"
	// retryJournal is how long after an error the next file is tried.
	retryJournal = time.Minute
)

func newStateJournal(dir, resource string, maxBytes int64, log zerolog.Logger) *stateJournal {
	return &stateJournal{dir: dir, resource: resource, max: maxBytes, log: log.With().Str("journal", resource).Logger()}
}

// fail gives the file up.
func (j *stateJournal) fail(now time.Time, err error) {
	j.log.Error().Err(err).Stringer("retry", retryJournal).Msg("the journal of the state cannot be written: after a restart, what happens meanwhile is unknown")
	j.drop()
	j.failed = now
}

// drop closes the file as it is.
func (j *stateJournal) drop() {
	if j.f != nil {
		_ = j.f.Close()
	}
	if j.hidden != "" {
		_ = os.Remove(j.hidden)
	}
	j.f, j.w, j.path, j.hidden = nil, nil, "", ""
}

// begin begins a file; a list of all objects must follow. It reports whether that is possible.
func (j *stateJournal) begin(now time.Time) bool {
	j.drop()
	if err := j.create(); err != nil {
		j.fail(now, err)
		return false
	}
	return true
}

func (j *stateJournal) create() error {
	f, err := os.CreateTemp(j.dir, "."+j.resource+"-*"+hiddenSuffix)
	if err != nil {
		return err
	}
	j.f, j.hidden, j.off, j.base = f, f.Name(), 0, 0
	j.w = bufio.NewWriterSize(f, 64<<10)
	if !j.failed.IsZero() { // is there room again?
		if _, err := f.Write(make([]byte, 1<<20)); err != nil {
			return err
		}
		if err := f.Truncate(0); err != nil {
			return err
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
	return nil
}

// reopen continues with a file that is there, from a given length on.
func (j *stateJournal) reopen(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err = f.Truncate(size); err == nil {
		_, err = f.Seek(size, io.SeekStart)
	}
	if err != nil {
		_ = f.Close()
		return err
	}
	j.f, j.w, j.path, j.off, j.base = f, bufio.NewWriterSize(f, 64<<10), path, size, size/2
	return nil
}

// append appends an entry and returns where its object is.
func (j *stateJournal) append(verb string, object []byte, at, notBefore time.Time) (begin int64, size int32) {
	if j.f == nil {
		return 0, 0
	}
	if j.path == "" {
		j.path = freeName(j.dir, j.resource, at)
	}
	line, n := appendEntry(j.line[:0], verb, object, at, notBefore)
	j.line = line
	if _, err := j.w.Write(line); err != nil {
		j.fail(at, err)
		return 0, 0
	}
	begin = j.off + int64(n)
	j.off += int64(len(line))
	return begin, int32(len(object))
}

// freeName is a name for a file that begins at the given time.
func freeName(dir, resource string, at time.Time) string {
	for ; ; at = at.Add(1) {
		path := filepath.Join(dir, resource+"-"+at.UTC().Format(fileTime))
		_, plain := os.Lstat(path + journalSuffix)
		_, packed := os.Lstat(path + packedSuffix)
		if plain != nil && packed != nil {
			return path + journalSuffix
		}
	}
}

// listed notes that the list with which a file begins is complete.
func (j *stateJournal) listed(at time.Time) {
	if j.f == nil || j.hidden == "" {
		return
	}
	err := j.w.Flush()
	if err == nil {
		err = j.f.Sync()
	}
	if err == nil {
		err = os.Rename(j.hidden, j.path)
	}
	if err != nil {
		j.fail(at, err)
		return
	}
	j.hidden, j.base, j.failed = "", j.off, time.Time{}
}

func (j *stateJournal) flush(now time.Time) {
	if j.f == nil {
		return
	}
	if err := j.w.Flush(); err != nil {
		j.fail(now, err)
	}
}

// lost reports whether there is no file and it is time to begin one.
func (j *stateJournal) lost(now time.Time) bool {
	return j.f == nil && now.Sub(j.failed) >= retryJournal
}

// full reports whether it is time for the next file.
func (j *stateJournal) full() bool {
	return j.f != nil && j.hidden == "" && j.off > max(j.max, 2*j.base)
}

// rotate begins the next file with the objects that the recorder knows, each as it stands in this file.
func (j *stateJournal) rotate(r *kindRecorder) {
	next := newStateJournal(j.dir, j.resource, j.max, j.log)
	next.log = j.log // with its field already
	places, err := j.copyObjects(next, r)
	end, e := json.Marshal(r.listEnd().Object)
	last, f := json.Marshal(r.bare("", r.rv).Object)
	if err = errors.Join(err, e, f); err == nil {
		next.append("BOOKMARK", end, r.good, time.Time{})
		if next.listed(r.good); next.f == nil {
			return // it was logged; this file continues
		}
		for name, p := range places {
			o := r.known[name]
			o.at, o.size = p.at, p.size
			r.known[name] = o
		}
		j.append("BOOKMARK", last, r.good, time.Time{}) // nothing is missing between the two files
		j.close()
		*j = *next
		return
	}
	next.drop()
	j.base = j.off // not again at once
	j.log.Error().Err(err).Msg("the next file of the state's journal cannot be begun")
}

func (j *stateJournal) copyObjects(next *stateJournal, r *kindRecorder) (map[nodeauthz.NamespacedName]stored, error) {
	if err := j.w.Flush(); err != nil {
		return nil, err
	}
	if err := next.create(); err != nil {
		return nil, err
	}
	names := make([]nodeauthz.NamespacedName, 0, len(r.known))
	for name, o := range r.known {
		if o.size > 0 { // or it could not be read when it came, and is not in the state either
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b nodeauthz.NamespacedName) int { return int(r.known[a].at - r.known[b].at) })
	places := make(map[nodeauthz.NamespacedName]stored, len(names))
	var buf []byte
	for _, name := range names {
		o := r.known[name]
		buf = slices.Grow(buf[:0], int(o.size))[:o.size]
		if _, err := j.f.ReadAt(buf, o.at); err != nil {
			return nil, err
		}
		at, size := next.append("ADDED", buf, r.good, time.Time{})
		if size == 0 {
			return nil, errors.New("no room")
		}
		places[name] = stored{at: at, size: size}
	}
	return places, nil
}

// close finishes the file.
func (j *stateJournal) close() {
	if j.f == nil {
		return
	}
	err := j.w.Flush()
	if e := j.f.Sync(); err == nil {
		err = e
	}
	if err != nil {
		j.log.Error().Err(err).Msg("finishing a file of the state's journal")
	}
	j.drop()
}

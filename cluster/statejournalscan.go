package cluster

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

// journalScan is what a file of the state's journal says of its watch.
type journalScan struct {
	size      int64 // of the part that is whole
	begins    time.Time
	listBegan time.Time
	good      time.Time // the last moment of which all is known
	listed    bool
	version   string // of the API
	rv        string // what to watch from, "" if a list was under way
	known     map[nodeauthz.NamespacedName]knownObject
}

// journalEntry is what is read of an entry.
type journalEntry struct {
	ObservedAt, NotBefore time.Time
	Type                  string
	Object                struct {
		APIVersion, Kind string
		Metadata         struct {
			Namespace, Name, UID, ResourceVersion string
			Annotations                           map[string]json.RawMessage
		}
	}
}

// maxJournalLine bounds a line of the state's journal: etcd takes no object of more than a few MiB.
const maxJournalLine = 64 << 20

// scanJournal reads a file of the state's journal. It ends with the first line that is not whole: what a crash has left there is of no use,
// and the watch resumes from before it.
func scanJournal(r io.Reader, id kindID) (journalScan, error) {
	s := journalScan{known: map[nodeauthz.NamespacedName]knownObject{}}
	_, _, err := eachLine(r, func(line []byte) bool {
		e, begin, ok := readEntry(line)
		if !ok || e.Object.Kind != kinds[id].Name || !s.entry(&e, begin, len(line), id) {
			return false
		}
		s.size += int64(len(line))
		return true
	})
	return s, err
}

// eachLine gives do the lines that are whole, with their ends, until it returns false, and returns where they end, and what follows the last one. A line that
// is too long is given as nil.
func eachLine(r io.Reader, do func([]byte) bool) (end int64, rest []byte, err error) {
	in := bufio.NewReaderSize(r, 256<<10)
	var long []byte
	for at := int64(0); ; {
		line, err := in.ReadSlice('\n')
		at += int64(len(line))
		if errors.Is(err, bufio.ErrBufferFull) {
			if len(long) <= maxJournalLine {
				long = append(long, line...)
			}
			continue
		}
		if errors.Is(err, io.EOF) {
			return end, append(long, line...), nil
		}
		if err != nil {
			return end, nil, fmt.Errorf("reading: %w", err)
		}
		switch {
		case len(long) > maxJournalLine:
			line = nil
		case len(long) > 0:
			line = append(long, line...)
		}
		if !do(line) {
			return end, nil, nil
		}
		end, long = at, long[:0]
	}
}

var objectMember = []byte(`"object":`)

// readEntry reads a line, and says where the object begins in it. ok is false where it is no entry of a journal.
func readEntry(line []byte) (e journalEntry, begin int, ok bool) {
	if begin = bytes.Index(line, objectMember); begin < 0 || json.Unmarshal(line, &e) != nil || e.ObservedAt.IsZero() {
		return e, 0, false
	}
	return e, begin + len(objectMember), true
}

// entry takes in an entry of the kind, of so many bytes, and reports whether it can be one.
func (s *journalScan) entry(e *journalEntry, begin, size int, id kindID) bool {
	if s.begins.IsZero() {
		s.begins, s.listBegan = e.ObservedAt, e.ObservedAt
	}
	m := &e.Object.Metadata
	name := nodeauthz.NamespacedName{Namespace: m.Namespace, Name: m.Name}
	_, version, grouped := cutVersion(e.Object.APIVersion)
	if !grouped && kinds[id].Group != "" {
		return false
	}
	s.version = version
	switch e.Type {
	case "BOOKMARK":
		if m.ResourceVersion == "" { // a list begins
			if s.rv, s.listBegan = "", e.ObservedAt; e.NotBefore.IsZero() { // of somebody who knew nothing
				s.listed = false
				clear(s.known)
			}
			return true
		}
		if _, end := m.Annotations[metav1.InitialEventsAnnotationKey]; end {
			s.listed, s.rv, s.good = true, m.ResourceVersion, s.listBegan
			return true
		}
	case "DELETED":
		delete(s.known, name)
	case "ADDED", "MODIFIED":
		if m.Name == "" {
			return false
		}
		s.known[name] = knownObject{uid: m.UID, rv: m.ResourceVersion, stored: stored{at: s.size + int64(begin), size: int32(size - 2 - begin)}}
	default:
		return false
	}
	if s.listed && s.rv != "" {
		s.rv = m.ResourceVersion
		if e.NotBefore.IsZero() {
			s.good = e.ObservedAt
		}
	}
	return true
}

// cutVersion splits an apiVersion.
func cutVersion(apiVersion string) (group, version string, grouped bool) {
	if group, version, grouped = strings.Cut(apiVersion, "/"); !grouped {
		return "", apiVersion, false
	}
	return group, version, true
}

// scanJournalFile scans a file and says whether something at its end was of no use.
func scanJournalFile(path string, id kindID) (s journalScan, torn int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return s, 0, fmt.Errorf("opening the state's journal: %w", err)
	}
	defer func() { _ = f.Close() }()
	if s, err = scanJournal(f, id); err != nil {
		return s, 0, fmt.Errorf("%s: %w", path, err)
	}
	info, err := f.Stat()
	if err != nil {
		return s, 0, fmt.Errorf("%s: %w", path, err)
	}
	return s, info.Size() - s.size, nil
}

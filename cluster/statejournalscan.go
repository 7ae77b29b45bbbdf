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
	size    int64 // of the part that is whole
	begins  time.Time
	good    time.Time // the last moment of which all is known
	listed  bool
	version string // of the API
	rv      string // what to watch from, "" if a list was under way
	known   map[nodeauthz.NamespacedName]knownObject
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
	in := bufio.NewReaderSize(r, 256<<10)
	var listBegan time.Time
	var long []byte
	for {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			if long = append(long, line...); len(long) > maxJournalLine {
				return s, nil
			}
			continue
		}
		if len(long) > 0 {
			long = append(long, line...)
			line = long
		}
		if errors.Is(err, io.EOF) {
			return s, nil
		}
		if err != nil {
			return s, fmt.Errorf("reading: %w", err)
		}
		if !s.entry(line, id, &listBegan) {
			return s, nil
		}
		s.size += int64(len(line))
		long = long[:0]
	}
}

var objectMember = []byte(`"object":`)

// entry takes in a line and reports whether it is an entry of the kind.
func (s *journalScan) entry(line []byte, id kindID, listBegan *time.Time) bool {
	var e journalEntry
	begin := bytes.Index(line, objectMember)
	if begin < 0 || json.Unmarshal(line, &e) != nil || e.ObservedAt.IsZero() || e.Object.Kind != kinds[id].Name {
		return false
	}
	begin += len(objectMember)
	if s.size == 0 {
		s.begins, *listBegan = e.ObservedAt, e.ObservedAt
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
		if m.ResourceVersion == "" {
			s.rv, *listBegan = "", e.ObservedAt // a list begins
			return true
		}
		if _, end := m.Annotations[metav1.InitialEventsAnnotationKey]; end {
			s.listed, s.rv, s.good = true, m.ResourceVersion, *listBegan
			return true
		}
	case "DELETED":
		delete(s.known, name)
	case "ADDED", "MODIFIED":
		if m.Name == "" {
			return false
		}
		s.known[name] = knownObject{uid: m.UID, rv: m.ResourceVersion, stored: stored{at: s.size + int64(begin), size: int32(len(line) - 2 - begin)}}
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

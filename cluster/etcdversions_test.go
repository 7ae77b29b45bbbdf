package cluster

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

// The same writes by the servers of several etcd versions are the same history; testdata/etcd/README.md says how they came to be. A segment of the write-ahead log
// in place of a snapshot is refused, whatever the version.
func TestEtcdVersions(t *testing.T) {
	paths, err := filepath.Glob("testdata/etcd/*.db.gz")
	if err != nil || len(paths) != 3 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		journal, err := readAll(path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		left := folded(t, journal)
		for _, want := range []string{"Node /worker-01", "Pod churn-3/web-2-85bb94dd98-9gwqb"} {
			if _, ok := left[want]; !ok {
				t.Errorf("%s: %s is not in it", path, want)
			}
		}
		s := NewState()
		if err := s.Load([]string{path}, nil); err != nil {
			t.Fatal(err)
		}
		if n := s.Summary().Objects["Pod"]; n != 2 || s.Summary().Malformed != 0 {
			t.Errorf("%s: %d pods, %d malformed: %q", path, n, s.Summary().Malformed, s.Summary().Places)
		}
		if n := strings.Count(string(journal), `"DELETED"`); n != 1 {
			t.Errorf("%s: %d deletions", path, n)
		}
		wal := strings.Replace(path, ".db.gz", ".wal.gz", 1)
		if _, err := readAll(wal); !errors.Is(err, errWAL) {
			t.Errorf("%s: %v", wal, err)
		}
	}
}

// Snapshots of two clusters, or of one before and after it was restored, are no history.
func TestEtcdOfOneCluster(t *testing.T) {
	db := func(names ...string) string {
		e := newEtcdDB(t, "key")
		e.compact(0)
		for _, name := range names {
			e.put("/registry/csidrivers/"+name, proto(t, `{"apiVersion":"storage.k8s.io/v1","kind":"CSIDriver","metadata":{"name":"`+name+`","creationTimestamp":"2026-11-21T06:00:00Z"}}`))
		}
		return write(t, strings.Join(names, "-")+".db", string(e.save()))
	}
	first, next, other := db("a", "b"), db("a", "b", "c"), db("a", "x", "y")
	if _, err := readAll(next, first); err != nil {
		t.Errorf("of one cluster: %v", err)
	}
	_, err := readAll(other, first)
	want := "a-x-y.db: not of the same etcd as " + first + ": revision 2 differs"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("of two clusters: %v, want %q", err, want)
	}
	// Of two clusters without a revision that both snapshots have: what is older than the end of the first is not in it, or is another one.
	apart := func(file string, compacted uint64, all ...[2]int) string {
		e := newEtcdDB(t, "key")
		for i, x := range all { // by which revisions it was made and changed last
			name := string(rune('a' + i))
			e.made["/registry/csidrivers/"+name], e.rev = uint64(x[0]), uint64(x[1]-1)
			e.put("/registry/csidrivers/"+name, proto(t, `{"apiVersion":"storage.k8s.io/v1","kind":"CSIDriver","metadata":{"name":"`+name+`","creationTimestamp":"2026-11-21T06:00:00Z"}}`))
		}
		e.compact(compacted)
		return write(t, file, string(e.save()))
	}
	early := apart("early.db", 7, [2]int{2, 2}, [2]int{3, 5}, [2]int{8, 8})
	for _, c := range []struct {
		name  string
		late  [][2]int
		wrong bool
	}{
		{"unchanged", [][2]int{{2, 2}, {3, 5}, {8, 8}, {12, 12}}, false},
		{"changed, and one made again", [][2]int{{2, 11}, {3, 12}, {13, 13}}, false},
		{"without what was deleted", [][2]int{{2, 2}}, false},
		{"with what should have been there", [][2]int{{2, 2}, {3, 5}, {8, 8}, {6, 12}}, true},
		{"with another revision of what has not changed", [][2]int{{2, 4}}, true},
		{"of other objects", [][2]int{{2, 11}, {3, 12}, {8, 13}, {4, 14}}, true},
	} {
		_, err := readAll(apart("late.db", 20, append(c.late, [2]int{30, 30})...), early)
		if (err != nil) != c.wrong || err != nil && !strings.Contains(err.Error(), "late.db: not of the same etcd as "+early) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	s := NewState()
	if err := s.Load([]string{first, other}, nil); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("loading both: %v", err)
	}
}

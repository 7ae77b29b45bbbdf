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
	s := NewState()
	if err := s.Load([]string{first, other}, nil); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("loading both: %v", err)
	}
}

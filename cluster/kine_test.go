package cluster

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/internal/test/effort"
)

// kineSchema is that of kine's driver for SQLite.
const kineSchema = `CREATE TABLE IF NOT EXISTS kine (id INTEGER PRIMARY KEY AUTOINCREMENT, name INTEGER, created INTEGER, deleted INTEGER, create_revision INTEGER,
	prev_revision INTEGER, lease INTEGER, value BLOB, old_value BLOB)`

// kineOf writes what a snapshot of etcd holds as kine has it. It is in the mode in which k3s writes unless all of it is to be in the file.
func kineOf(t *testing.T, snapshot []byte, wal bool) string {
	t.Helper()
	in, err := openInput(write(t, "from.db", string(snapshot)), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer in.close()
	path := filepath.Join(t.TempDir(), "state.db")
	db := openSQL(t, path, wal)
	exec(t, db, kineSchema, `CREATE INDEX kine_name_index ON kine (name)`, `CREATE UNIQUE INDEX kine_name_prev_revision_uindex ON kine (name, prev_revision)`)
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	last := map[string]int64{}
	err = in.etcd.each(func(r etcdRevision, deleted bool, record etcdRecord) error {
		created := 0
		if record.made == r.main {
			created = 1
		}
		gone := 0
		if deleted {
			gone = 1
		}
		_, err := tx.Exec(`INSERT INTO kine (id, name, created, deleted, create_revision, prev_revision, lease, value, old_value) VALUES (?, ?, ?, ?, ?, ?, 0, ?, ?)`,
			r.main, string(record.key), created, gone, record.made, last[string(record.key)], bytes.Clone(record.value), []byte("old"))
		last[string(record.key)] = r.main
		return err
	})
	if err == nil {
		_, err = tx.Exec(`INSERT INTO kine (name, created, deleted, create_revision, prev_revision, lease, value, old_value) VALUES ('compact_rev_key', 1, 0, 0, ?, 0, '', '')`, in.etcd.compacted.main)
	}
	if err = errors.Join(err, tx.Commit()); err != nil {
		t.Fatal(err)
	}
	if !wal {
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// openSQL opens a database, which stays open until the test ends.
func openSQL(t testing.TB, path string, wal bool) *sql.DB {
	t.Helper()
	mode := "delete"
	if wal {
		mode = "wal"
	}
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode("+mode+")&_pragma=wal_autocheckpoint(0)&_pragma=synchronous(off)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func exec(t testing.TB, db *sql.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// Of the same revisions a database of kine gives the same journal as one of etcd: on disk, in the log next to the file, and compressed.
func TestKine(t *testing.T) {
	for seed := range effort.Of(uint64(12), 4) {
		w := newEtcdWorld(t, seed)
		w.run(time.Minute, seed%2 == 0)
		w.snapshot()
		snapshot, err := os.ReadFile(w.paths[0])
		if err != nil {
			t.Fatal(err)
		}
		want, err := readAll(w.paths[0])
		if err != nil {
			t.Fatal(err)
		}
		plain := kineOf(t, snapshot, false)
		b, err := os.ReadFile(plain)
		if err != nil {
			t.Fatal(err)
		}
		logged := kineOf(t, snapshot, true)
		if info, err := os.Stat(logged + "-wal"); err != nil || info.Size() == 0 {
			t.Fatalf("nothing is in the log: %v", err)
		}
		for name, path := range map[string]string{"file": plain, "with a log": logged, "gzip": write(t, "state.db.gz", pack(t, "gz", string(b)))} {
			before, _ := os.ReadDir(filepath.Dir(path))
			got, err := readAll(path)
			if err != nil {
				t.Fatalf("seed %d, %s: %v", seed, name, err)
			}
			if d := cmp.Diff(string(want), string(got)); d != "" {
				t.Fatalf("seed %d, %s: (-etcd +kine):\n%.2000s", seed, name, d)
			}
			if after, _ := os.ReadDir(filepath.Dir(path)); len(after) != len(before) {
				t.Errorf("%s: files were written next to it: %v", name, after)
			}
		}
	}
	for _, pattern := range []string{"nodetrail-etcd-*", "nodetrail-k3s-*"} {
		if left, _ := filepath.Glob(filepath.Join(os.TempDir(), pattern)); len(left) > 0 {
			t.Errorf("temporary files are left: %v", left)
		}
	}
}

// What cannot be used is refused in one sentence, and what SQL somebody else put into the file does not run.
func TestKineRefused(t *testing.T) {
	csi := func(i int) []byte {
		return proto(t, fmt.Sprintf(`{"apiVersion":"storage.k8s.io/v1","kind":"CSIDriver","metadata":{"name":"d%d","annotations":{"x":%q}}}`, i, strings.Repeat("x", 200)))
	}
	e := newEtcdDB(t, "key")
	for i := range 200 {
		e.put(fmt.Sprintf("/registry/csidrivers/d%d", i), csi(i))
	}
	good := kineOf(t, e.save(), false)
	e2 := newEtcdDB(t, "key")
	many := effort.Of(2000, 500)
	for i := range many {
		e2.put(fmt.Sprintf("/registry/csidrivers/d%d", i), csi(i))
	}
	b, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(name, path, want string) {
		t.Helper()
		got, err := readAll(path)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, %d bytes", name, err, len(got))
		}
	}
	changed := func(statements ...string) string {
		path := write(t, "state.db", string(b))
		db := openSQL(t, path, false)
		exec(t, db, statements...)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		return path
	}
	refused("half of it", write(t, "state.db", string(b[:len(b)/2])), "the database of k3s is damaged: it is cut off")
	refused("its head", write(t, "state.db", string(b[:60])), "the database of k3s is damaged: it is cut off")
	refused("an encrypted object", changed(`UPDATE kine SET value = CAST('k8s:enc:aescbc:v1:key:abc' AS BLOB) WHERE id = 7`), `the snapshot holds csidrivers encrypted ("aescbc")`)
	refused("an object that is none", changed(`UPDATE kine SET value = 'x' WHERE id = 7`), `the database of k3s is damaged: "/registry/csidrivers/d6" is neither protobuf nor JSON`)
	refused("an object that is a number", changed(`UPDATE kine SET value = 5 WHERE id = 7`), `the database of k3s is damaged`)
	refused("a value of a gigabyte", changed(`UPDATE kine SET value = zeroblob(40000000) WHERE id = 7`), `revision 7 has a value of 40000000 bytes`)
	refused("no rows", changed(`DELETE FROM kine`), "it holds no Kubernetes objects")
	refused("no table", changed(`DROP TABLE kine`), "a SQLite database, but not of k3s")
	refused("no column", changed(`ALTER TABLE kine DROP COLUMN deleted`), "the database of k3s is damaged: ")
	refused("a view", changed(`ALTER TABLE kine RENAME TO other`, `CREATE VIEW kine AS SELECT * FROM other`), "a SQLite database, but not of k3s")
	refused("the store of run", changed(`DROP TABLE kine`, `CREATE TABLE lanes (x)`, `CREATE TABLE findings (x)`), "the store of nodetrail run, not cluster state")
	odd := write(t, "state.db", string(b))
	if err := os.Mkdir(odd+"-wal", 0o700); err != nil {
		t.Fatal(err)
	}
	refused("a folder as its log", odd, "state.db-wal next to it is not a file")
	busy := kineOf(t, e2.save(), true)
	writer := openSQL(t, busy, true)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() { // k3s, which writes all the time. Nothing of the log is taken over while somebody reads, so that it is bounded here.
		defer close(stopped)
		for range 5000 {
			select {
			case <-stop:
				return
			default:
				_, _ = writer.Exec(`UPDATE kine SET lease = lease + 1 WHERE id = 1`)
			}
		}
	}()
	for range effort.Of(20, 4) {
		if got, err := readAll(busy); err == nil && len(folded(t, got)) != many || err != nil && !errors.Is(err, errInUse) {
			t.Errorf("while it is written: %v", err)
		}
	}
	close(stop)
	<-stopped
	before := kineState(busy)
	if _, err := writer.Exec(`UPDATE kine SET lease = 0 WHERE id = 1`); err != nil || kineState(busy) == before {
		t.Errorf("a write goes unnoticed: %v", err)
	}
	broken := 0
	for seed := range effort.Of(uint64(300), 20) {
		r := rand.New(rand.NewPCG(seed, 3))
		bad := bytes.Clone(b)
		for range 1 + r.IntN(100) {
			bad[len(sqliteHead)+r.IntN(len(bad)-len(sqliteHead))] = byte(r.Uint32())
		}
		if seed%3 == 0 {
			bad = bad[:r.IntN(len(bad)-len(sqliteHead))+len(sqliteHead)]
		}
		if _, err := readAll(write(t, "state.db", string(bad))); err != nil {
			broken++
			if !errors.Is(err, errKine) && !errors.Is(err, errNotKine) && !errors.Is(err, errNoKeys) || strings.Contains(err.Error(), "\n") {
				t.Errorf("seed %d: %v", seed, err)
			}
		}
	}
	if broken == 0 {
		t.Error("no damage was noticed")
	}
}

// All keys of a cluster have one prefix. It is found if there is one, whatever it is; where there are several nothing is guessed.
func TestEtcdPrefix(t *testing.T) {
	namespace := []byte("k8s\x00ns")
	for _, c := range []struct {
		keys  []string // of a CSIDriver, or of a namespace
		given string
		want  string // of the error, "" for none
		found []string
	}{
		{[]string{"/registry/csidrivers/a"}, "", "", []string{"a"}},
		{[]string{"/kubernetes.io/csidrivers/a"}, "", "", []string{"a"}},
		{[]string{"/kubernetes.io/csidrivers/a"}, "kubernetes.io/", "", []string{"a"}},
		{[]string{"/prod/k8s/csidrivers/a", "/prod/k8s/namespaces/kube-system"}, "", "", []string{"a"}},
		{[]string{"/prod/csidrivers/a"}, "", "it holds no Kubernetes objects under /registry or /kubernetes.io", nil},
		{[]string{"/prod/csidrivers/a"}, "/prod", "", []string{"a"}},
		{[]string{"/registry/csidrivers/a", "/kubernetes.io/csidrivers/b"}, "", `it holds several clusters, under "/kubernetes.io" and "/registry": choose one with --etcd-prefix`, nil},
		{[]string{"/registry/csidrivers/a", "/kubernetes.io/csidrivers/b"}, "/registry", "", []string{"a"}},
		{[]string{"/registry/csidrivers/a", "/prod/csidrivers/b", "/prod/namespaces/kube-system"}, "", `it holds several clusters, under "/prod" and "/registry"`, nil},
		{[]string{"/one/csidrivers/a", "/one/namespaces/kube-system", "/two/namespaces/kube-system"}, "", `it holds several clusters, under "/one" and "/two"`, nil},
		// Who may make namespaces and objects in one cluster does not make a second one.
		{[]string{"/registry/csidrivers/a", "/registry/configmaps/namespaces/kube-system", "/registry/namespaces/kube-system"}, "", "", []string{"a"}},
		{[]string{"/prod/csidrivers/a", "/prod/namespaces/kube-system", "/prod/configmaps/namespaces/kube-system"}, "", "", []string{"a"}},
		// A prefix that begins like another one is another one.
		{[]string{"/registry/csidrivers/a", "/registry2/csidrivers/b"}, "", "", []string{"a"}},
		{[]string{"/registry2/csidrivers/b", "/registry2/namespaces/kube-system"}, "/registry", `it holds no Kubernetes objects under "/registry", but under "/registry2"`, nil},
		{[]string{"/registry/csidrivers/a"}, "/nothing", `it holds no Kubernetes objects under "/nothing"`, nil},
		{[]string{"/openshift.io/x/y", "/kubernetes.io/csidrivers/a"}, "", "", []string{"a"}},
	} {
		e := newEtcdDB(t, "key")
		for _, key := range c.keys {
			_, name, _ := strings.Cut(key, "csidrivers/")
			value := namespace
			if name != "" {
				value = proto(t, strings.Replace(`{"apiVersion":"storage.k8s.io/v1","kind":"CSIDriver","metadata":{"name":"NAME"}}`, "NAME", name, 1))
			}
			e.put(key, value)
		}
		b := e.save()
		for kind, path := range map[string]string{"etcd": write(t, "snap.db", string(b)), "kine": kineOf(t, b, false)} {
			given, err := CheckEtcdPrefix(c.given)
			if err != nil {
				t.Fatal(err)
			}
			s := NewState()
			s.EtcdPrefix = given
			err = s.Load([]string{path}, nil)
			switch {
			case c.want != "":
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%s of %v with %q: %v, want %s", kind, c.keys, c.given, err, c.want)
				}
			case err != nil || s.Summary().Objects["CSIDriver"] != len(c.found):
				t.Errorf("%s of %v with %q: %v, %v", kind, c.keys, c.given, s.Summary().Objects, err)
			}
		}
	}
	for _, bad := range []string{"/", "//", "/a//b", "a b", "/a\x00", strings.Repeat("a", 300)} {
		if got, err := CheckEtcdPrefix(bad); err == nil {
			t.Errorf("%q is taken as %q", bad, got)
		}
	}
}

// A compressed file that would fill the disk is refused long before, and leaves nothing there.
func TestSnapshotExpands(t *testing.T) {
	zeros := pack(t, "gz", string(make([]byte, 1<<20)))
	for _, head := range []string{sqliteHead, strings.Repeat("\x00", 16) + "\xED\xDA\x0C\xED"} {
		first := pack(t, "gz", head)
		r, w := io.Pipe()
		go func() {
			_, err := io.WriteString(w, first)
			for range 16 << 10 {
				if err == nil {
					_, err = io.WriteString(w, zeros)
				}
			}
			_ = w.CloseWithError(errors.Join(err, io.EOF))
		}()
		in, err := openInput("-", r)
		_ = r.Close()
		if err == nil {
			in.close()
		}
		if !errors.Is(err, errExpands) {
			t.Errorf("%q and 16 GiB of zeros: %v", head, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "nodetrail-etcd-*")); len(left) > 0 {
		t.Errorf("temporary files are left: %v", left)
	}
}

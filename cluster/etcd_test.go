package cluster

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	bolt "go.etcd.io/bbolt"
	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/nodeauthz"
)

// etcdDB writes revisions as etcd's MVCC store does: the bucket, the form of revisions and tombstones, and mvccpb.KeyValue.
type etcdDB struct {
	t    testing.TB
	db   *bolt.DB
	rev  uint64
	made map[string]uint64 // the revision that made each key that there is

	unwritten []etcdPair
}

// etcdPair is a key of the database with its value.
type etcdPair struct{ key, value []byte }

func newEtcdDB(t testing.TB, bucket string) *etcdDB {
	t.Helper()
	db, err := bolt.Open(filepath.Join(t.TempDir(), "db"), 0o600, &bolt.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	e := &etcdDB{t: t, db: db, made: map[string]uint64{}}
	e.update(func(tx *bolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists([]byte(bucket))
		return err
	})
	return e
}

// update is a transaction, with what put has not written yet.
func (e *etcdDB) update(f func(tx *bolt.Tx) error) {
	e.t.Helper()
	err := e.db.Update(func(tx *bolt.Tx) error {
		for _, r := range e.unwritten {
			if err := tx.Bucket([]byte("key")).Put(r.key, r.value); err != nil {
				return err
			}
		}
		return f(tx)
	})
	if err != nil {
		e.t.Fatal(err)
	}
	e.unwritten = e.unwritten[:0]
}

// flush writes what put has not written yet.
func (e *etcdDB) flush() {
	e.t.Helper()
	e.update(func(*bolt.Tx) error { return nil })
}

// put stores a value; nil deletes the key. Many of them are one transaction, as those of etcd are.
func (e *etcdDB) put(key string, value []byte) {
	e.t.Helper()
	k, kv := e.next(key, value)
	if e.unwritten = append(e.unwritten, etcdPair{k, kv}); len(e.unwritten) == 10_000 {
		e.flush()
	}
}

// compact says that etcd was compacted at a revision, whatever is left of what was before.
func (e *etcdDB) compact(rev uint64) {
	e.t.Helper()
	e.update(func(tx *bolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists([]byte("meta"))
		if err == nil {
			err = b.Put([]byte("finishedCompactRev"), etcdRevision{main: int64(rev)}.key())
		}
		return err
	})
}

// next makes the next revision.
func (e *etcdDB) next(key string, value []byte) (k, kv []byte) {
	e.rev++
	k = etcdRevision{main: int64(e.rev)}.key()
	kv = protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), []byte(key))
	if value == nil {
		delete(e.made, key)
		return append(k, 't'), kv
	}
	if e.made[key] == 0 {
		e.made[key] = e.rev
	}
	kv = protowire.AppendVarint(protowire.AppendTag(kv, 2, protowire.VarintType), e.made[key])
	kv = protowire.AppendVarint(protowire.AppendTag(kv, 3, protowire.VarintType), e.rev)
	return k, protowire.AppendBytes(protowire.AppendTag(kv, 5, protowire.BytesType), value)
}

// save ends the database and returns its bytes, with the checksum that etcdctl adds.
func (e *etcdDB) save() []byte {
	e.t.Helper()
	if len(e.unwritten) > 0 {
		e.flush()
	}
	path := e.db.Path()
	if err := e.db.Close(); err != nil {
		e.t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		e.t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

// proto stores an object, given as JSON, as Kubernetes does.
func proto(t testing.TB, text string) []byte {
	t.Helper()
	var meta struct{ APIVersion, Kind string }
	if err := json.Unmarshal([]byte(text), &meta); err != nil {
		t.Fatal(err)
	}
	o := storedTypes[meta.APIVersion+"/"+meta.Kind]()
	if err := json.Unmarshal([]byte(text), o); err != nil {
		t.Fatal(err)
	}
	raw, err := o.(interface{ Marshal() ([]byte, error) }).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	b, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: meta.APIVersion, Kind: meta.Kind}, Raw: raw}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte("k8s\x00"), b...)
}

// folded are the objects that there are at the end of a journal, by key, each with what names its version.
func folded(t *testing.T, journal []byte) map[string]string {
	t.Helper()
	out := map[string]string{}
	for line := range bytes.Lines(journal) {
		var e struct {
			Type   string
			Object struct {
				Kind     string
				Metadata struct {
					Namespace, Name string
					Labels          map[string]string
				}
			}
		}
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		m := &e.Object.Metadata
		key := e.Object.Kind + " " + m.Namespace + "/" + m.Name
		_, known := out[key]
		switch e.Type {
		case "BOOKMARK":
		case "DELETED":
			if !known {
				t.Errorf("%s was not there when it was deleted", key)
			}
			delete(out, key)
		default:
			if known != (e.Type == "MODIFIED") {
				t.Errorf("%s is %s, and known before: %t", key, e.Type, known)
			}
			out[key] = m.Labels["version"]
		}
	}
	return out
}

// readAll reads snapshots as one journal.
func readAll(paths ...string) ([]byte, error) {
	var all []*etcdSnapshot
	defer func() {
		for _, e := range all {
			e.close()
		}
	}()
	for _, path := range paths {
		in, err := openInput(path, nil)
		if err != nil {
			return nil, err
		}
		if in.etcd == nil {
			in.close()
			return nil, errors.New("not a snapshot of etcd")
		}
		all = append(all, in.etcd)
	}
	h, err := newEtcdHistory(all, "")
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	_, err = b.ReadFrom(h)
	return b.Bytes(), err
}

// Whatever happened to keys, a snapshot gives each object that matters as it was last, and none that is gone; and no Secret.
func TestEtcdHistories(t *testing.T) {
	resources := map[string][2]string{
		"pods": {"v1", "Pod"}, "minions": {"v1", "Node"}, "clusterrolebindings": {rbacGroup + "/v1", "ClusterRoleBinding"}, "roles": {rbacGroup + "/v1", "Role"},
		"resourceslices": {"resource.k8s.io/v1beta1", "ResourceSlice"}, "csidrivers": {"storage.k8s.io/v1", "CSIDriver"},
	}
	for seed := range effort.Of(uint64(60), 4) {
		r := rand.New(rand.NewPCG(seed, 1))
		e := newEtcdDB(t, "key")
		want := map[string]string{}
		prefix := []string{"/registry/", "/kubernetes.io/"}[seed%2]
		e.put(prefix+"csidrivers/always", proto(t, `{"apiVersion":"storage.k8s.io/v1","kind":"CSIDriver","metadata":{"name":"always","labels":{"version":"1"}}}`))
		want["CSIDriver /always"] = "1"
		for i := range 100 + r.IntN(200) {
			for resource, type_ := range resources {
				if r.IntN(4) > 0 {
					continue
				}
				ns, name := "", fmt.Sprintf("n%d", r.IntN(12))
				key := prefix + resource + "/" + name
				if resource == "pods" || resource == "roles" {
					ns = "shop"
					key = prefix + resource + "/shop/" + name
				}
				id := type_[1] + " " + ns + "/" + name
				if r.IntN(3) == 0 {
					e.put(key, nil)
					delete(want, id)
					continue
				}
				version := fmt.Sprint(i + 2)
				text := fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"namespace":%q,"name":%q,"labels":{"version":%q}}}`, type_[0], type_[1], ns, name, version)
				e.put(key, proto(t, text))
				want[id] = version
			}
			e.put(prefix+"secrets/shop/db", []byte("k8s:enc:aescbc:v1:key1:\x00\x01"))
			e.put(prefix+"leases/kube-node-lease/worker-1", []byte("anything"))
			e.put("compact_rev_key", []byte("12"))
			e.put(prefix+"events/shop/x", []byte("\x00"))
		}
		b := e.save()
		for name, path := range map[string]string{
			"snapshot": write(t, "snap.db", string(b)), "copy of the database": write(t, "db", string(b[:len(b)-etcdSum])), "gzip": write(t, "snap.db.gz", pack(t, "gz", string(b))),
		} {
			got, err := readAll(path)
			if err != nil {
				t.Fatalf("seed %d: %s: %v", seed, name, err)
			}
			if d := cmp.Diff(want, folded(t, got)); d != "" {
				t.Fatalf("seed %d: %s: (-want +got):\n%s", seed, name, d)
			}
		}
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "nodetrail-etcd-*")); len(left) > 0 {
		t.Errorf("temporary files are left: %v", left)
	}
}

// State from a snapshot is state from a list of the same objects.
func TestEtcdState(t *testing.T) {
	pod := podJSON(t, "web-1", "u1", "w1", "1m", "1m", "")
	lease := `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"namespace":"kube-system","name":"apiserver-x","uid":"u2","creationTimestamp":"2026-11-21T05:00:00Z",
		"labels":{"apiserver.kubernetes.io/identity":"kube-apiserver"}},"spec":{"holderIdentity":"x","leaseDurationSeconds":3600,"renewTime":"2026-11-21T07:00:00.123456Z"}}`
	e := newEtcdDB(t, "key")
	e.put("/registry/pods/shop/web-1", proto(t, pod))
	e.put("/registry/leases/kube-system/apiserver-x", proto(t, lease))
	e.put("/registry/pods/shop/gone", proto(t, podJSON(t, "gone", "u3", "w1", "1m", "1m", "")))
	e.put("/registry/pods/shop/gone", nil)
	list := load(t, `{"kind":"List","apiVersion":"v1","items":[`+lease+`,`+pod+`]}`)
	snapshot := load(t, string(e.save()))
	if d := cmp.Diff(list.Summary(), snapshot.Summary(), cmpopts.IgnoreFields(Summary{}, "From", "To")); d != "" {
		t.Errorf("(-list +snapshot):\n%s", d)
	}
	if got := snapshot.Summary().From; !got.Equal(time.Date(2026, 11, 21, 7, 0, 0, 123456000, time.UTC)) {
		t.Errorf("the snapshot is of %s", got) // as the API server's Lease says
	}
	for _, s := range []*State{list, snapshot} {
		if got := timeline(t, s.Graph, "shop", "web-1", "59s", "1m2s", "2h"); !cmp.Equal(got, []string{"-", "w1", "w1"}) {
			t.Errorf("%q", got)
		}
		if got := timeline(t, s.Graph, "shop", "gone", "1m2s"); got[0] != "-" {
			t.Errorf("a pod that is gone is on %q", got)
		}
	}
}

// Between the end of a snapshot and a list that was made later nobody watched.
func TestEtcdThenList(t *testing.T) {
	pod := func(name, uid, created string) string { return podJSON(t, name, uid, "w1", created, created, "") }
	e := newEtcdDB(t, "key")
	e.compact(0)
	e.put("/registry/pods/shop/stays", proto(t, pod("stays", "u1", "1m")))
	e.put("/registry/pods/shop/goes", proto(t, pod("goes", "u2", "2m")))
	list := `{"kind":"List","apiVersion":"v1","items":[` + pod("stays", "u1", "1m") + `,` + pod("new", "u3", "20m") + `]}`
	s := NewState()
	if err := s.Load([]string{write(t, "list.json", list), write(t, "snap.db", string(e.save()))}, nil); err != nil {
		t.Fatal(err)
	}
	a := nodeauthz.NewAuthorizer(s.Graph, features(t), time.Second)
	for text, want := range map[string]string{
		"stays 90s": "allow", "stays 10m": "allow", "stays 30m": "allow", "goes 90s": "deny", "goes 10m": "unknown", "goes 30m": "deny",
		"other 110s": "deny", "other 10m": "unknown", "other 30m": "deny", "new 10m": "unknown", "new 30m": "allow",
	} {
		name, instant, _ := strings.Cut(text, " ")
		if got := podVerdict(a, name, at(t, instant)); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// What cannot be used is refused in one sentence.
func TestEtcdRefused(t *testing.T) {
	csi := proto(t, `{"apiVersion":"storage.k8s.io/v1","kind":"CSIDriver","metadata":{"name":"a"}}`)
	whole := func(f func(e *etcdDB)) []byte {
		e := newEtcdDB(t, "key")
		e.put("/registry/csidrivers/a", csi)
		f(e)
		return e.save()
	}
	good := whole(func(*etcdDB) {})
	flipped := bytes.Clone(good)
	flipped[len(flipped)/2] ^= 1
	other := newEtcdDB(t, "users").save()
	empty := newEtcdDB(t, "key")
	empty.put("/calico/x", []byte("y"))
	wal := append(binary.LittleEndian.AppendUint64(nil, 0x8400000000000004), 0x08, 0x04, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	f := func(name string, b []byte, want string) {
		t.Helper()
		_, err := readAll(write(t, "snap.db", string(b)))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
	f("a changed byte", flipped, "the etcd snapshot is damaged: its checksum is wrong")
	f("half of it", good[:len(good)/2+7], "the etcd snapshot is damaged: it is cut off")
	packed := pack(t, "gz", string(good))
	f("half of it, compressed", []byte(packed[:len(packed)/2]), "the compressed data is cut off")
	f("an encrypted object", whole(func(e *etcdDB) { e.put("/registry/pods/shop/a", []byte("k8s:enc:kms:v2:prod:\x01")) }), "the snapshot holds pods encrypted (\"kms\")")
	f("no object at all", whole(func(e *etcdDB) { e.put("/registry/pods/shop/a", []byte("x")) }), "neither protobuf nor JSON")
	f("torn protobuf", whole(func(e *etcdDB) { e.put("/registry/csidrivers/a", csi[:len(csi)/2]) }), "\"/registry/csidrivers/a\" cannot be read")
	f("a database of something else", other, "not of etcd")
	f("etcd of something else", empty.save(), "no Kubernetes objects under /registry or /kubernetes.io")
	f("a write-ahead log", wal, "a write-ahead log of etcd, not a snapshot")
}

// Damage that no checksum shows ends in an error or in objects, never in a crash.
func TestEtcdDamaged(t *testing.T) {
	e := newEtcdDB(t, "key")
	for i := range 300 {
		e.put(fmt.Sprintf("/registry/csidrivers/d%d", i), proto(t, fmt.Sprintf(`{"apiVersion":"storage.k8s.io/v1","kind":"CSIDriver","metadata":{"name":"d%d"}}`, i)))
	}
	b := e.save()
	b = b[:len(b)-etcdSum]
	refused := 0
	for seed := range effort.Of(uint64(400), 60) {
		r := rand.New(rand.NewPCG(seed, 2))
		bad := bytes.Clone(b)
		for range 1 + r.IntN(200) {
			bad[r.IntN(len(bad))] = byte(r.Uint32())
		}
		if seed%3 == 0 {
			bad = bad[:(len(bad)/2)/etcdSector*etcdSector]
		}
		if _, err := readAll(write(t, "db", string(bad))); err != nil {
			refused++
			if !errors.Is(err, errSnapshot) && !errors.Is(err, errNoKeys) && !errors.Is(err, errBinary) && !strings.Contains(err.Error(), "bbolt") {
				t.Errorf("seed %d: %v", seed, err)
			}
		}
	}
	if refused == 0 {
		t.Error("nothing was refused")
	}
}

package cluster

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"google.golang.org/protobuf/encoding/protowire"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	errWAL       = errors.New("a write-ahead log of etcd, not a snapshot: take one with 'etcdctl snapshot save'")
	errSnapshot  = errors.New("the etcd snapshot is damaged")
	errEtcdInUse = errors.New("etcd has this file open: take a snapshot with 'etcdctl snapshot save'")
	errNoKeys    = errors.New("the etcd snapshot holds no Kubernetes objects under /registry or /kubernetes.io")
)

const (
	etcdHead   = 20         // bytes of a database of bbolt that tell what it is
	boltMagic  = 0xED0CDAED // at byte 16
	etcdSum    = sha256.Size
	etcdSector = 512
)

// isEtcd tells a database of etcd by its first bytes.
func isEtcd(head []byte) bool {
	return len(head) >= etcdHead && binary.LittleEndian.Uint32(head[16:]) == boltMagic
}

// isWAL tells a segment of etcd's write-ahead log: a frame's length, then a record of the type that holds a checksum.
func isWAL(head []byte) bool {
	return len(head) >= etcdHead && head[7]&0x78 == 0 && bytes.Equal(head[8:11], []byte{0x08, 0x04, 0x10})
}

// etcdResources are the kinds by their part of the key in etcd.
var etcdResources = func() map[string]kindID {
	out := map[string]kindID{"minions": kindNode} // the name of before Kubernetes 1.0
	for id := range kinds {
		if kindID(id) != kindNode {
			out[kinds[id].Resource] = kindID(id)
		}
	}
	return out
}()

// storedObject is an object as Kubernetes stores it: protobuf.
type storedObject interface {
	Unmarshal(b []byte) error
	runtime.Object
}

// storedTypes makes an object of each kind and version that etcd may hold.
var storedTypes = map[string]func() storedObject{
	"v1/Pod":                                            func() storedObject { return &corev1.Pod{} },
	"v1/Node":                                           func() storedObject { return &corev1.Node{} },
	"v1/PersistentVolume":                               func() storedObject { return &corev1.PersistentVolume{} },
	"v1/PersistentVolumeClaim":                          func() storedObject { return &corev1.PersistentVolumeClaim{} },
	"v1/ServiceAccount":                                 func() storedObject { return &corev1.ServiceAccount{} },
	rbacGroup + "/v1/ClusterRole":                       func() storedObject { return &rbacv1.ClusterRole{} },
	rbacGroup + "/v1/ClusterRoleBinding":                func() storedObject { return &rbacv1.ClusterRoleBinding{} },
	rbacGroup + "/v1/Role":                              func() storedObject { return &rbacv1.Role{} },
	rbacGroup + "/v1/RoleBinding":                       func() storedObject { return &rbacv1.RoleBinding{} },
	"storage.k8s.io/v1/VolumeAttachment":                func() storedObject { return &storagev1.VolumeAttachment{} },
	"storage.k8s.io/v1/CSIDriver":                       func() storedObject { return &storagev1.CSIDriver{} },
	"coordination.k8s.io/v1/Lease":                      func() storedObject { return &coordinationv1.Lease{} },
	"resource.k8s.io/v1/ResourceSlice":                  func() storedObject { return &resourcev1.ResourceSlice{} },
	"resource.k8s.io/v1beta2/ResourceSlice":             func() storedObject { return &resourcev1beta2.ResourceSlice{} },
	"resource.k8s.io/v1beta1/ResourceSlice":             func() storedObject { return &resourcev1beta1.ResourceSlice{} },
	"certificates.k8s.io/v1/PodCertificateRequest":      func() storedObject { return &certificatesv1.PodCertificateRequest{} },
	"certificates.k8s.io/v1beta1/PodCertificateRequest": func() storedObject { return &certificatesv1beta1.PodCertificateRequest{} },
}

// etcdReader reads a snapshot of etcd as a JSON list of the objects that matter, each as it was last, without holding more than one in memory. Secrets are
// not read.
type etcdReader struct {
	db      *bolt.DB
	tx      *bolt.Tx
	cursor  *bolt.Cursor
	spooled string // a file to be removed
	begun   bool   // the cursor stands on a revision
	listed  bool   // the list has an object
	ended   bool
	seen    map[string]struct{}
	buf     bytes.Buffer
}

// openEtcd opens a database of etcd: the file of that name, or, where it is compressed or comes from standard input, the contents, which go into a
// temporary file first.
func openEtcd(path string, contents io.Reader, plain bool) (*etcdReader, error) {
	e := &etcdReader{seen: map[string]struct{}{}}
	if !plain {
		var err error
		if path, err = spool(contents); err != nil {
			return nil, err
		}
		e.spooled = path
	}
	err := checkSum(path)
	if err == nil {
		err = guarded(func() error { return e.open(path) })
	}
	if err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

func (e *etcdReader) open(path string) (err error) {
	if e.db, err = bolt.Open(path, 0o400, &bolt.Options{ReadOnly: true, Timeout: time.Second}); err != nil {
		if errors.Is(err, bolterrors.ErrTimeout) {
			return errEtcdInUse
		}
		return fmt.Errorf("%w: %w", errSnapshot, err)
	}
	if e.tx, err = e.db.Begin(false); err != nil {
		return fmt.Errorf("%w: %w", errSnapshot, err)
	}
	revisions := e.tx.Bucket([]byte("key"))
	if revisions == nil {
		return errors.New("a database of bbolt, but not of etcd: it has no revisions of keys")
	}
	e.cursor = revisions.Cursor()
	return nil
}

// spool writes what is read into a temporary file.
func spool(r io.Reader) (path string, err error) {
	f, err := os.CreateTemp("", "nodetrail-etcd-")
	if err != nil {
		return "", plain(err)
	}
	_, err = io.Copy(f, r)
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(f.Name())
		return "", err
	}
	return f.Name(), nil
}

// checkSum holds a snapshot against the checksum that 'etcdctl snapshot save' writes at its end. A copy of a database has none.
func checkSum(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return plain(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return plain(err)
	}
	switch info.Size() % etcdSector {
	case 0:
		return nil
	case etcdSum:
	default:
		return fmt.Errorf("%w: it is cut off", errSnapshot)
	}
	h := sha256.New()
	if _, err := io.CopyN(h, f, info.Size()-etcdSum); err != nil {
		return plain(err)
	}
	want := make([]byte, etcdSum)
	if _, err := io.ReadFull(f, want); err != nil {
		return plain(err)
	}
	if !bytes.Equal(h.Sum(nil), want) {
		return fmt.Errorf("%w: its checksum is wrong", errSnapshot)
	}
	return nil
}

// guarded calls f. A database whose pages are damaged makes bbolt panic, or points outside of the file.
func guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: its pages contradict each other", errSnapshot)
		}
	}()
	return f()
}

func (e *etcdReader) close() {
	_ = guarded(func() error {
		if e.tx != nil {
			_ = e.tx.Rollback() // of a transaction that only reads
		}
		if e.db != nil {
			_ = e.db.Close()
		}
		return nil
	})
	if e.spooled != "" {
		_ = os.Remove(e.spooled)
	}
}

// Read gives the next part of the list.
func (e *etcdReader) Read(p []byte) (int, error) {
	for e.buf.Len() == 0 {
		if e.ended {
			return 0, io.EOF
		}
		if err := guarded(e.more); err != nil {
			return 0, err
		}
	}
	return e.buf.Read(p)
}

// more adds the next object to the buffer. It goes from the latest revision to the first, so that what it sees first of a key is what the key was last.
func (e *etcdReader) more() error {
	step := e.cursor.Prev
	if !e.begun {
		step = e.cursor.Last
	}
	for k, v := step(); k != nil; k, v = e.cursor.Prev() {
		e.begun = true
		tombstone := len(k) > 17 && k[17] == 't'
		key, value, err := keyValue(v)
		if err != nil {
			return err
		}
		id, ok := kindOfKey(key)
		if !ok {
			continue
		}
		if _, ok := e.seen[string(key)]; ok {
			continue
		}
		e.seen[string(key)] = struct{}{}
		if tombstone {
			continue
		}
		object, err := storedJSON(id, key, value)
		if err != nil {
			return err
		}
		sep := ","
		if !e.listed {
			sep = `{"kind":"List","apiVersion":"v1","items":[`
		}
		e.buf.WriteString(sep)
		e.buf.Write(object)
		e.listed = true
		return nil
	}
	e.ended = true
	if !e.listed {
		return errNoKeys
	}
	e.buf.WriteString("]}")
	return nil
}

// keyValue reads etcd's record of a revision: mvccpb.KeyValue, whose field 1 is the key and 5 the value.
func keyValue(b []byte) (key, value []byte, err error) {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil, nil, fmt.Errorf("%w: a revision cannot be read", errSnapshot)
		}
		b = b[n:]
		if typ == protowire.BytesType {
			v, n := protowire.ConsumeBytes(b)
			if n < 0 {
				return nil, nil, fmt.Errorf("%w: a revision cannot be read", errSnapshot)
			}
			switch num {
			case 1:
				key = v
			case 5:
				value = v
			}
			b = b[n:]
			continue
		}
		if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
			return nil, nil, fmt.Errorf("%w: a revision cannot be read", errSnapshot)
		}
		b = b[n:]
	}
	return key, value, nil
}

// kindOfKey tells the kind by a key such as /registry/pods/shop/web-1. OpenShift's keys begin with /kubernetes.io.
func kindOfKey(key []byte) (kindID, bool) {
	rest, ok := bytes.CutPrefix(key, []byte("/registry/"))
	if !ok {
		if rest, ok = bytes.CutPrefix(key, []byte("/kubernetes.io/")); !ok {
			return 0, false
		}
	}
	resource, name, _ := bytes.Cut(rest, []byte("/"))
	id, ok := etcdResources[string(resource)]
	if !ok || id == kindLease && !bytes.HasPrefix(name, []byte(serversNamespace+"/")) {
		return 0, false
	}
	return id, true
}

// storedJSON makes JSON of an object as it is stored.
func storedJSON(id kindID, key, value []byte) ([]byte, error) {
	if bytes.HasPrefix(value, []byte("{")) {
		return value, nil
	}
	if rest, ok := bytes.CutPrefix(value, []byte("k8s:enc:")); ok {
		how, _, _ := bytes.Cut(rest, []byte(":"))
		return nil, fmt.Errorf("the snapshot holds %s encrypted (%.20q): nodetrail does not decrypt; record the state with 'nodetrail record'", kinds[id].Resource, how)
	}
	raw, ok := bytes.CutPrefix(value, []byte("k8s\x00"))
	if !ok {
		return nil, fmt.Errorf("%w: %.200q is neither protobuf nor JSON of Kubernetes", errSnapshot, key)
	}
	var unknown runtime.Unknown
	if err := unknown.Unmarshal(raw); err != nil {
		return nil, fmt.Errorf("%w: %.200q cannot be read", errSnapshot, key)
	}
	name := unknown.APIVersion + "/" + unknown.Kind
	newObject, ok := storedTypes[name]
	if !ok {
		// A version that nobody serves any more, or not yet: without its content, but it is named.
		return json.Marshal(map[string]string{"apiVersion": unknown.APIVersion, "kind": unknown.Kind})
	}
	o := newObject()
	if err := o.Unmarshal(unknown.Raw); err != nil {
		return nil, fmt.Errorf("%w: %.200q cannot be read", errSnapshot, key)
	}
	o.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(unknown.APIVersion, unknown.Kind))
	return json.Marshal(o)
}

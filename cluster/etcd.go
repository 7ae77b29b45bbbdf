package cluster

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
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

// etcdRevision is a revision of etcd: changes of one transaction differ in sub alone.
type etcdRevision struct{ main, sub int64 }

func (r etcdRevision) compare(o etcdRevision) int {
	return cmp.Or(cmp.Compare(r.main, o.main), cmp.Compare(r.sub, o.sub))
}

// revisionKey is the length of a revision's key: two numbers with an underscore between. That of a deletion has a 't' at its end.
const revisionKey = 17

// key is that of a revision that put a value.
func (r etcdRevision) key() []byte {
	k := binary.BigEndian.AppendUint64(make([]byte, 0, revisionKey), uint64(r.main))
	return binary.BigEndian.AppendUint64(append(k, '_'), uint64(r.sub))
}

func parseRevision(key []byte) (r etcdRevision, deleted, ok bool) {
	if len(key) < revisionKey {
		return r, false, false
	}
	r = etcdRevision{int64(binary.BigEndian.Uint64(key)), int64(binary.BigEndian.Uint64(key[9:]))}
	return r, len(key) > revisionKey && key[revisionKey] == 't', true
}

// etcdSnapshot is an opened database of etcd.
type etcdSnapshot struct {
	path      string // for messages
	db        *bolt.DB
	tx        *bolt.Tx
	revisions *bolt.Bucket
	pages     mapped
	spooled   string // a file to be removed
	// compacted is the revision before which only the latest change of each key is there, and last the latest.
	compacted, last etcdRevision
}

// openEtcd opens a database of etcd: the file of that name, or, where it is compressed or comes from standard input, the contents, which go into a
// temporary file first.
func openEtcd(path string, contents io.Reader, plain bool) (*etcdSnapshot, error) {
	e := &etcdSnapshot{path: path}
	if path == "-" {
		e.path = stdinName
	}
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

func (e *etcdSnapshot) open(path string) (err error) {
	if e.db, err = bolt.Open(path, 0o400, &bolt.Options{ReadOnly: true, Timeout: time.Second}); err != nil {
		if errors.Is(err, bolterrors.ErrTimeout) {
			return errEtcdInUse
		}
		return fmt.Errorf("%w: %w", errSnapshot, err)
	}
	if e.tx, err = e.db.Begin(false); err != nil {
		return fmt.Errorf("%w: %w", errSnapshot, err)
	}
	e.pages = mappedBy(e.db, e.tx.Size())
	if e.revisions = e.tx.Bucket([]byte("key")); e.revisions == nil {
		return errors.New("a database of bbolt, but not of etcd: it has no revisions of keys")
	}
	k, _ := e.revisions.Cursor().Last()
	if e.last, _, _ = parseRevision(k); k == nil {
		return errNoKeys
	}
	e.compacted = e.last // unless etcd says which it was, all that is known is the end
	if meta := e.tx.Bucket([]byte("meta")); meta != nil {
		e.compacted = etcdRevision{}
		for _, name := range []string{"scheduledCompactRev", "finishedCompactRev"} {
			if r, _, ok := parseRevision(meta.Get([]byte(name))); ok && r.compare(e.compacted) > 0 {
				e.compacted = r
			}
		}
		// All changes of the revision that was compacted are, but for deletions, still there.
		e.compacted.sub = 0
	}
	return nil
}

// each calls f with every revision, in order. What f is given is valid during the call.
func (e *etcdSnapshot) each(f func(r etcdRevision, deleted bool, record []byte) error) error {
	return guarded(func() error {
		c := e.revisions.Cursor()
		for k, v := c.First(); k != nil; k, v = c.Next() {
			r, deleted, ok := parseRevision(k)
			if !ok {
				return fmt.Errorf("%w: a revision cannot be read", errSnapshot)
			}
			if err := f(r, deleted, v); err != nil {
				return err
			}
			e.pages.used(len(v))
		}
		return nil
	})
}

// record returns the record of a revision that put a value, which is valid until the next call.
func (e *etcdSnapshot) record(r etcdRevision) (record []byte, err error) {
	err = guarded(func() error {
		if record = e.revisions.Get(r.key()); record == nil {
			return fmt.Errorf("%w: revision %d is gone", errSnapshot, r.main)
		}
		e.pages.used(len(record))
		return nil
	})
	return record, err
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

func (e *etcdSnapshot) close() {
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

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

	"github.com/nodetrail/nodetrail/internal/userfile"
)

var (
	errWAL       = errors.New("a write-ahead log of etcd, not a snapshot: take one with 'etcdctl snapshot save'")
	errSnapshot  = errors.New("the etcd snapshot is damaged")
	errEtcdInUse = errors.New("etcd has this file open: take a snapshot with 'etcdctl snapshot save'")
	errNoKeys    = errors.New("it holds no Kubernetes objects under /registry or /kubernetes.io")
	errPrefixes  = errors.New("it holds several clusters")
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

// etcdSnapshot is an opened copy of what etcd holds.
type etcdSnapshot struct {
	path string // for messages
	// compacted is the revision before which only the latest change of each key is there, and last the latest.
	compacted, last etcdRevision
	revisions
}

// revisions are those of a database.
type revisions interface {
	// each calls f with every revision, in order. What f is given is valid during the call.
	each(f func(r etcdRevision, deleted bool, record etcdRecord) error) error
	// record calls f with the record of a revision that put a value, which is valid during the call.
	record(r etcdRevision, f func(etcdRecord) error) error
	close()
}

// snapshotOf opens a database: the file of that name, or, where it is compressed or comes from standard input, the contents, which go into a temporary file
// first, which is removed in the end.
func snapshotOf(path string, contents io.Reader, plain bool, open func(e *etcdSnapshot, path string) error) (*etcdSnapshot, error) {
	e := &etcdSnapshot{path: path}
	if path == "-" {
		e.path = stdinName
	}
	spooled := ""
	if !plain {
		var err error
		if path, err = spool(contents); err != nil {
			return nil, err
		}
		spooled = path
	}
	if err := open(e, path); err != nil {
		if spooled != "" {
			_ = os.Remove(spooled)
		}
		return nil, err
	}
	if spooled != "" {
		e.revisions = spooledRevisions{e.revisions, spooled}
	}
	return e, nil
}

// spooledRevisions are read from a temporary file.
type spooledRevisions struct {
	revisions
	path string
}

func (s spooledRevisions) close() {
	s.revisions.close()
	_ = os.Remove(s.path)
}

// boltFile is a database of etcd.
type boltFile struct {
	db    *bolt.DB
	tx    *bolt.Tx
	keys  *bolt.Bucket
	pages mapped
}

// openEtcd opens the file.
func openEtcd(e *etcdSnapshot, path string) error {
	f := &boltFile{}
	err := checkSum(path)
	if err == nil {
		err = guarded(func() (err error) { e.compacted, e.last, err = f.open(path); return err })
	}
	if err != nil {
		f.close()
		return err
	}
	e.revisions = f
	return nil
}

func (e *boltFile) open(path string) (compacted, last etcdRevision, err error) {
	if e.db, err = bolt.Open(path, 0o400, &bolt.Options{ReadOnly: true, Timeout: time.Second}); err != nil {
		if errors.Is(err, bolterrors.ErrTimeout) {
			return compacted, last, errEtcdInUse
		}
		return compacted, last, fmt.Errorf("%w: %w", errSnapshot, err)
	}
	if e.tx, err = e.db.Begin(false); err != nil {
		return compacted, last, fmt.Errorf("%w: %w", errSnapshot, err)
	}
	e.pages = mappedBy(e.db, e.tx.Size())
	if e.keys = e.tx.Bucket([]byte("key")); e.keys == nil {
		return compacted, last, errors.New("a database of bbolt, but not of etcd: it has no revisions of keys")
	}
	k, _ := e.keys.Cursor().Last()
	if last, _, _ = parseRevision(k); k == nil {
		return compacted, last, errNoKeys
	}
	compacted = last // unless etcd says which it was, all that is known is the end
	if meta := e.tx.Bucket([]byte("meta")); meta != nil {
		compacted = etcdRevision{}
		for _, name := range []string{"scheduledCompactRev", "finishedCompactRev"} {
			if r, _, ok := parseRevision(meta.Get([]byte(name))); ok && r.compare(compacted) > 0 {
				compacted = r
			}
		}
		// All changes of the revision that was compacted are, but for deletions, still there.
		compacted.sub = 0
	}
	return compacted, last, nil
}

func (e *boltFile) each(f func(r etcdRevision, deleted bool, record etcdRecord) error) error {
	return guarded(func() error {
		c := e.keys.Cursor()
		for k, v := c.First(); k != nil; k, v = c.Next() {
			r, deleted, ok := parseRevision(k)
			if !ok {
				return fmt.Errorf("%w: a revision cannot be read", errSnapshot)
			}
			record, err := readRecord(v)
			if err == nil {
				err = f(r, deleted, record)
			}
			if err != nil {
				return err
			}
			e.pages.used(len(v))
		}
		return nil
	})
}

func (e *boltFile) record(r etcdRevision, f func(etcdRecord) error) error {
	return guarded(func() error {
		raw := e.keys.Get(r.key())
		if raw == nil {
			return fmt.Errorf("%w: revision %d is gone", errSnapshot, r.main)
		}
		record, err := readRecord(raw)
		if err == nil {
			err = f(record)
		}
		e.pages.used(len(raw))
		return err
	})
}

// spool writes what is read into a temporary file.
func spool(r io.Reader) (path string, err error) {
	f, err := os.CreateTemp("", "nodetrail-etcd-")
	if err != nil {
		return "", userfile.Cause(err)
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
		return userfile.Cause(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return userfile.Cause(err)
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
		return userfile.Cause(err)
	}
	want := make([]byte, etcdSum)
	if _, err := io.ReadFull(f, want); err != nil {
		return userfile.Cause(err)
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

func (e *boltFile) close() {
	_ = guarded(func() error {
		if e.tx != nil {
			_ = e.tx.Rollback() // of a transaction that only reads
		}
		if e.db != nil {
			_ = e.db.Close()
		}
		return nil
	})
}

package cluster

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"modernc.org/sqlite" // also registers the driver

	"github.com/nodetrail/nodetrail/internal/userfile"
)

// k3s keeps what others keep in etcd in SQLite, by kine: a table with a row for each revision, whose number is the row's. Rows that are compacted are
// deleted, as etcd does it.

var (
	errKine    = errors.New("the database of k3s is damaged")
	errNotKine = errors.New("a SQLite database, but not of k3s: it has no table kine")
	errInUse   = errors.New("k3s is writing to this database: stop k3s, or make a copy with 'sqlite3 state.db \".backup copy.db\"'")
	errOwn     = errors.New("the store of nodetrail run, not cluster state: ask 'nodetrail report --data'")
)

const (
	sqliteHead  = "SQLite format 3\x00"
	sqliteBytes = 100      // of its head
	maxKine     = 16 << 20 // of one value: API servers take 3 MiB at most
)

func isSQLite(head []byte) bool { return bytes.HasPrefix(head, []byte(sqliteHead)) }

// kineFile is a database of kine. It has the methods of revisions.
type kineFile struct {
	db  *sql.DB
	dir string // a temporary folder with a copy of the file and its log, "" for none
}

// openKine opens the file. What SQLite has not written into it yet stands in a file next to it: then both are copied, so that nothing is written next to
// the user's file.
func openKine(e *etcdSnapshot, path string) (err error) {
	k := &kineFile{}
	defer func() {
		if err != nil {
			k.close()
		}
	}()
	alone := true
	for _, suffix := range kineSuffixes[1:] {
		info, err := os.Stat(path + suffix)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return userfile.Cause(err)
		case !info.Mode().IsRegular():
			return fmt.Errorf("%s next to it is not a file", filepath.Base(path+suffix))
		case info.Size() > 0:
			alone = false
		}
	}
	if alone {
		if err := wholeSQLite(path); err != nil {
			return err
		}
	} else if path, err = k.copied(path); err != nil {
		return err
	}
	if k.db, err = sql.Open("sqlite", kineDSN(path, alone)); err != nil {
		return userfile.Cause(err)
	}
	k.db.SetMaxOpenConns(2) // one reads all rows, and one the object of a row
	if err := k.isKine(); err != nil {
		return err
	}
	ctx := context.Background() // reading state ends with the program
	var last, compacted sql.NullInt64
	if err := k.db.QueryRowContext(ctx, `SELECT max(id) FROM kine`).Scan(&last); err != nil {
		return kineError(err)
	}
	if err := k.db.QueryRowContext(ctx, `SELECT max(prev_revision) FROM kine WHERE name = 'compact_rev_key'`).Scan(&compacted); err != nil {
		return kineError(err)
	}
	if !last.Valid {
		return errNoKeys
	}
	e.last, e.compacted = etcdRevision{main: last.Int64}, etcdRevision{main: max(0, compacted.Int64)}
	e.revisions = k
	return nil
}

// kineDSN is for reading alone. A schema that somebody else wrote runs nothing of its own.
func kineDSN(path string, alone bool) string {
	dsn := "file:" + strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(path) +
		"?_pragma=trusted_schema(0)&_pragma=cell_size_check(1)&_pragma=mmap_size(0)&_pragma=cache_size(-8192)&_pragma=temp_store(1)"
	if alone {
		return dsn + "&mode=ro&immutable=1"
	}
	return dsn + "&_pragma=query_only(1)"
}

// isKine says why it is not a database of kine.
func (k *kineFile) isKine() error {
	rows, err := k.db.QueryContext(context.Background(), `SELECT name, type FROM sqlite_master WHERE name IN ('kine', 'lanes', 'findings')`)
	if err != nil {
		return kineError(err)
	}
	defer rows.Close()
	own, is := 0, false
	for rows.Next() {
		var name, kind string
		if err := rows.Scan(&name, &kind); err != nil {
			return kineError(err)
		}
		switch {
		case name == "kine" && kind == "table":
			is = true
		case name != "kine":
			own++
		}
	}
	switch err := rows.Err(); {
	case err != nil:
		return kineError(err)
	case is:
		return nil
	case own == 2:
		return errOwn
	}
	return errNotKine
}

// kineError is an error of SQLite.
func kineError(err error) error {
	var e *sqlite.Error
	if errors.As(err, &e) {
		text, _, _ := strings.Cut(e.Error(), "\n")
		return fmt.Errorf("%w: %s", errKine, text)
	}
	return fmt.Errorf("%w: %w", errKine, err)
}

// wholeSQLite looks whether a file has all its pages. SQLite notices that only where it needs one that is missing.
func wholeSQLite(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return userfile.Cause(err)
	}
	defer f.Close()
	head := make([]byte, sqliteBytes)
	if _, err := io.ReadFull(f, head); err != nil {
		return fmt.Errorf("%w: it is cut off", errKine)
	}
	info, err := f.Stat()
	if err != nil {
		return userfile.Cause(err)
	}
	page := int64(binary.BigEndian.Uint16(head[16:]))
	if page == 1 {
		page = 64 << 10
	}
	pages := int64(binary.BigEndian.Uint32(head[28:]))
	counted := bytes.Equal(head[24:28], head[92:96]) // else an old program wrote it, and the number is not kept
	if counted && info.Size() < page*pages {
		return fmt.Errorf("%w: it is cut off", errKine)
	}
	return nil
}

// kineSuffixes are those of the files that are one database.
var kineSuffixes = [...]string{"", "-wal", "-journal"}

// kineState says of each of the files when it was written last, and its size.
func kineState(path string) (out [len(kineSuffixes)]string) {
	for i, suffix := range kineSuffixes {
		if info, err := os.Stat(path + suffix); err == nil {
			out[i] = fmt.Sprint(info.ModTime().UnixNano(), info.Size())
		}
	}
	return out
}

// copied copies a file with what belongs to it into a folder of its own, and returns where it is. Copies of different times would contradict each other.
func (k *kineFile) copied(path string) (string, error) {
	before := kineState(path)
	dir, err := os.MkdirTemp("", "nodetrail-k3s-")
	if err != nil {
		return "", userfile.Cause(err)
	}
	k.dir = dir
	to := filepath.Join(dir, "state.db")
	for _, suffix := range kineSuffixes {
		from, err := os.Open(path + suffix)
		if suffix != "" && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", userfile.Cause(err)
		}
		out, err := os.OpenFile(to+suffix, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil {
			_, err = io.Copy(out, from)
			err = errors.Join(err, out.Close())
		}
		if err = errors.Join(err, from.Close()); err != nil {
			return "", userfile.Cause(err)
		}
	}
	if kineState(path) != before {
		return "", errInUse
	}
	return to, nil
}

// kineColumns are those of a record. What is too long is not read into memory.
const kineColumns = `id, coalesce(name, ''), coalesce(deleted, 0), coalesce(created, 0), coalesce(create_revision, 0), coalesce(length(value), 0),
	CASE WHEN length(value) <= 16777216 THEN CAST(value AS BLOB) END FROM kine WHERE length(name) <= 65536 `

func scanKine(rows *sql.Rows) (r etcdRevision, deleted bool, record etcdRecord, err error) {
	var name, value sql.RawBytes
	var gone, created, size int64
	if err = rows.Scan(&r.main, &name, &gone, &created, &record.made, &size, &value); err != nil {
		return r, false, record, kineError(err)
	}
	if size > maxKine {
		return r, false, record, fmt.Errorf("%w: revision %d has a value of %d bytes", errKine, r.main, size)
	}
	if created != 0 {
		record.made = r.main
	}
	record.key, record.value = name, value
	return r, gone != 0, record, nil
}

func (k *kineFile) each(f func(r etcdRevision, deleted bool, record etcdRecord) error) error {
	rows, err := k.db.QueryContext(context.Background(), `SELECT `+kineColumns+`ORDER BY id`)
	if err != nil {
		return kineError(err)
	}
	defer rows.Close()
	for rows.Next() {
		r, deleted, record, err := scanKine(rows)
		if err == nil {
			err = f(r, deleted, record)
		}
		if err != nil {
			return ofKine(err)
		}
	}
	if err := rows.Err(); err != nil {
		return kineError(err)
	}
	return nil
}

func (k *kineFile) record(at etcdRevision, f func(etcdRecord) error) error {
	rows, err := k.db.QueryContext(context.Background(), `SELECT `+kineColumns+`AND id = $1`, at.main)
	if err != nil {
		return kineError(err)
	}
	defer rows.Close()
	if !rows.Next() {
		return fmt.Errorf("%w: revision %d is gone", errKine, at.main)
	}
	_, _, record, err := scanKine(rows)
	if err != nil {
		return err
	}
	return ofKine(f(record))
}

// ofKine calls damage that shows in an object by the file's name.
func ofKine(err error) error {
	if errors.Is(err, errSnapshot) {
		return fmt.Errorf("%w: %s", errKine, strings.TrimPrefix(err.Error(), errSnapshot.Error()+": "))
	}
	return err
}

func (k *kineFile) close() {
	if k.db != nil {
		_ = k.db.Close() // it was only read
	}
	if k.dir != "" {
		_ = os.RemoveAll(k.dir)
	}
}

package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"modernc.org/sqlite" // also registers the driver
	sqlite3 "modernc.org/sqlite/lib"
)

// checkFor bounds the check of the file after a crash. It reads some hundred megabytes in that time.
const checkFor = 20 * time.Second

// embedded is SQLite: one connection that writes, a few that read.
type embedded struct {
	path    string
	file    os.FileInfo // of the file that is open; nil when it only reads
	lock    *lockFile   // nil when it only reads
	db      *sql.DB     // what writes; nil when it only reads
	conn    *sql.Conn
	readers *sql.DB

	mu       sync.Mutex
	prepared map[string]*sql.Stmt
	broken   error
}

// openEmbedded opens the file, or makes it. Two processes cannot write to one file, as each would count what the other has not: the
// second is refused.
func openEmbedded(ctx context.Context, path string, log zerolog.Logger, versions []migration) (_ *embedded, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("making the store's folder: %w", err)
	}
	e := &embedded{path: path, prepared: map[string]*sql.Stmt{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.close())
		}
	}()
	if e.lock, err = lockPath(path + ".lock"); err != nil {
		return nil, fmt.Errorf("opening the store %s: %w", path, err)
	}
	if err := e.open(ctx, log, versions); err != nil {
		return nil, fmt.Errorf("opening the store %s: %w", path, explain(err))
	}
	return e, nil
}

const (
	// lockedFor is how long a write waits for another program that holds the file locked.
	lockedFor = 10 * time.Second
	// lockedStep is after how long it asks again, and whether it is still to wait. The last write, when the store is closed, waits so long only.
	lockedStep = 500 * time.Millisecond
)

func (e *embedded) open(ctx context.Context, log zerolog.Logger, versions []migration) error {
	// Made here, so that nobody else may read it; SQLite gives its other files the same mode. A file that is there must not be opened:
	// closing it would drop the locks that others in this process have.
	f, err := os.OpenFile(e.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if err := tooShort(e.path); err != nil {
		return err
	}
	// An acknowledged batch must outlast a power cut, so every commit is synchronised. The log of changes is folded into the file every
	// 32 MB: the rows of an hour are rewritten with each batch, and so most of that is saved.
	e.db, err = sql.Open("sqlite", fileURI(e.path, "rwc", "busy_timeout=10000", "journal_mode=WAL", "synchronous=FULL", "cache_size=-24000",
		"wal_autocheckpoint=8000", "journal_size_limit=67108864", "temp_store=memory"))
	if err != nil {
		return err
	}
	e.db.SetMaxOpenConns(1)
	if e.conn, err = e.db.Conn(ctx); err != nil {
		return err
	}
	w := &embeddedTx{e}
	if err := e.checkFile(ctx, w, log); err != nil {
		return err
	}
	if err := e.write(ctx, false, func(w tx) error {
		if err := migrate(ctx, w, versions, e.dialect()); err != nil {
			return err
		}
		return w.exec(ctx, `INSERT INTO meta (name, value) VALUES ('open', 1) ON CONFLICT (name) DO UPDATE SET value = 1`)
	}); err != nil {
		return err
	}
	if _, err := e.exec(ctx, fmt.Sprintf("PRAGMA busy_timeout = %d", lockedStep.Milliseconds())); err != nil {
		return err
	}
	if e.file, err = os.Stat(e.path); err != nil {
		return err
	}
	return e.openReaders(e.path, "rw")
}

func fileURI(path, mode string, pragmas ...string) string {
	q := url.Values{"mode": {mode}}
	for _, p := range pragmas {
		name, value, _ := strings.Cut(p, "=")
		q.Add("_pragma", name+"("+value+")")
	}
	q.Set("_txlock", "immediate")
	if mode == "immutable" {
		q.Set("mode", "ro")
		q.Set("immutable", "1")
	}
	return (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: q.Encode()}).String()
}

func (e *embedded) openReaders(path, mode string) (err error) {
	e.readers, err = sql.Open("sqlite", fileURI(path, mode, "busy_timeout=10000", "query_only=1", "cache_size=-2000", "temp_store=memory"))
	if err != nil {
		return err
	}
	e.readers.SetMaxOpenConns(4)
	e.readers.SetMaxIdleConns(1)
	return nil
}

// checkFile refuses a file that is not a store's, and looks through one that was not closed in order.
func (e *embedded) checkFile(ctx context.Context, r reader, log zerolog.Logger) error {
	tables, ours := int64(0), int64(0)
	if err := r.each(ctx, `SELECT count(*), count(CASE WHEN name = 'meta' THEN 1 END) FROM sqlite_master WHERE type = 'table'`, nil,
		func(scan func(...any) error) error { return scan(&tables, &ours) }); err != nil {
		return err
	}
	if ours == 0 {
		if tables > 0 {
			return errors.New("it is a database of something else")
		}
		return nil
	}
	open := int64(1)
	if err := r.each(ctx, `SELECT value FROM meta WHERE name = 'open'`, nil,
		func(scan func(...any) error) error { return scan(&open) }); err != nil {
		return err
	}
	if open == 0 {
		return e.checkLength(ctx, r)
	}
	return e.checkPages(ctx, r, log)
}

// checkLength finds a file that was cut, or not copied to its end.
func (e *embedded) checkLength(ctx context.Context, r reader) error {
	pages, size := int64(0), int64(0)
	for sql, to := range map[string]*int64{"PRAGMA page_count": &pages, "PRAGMA page_size": &size} {
		if err := r.each(ctx, sql, nil, func(scan func(...any) error) error { return scan(to) }); err != nil {
			return err
		}
	}
	info, err := os.Stat(e.path)
	if err != nil {
		return err
	}
	wal, err := os.Stat(e.path + "-wal")
	if err == nil && wal.Size() > 0 {
		return nil // the last pages may be there still
	}
	if info.Size() < pages*size {
		return fmt.Errorf("%w: it has %d bytes and should have %d", errDamaged, info.Size(), pages*size)
	}
	return nil
}

// tooShort finds what SQLite would take for nothing and begin anew.
func tooShort(path string) error {
	info, err := os.Stat(path)
	if err != nil || info.Size() == 0 || info.Size() >= 512 {
		return err
	}
	if _, err := os.Stat(path + "-journal"); err == nil {
		return nil // it was being made
	}
	return fmt.Errorf("%w: it has %d bytes", errDamaged, info.Size())
}

// there returns an error where the file that is open is not the one at its path: what is written to it would be lost at the next start.
func (e *embedded) there() error {
	if e.file == nil {
		return nil
	}
	if info, err := os.Stat(e.path); err != nil || !os.SameFile(info, e.file) {
		return errors.New("its file was moved, deleted or replaced while it was open; put it back, or start again with what is there")
	}
	return nil
}

var errDamaged = errors.New("the file is damaged; put a copy of it in its place, or begin anew without it")

func (e *embedded) checkPages(ctx context.Context, r reader, log zerolog.Logger) error {
	bounded, stop := context.WithTimeout(ctx, checkFor)
	defer stop()
	finding := ""
	err := r.each(bounded, "PRAGMA quick_check(1)", nil, func(scan func(...any) error) error { return scan(&finding) })
	switch {
	case err != nil && ctx.Err() == nil && bounded.Err() != nil:
		log.Warn().Str("store", e.path).Stringer("after", checkFor).Msg("the store was not closed in order; its check was cut short")
		return nil
	case err != nil:
		return err
	case finding != "ok":
		return fmt.Errorf("%w: %s", errDamaged, strings.ReplaceAll(finding, "\n", ": "))
	}
	return e.checkLength(ctx, r)
}

// openEmbeddedReader opens the file to read, whether a process writes to it or not.
func openEmbeddedReader(ctx context.Context, path string, versions int) (_ *embedded, err error) {
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("opening the store: %w", err)
	}
	e := &embedded{path: path}
	// A reader shares the index of the log of changes, which it must be able to write to or to make, but where there is no such log.
	for _, mode := range []string{"rw", "ro", "immutable"} {
		if mode == "immutable" {
			if wal, walErr := os.Stat(path + "-wal"); walErr == nil && wal.Size() > 0 {
				break
			}
		}
		if err = explain(e.openReaders(path, mode)); err != nil {
			break
		}
		if err = e.read(ctx, func(r reader) error { return checkMade(ctx, r, versions) }); err == nil || !cannotOpen(err) {
			break
		}
		err = errors.Join(err, e.readers.Close())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the store %s: %w", path, err), e.close())
	}
	return e, nil
}

// checkMade is check for a file in which there may be nothing: whoever writes to it may be about to make its tables, or could not.
func checkMade(ctx context.Context, r reader, versions int) error {
	tables := int64(0)
	err := r.each(ctx, "SELECT count(*) FROM sqlite_master", nil, func(scan func(...any) error) error { return scan(&tables) })
	switch {
	case err != nil:
		return err
	case tables == 0:
		return fmt.Errorf("nothing is stored in it yet: %w", fs.ErrNotExist)
	}
	return check(ctx, r, versions)
}

func code(err error) int {
	var s *sqlite.Error
	if errors.As(err, &s) {
		return s.Code()
	}
	return 0
}

func cannotOpen(err error) bool {
	c := code(err) & 0xff
	return c == sqlite3.SQLITE_CANTOPEN || c == sqlite3.SQLITE_READONLY || c == sqlite3.SQLITE_PERM
}

// explain says in words what SQLite's codes mean for a store.
func explain(err error) error {
	if code(err) == sqlite3.SQLITE_IOERR_SHORT_READ { // its end is missing
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	switch code(err) & 0xff {
	case sqlite3.SQLITE_CORRUPT:
		return fmt.Errorf("%w: %w", errDamaged, err)
	case sqlite3.SQLITE_NOTADB:
		return fmt.Errorf("it is not a database, or damaged: %w", err)
	case sqlite3.SQLITE_FULL:
		return fmt.Errorf("the disk is full: %w", err)
	case sqlite3.SQLITE_BUSY:
		return fmt.Errorf("another program holds it locked: %w", err)
	}
	return err
}

func (e *embedded) close() error {
	var all []error
	if e.conn != nil {
		// A store that could not be opened is looked through the next time too.
		if e.readers != nil && e.broken == nil {
			if _, err := e.exec(context.Background(), `UPDATE meta SET value = 0 WHERE name = 'open'`); err != nil {
				all = append(all, explain(err))
			}
		}
		for _, s := range e.prepared {
			all = append(all, s.Close())
		}
		all = append(all, e.conn.Close())
	}
	if e.readers != nil {
		all = append(all, e.readers.Close())
	}
	if e.db != nil {
		all = append(all, e.db.Close())
	}
	if e.lock != nil {
		all = append(all, e.lock.unlock())
	}
	return errors.Join(all...)
}

package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestSecondWriterIsRefused(t *testing.T) {
	at_, ctx := embeddedSite(t), context.Background()
	s := at_.open(t, Options{})
	_, err := at_.try(Options{})
	if err == nil || !strings.Contains(err.Error(), "another nodetrail uses it") || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) ||
		!strings.Contains(err.Error(), at_.where) {
		t.Errorf("the second: %v", err)
	}
	must(s.Acquire(ctx, "a", 0, 0))(t)
	ok(t, s.Commit(ctx, commit("a", 0, "1", request(1, at(0)))))
	ok(t, s.Close())
	s = at_.open(t, Options{})
	if n := all(t, s).Sums.Allow; n != 1 {
		t.Errorf("%d requests", n)
	}
}

// A report is read while a run writes, after it ended, and after it was killed.
func TestReaders(t *testing.T) {
	both(t, func(t *testing.T, at_ *site) {
		ctx := context.Background()
		if _, err := at_.try(Options{ReadOnly: true}); err == nil {
			t.Error("a store was read that is not there")
		}
		s := at_.open(t, Options{})
		must(s.Acquire(ctx, "file:a", 0, 0))(t)
		ok(t, s.Commit(ctx, killed(0)))
		r := at_.open(t, Options{ReadOnly: true})
		if n := all(t, r).Sums.Allow; n != 10 {
			t.Errorf("%d requests", n)
		}
		// A reader that stands in the middle holds up no writer, and does not see what is written.
		ok(t, r.db.read(ctx, func(rr reader) error {
			before := must(window(ctx, rr, -1<<62, 1<<62, nil))(t)
			ok(t, s.Commit(ctx, killed(1)))
			if after := must(window(ctx, rr, -1<<62, 1<<62, nil))(t); after.Sums != before.Sums {
				t.Errorf("the state changed under a reader: %+v, %+v", before.Sums, after.Sums)
			}
			return nil
		}))
		if n := all(t, r).Sums.Allow; n != 20 {
			t.Errorf("%d requests after another commit", n)
		}
		if err := r.Commit(ctx, killed(2)); err == nil {
			t.Error("a reader committed")
		}
		if err := r.Prune(ctx, at(0)); err == nil {
			t.Error("a reader pruned")
		}
		ok(t, s.Close())
		if n := all(t, r).Sums.Allow; n != 20 {
			t.Errorf("%d requests after the writer closed", n)
		}
		ok(t, r.Close())
		r = at_.open(t, Options{ReadOnly: true})
		if n := all(t, r).Sums.Allow; n != 20 {
			t.Errorf("%d requests when nobody writes", n)
		}
	})
}

// What only may be read can be, where a writer closed it.
func TestReadOnlyFolder(t *testing.T) {
	at_, ctx := embeddedSite(t), context.Background()
	s := at_.open(t, Options{})
	must(s.Acquire(ctx, "file:a", 0, 0))(t)
	ok(t, s.Commit(ctx, killed(0)))
	ok(t, s.Close())
	dir := filepath.Dir(at_.where)
	ok(t, os.Chmod(at_.where, 0o400))
	ok(t, os.Chmod(dir, 0o500))
	defer func() { ok(t, os.Chmod(dir, 0o700)) }()
	if n := all(t, at_.open(t, Options{ReadOnly: true})).Sums.Allow; n != 10 {
		t.Errorf("%d requests", n)
	}
}

func TestFileModes(t *testing.T) {
	at_, ctx := embeddedSite(t), context.Background()
	s := at_.open(t, Options{})
	must(s.Acquire(ctx, "file:a", 0, 0))(t)
	ok(t, s.Commit(ctx, killed(0)))
	n := 0
	ok(t, filepath.WalkDir(filepath.Dir(at_.where), func(path string, d fs.DirEntry, err error) error {
		if info := must(d.Info())(t); info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		n++
		return err
	}))
	if n < 4 {
		t.Errorf("%d files", n)
	}
}

func TestOddPaths(t *testing.T) {
	for _, name := range []string{"a b.db", "per%20cent.db", "ques?tion#hash&.db", "é.db", ":memory:", "file:x"} {
		path := filepath.Join(t.TempDir(), name)
		s := must(OpenSQLite(context.Background(), path, Options{}))(t)
		must(s.Acquire(context.Background(), "file:a", 0, 0))(t)
		ok(t, s.Commit(context.Background(), killed(0)))
		if info, err := os.Stat(path); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
		if n := all(t, s).Sums.Allow; n != 10 {
			t.Errorf("%s: %d requests", name, n)
		}
		ok(t, s.Close())
	}
	t.Chdir(t.TempDir())
	s := must(OpenSQLite(context.Background(), "x.db", Options{}))(t)
	ok(t, s.Close())
	if _, err := os.Stat("x.db"); err != nil {
		t.Error(err)
	}
}

// A schema of before is brought up to date with what it holds, one of a later program is refused and left as it is.
func TestMigrations(t *testing.T) {
	both(t, func(t *testing.T, at_ *site) {
		ctx := context.Background()
		s := at_.open(t, Options{})
		must(s.Acquire(ctx, "file:a", 0, 0))(t)
		ok(t, s.Commit(ctx, killed(0)))
		ok(t, s.Close())
		later := slices.Concat(migrations, []migration{{statements: []string{
			`ALTER TABLE nodes ADD COLUMN forbidden {int} NOT NULL DEFAULT 7`, `CREATE TABLE more (name {text} PRIMARY KEY) {clustered}`,
		}}})
		open := func(versions []migration) (engine, error) {
			if strings.HasPrefix(at_.where, "postgres") {
				return openShared(ctx, at_.where, Options{}, versions)
			}
			return openEmbedded(ctx, at_.where, Options{}.Log, versions)
		}
		broken := slices.Concat(later, []migration{{statements: []string{`CREATE TABLE half (name {text} PRIMARY KEY)`, `CREATE NONSENSE`}}})
		if _, err := open(broken); err == nil || !strings.Contains(err.Error(), fmt.Sprint("version ", len(broken))) {
			t.Errorf("a migration that fails: %v", err)
		}
		for range 2 {
			db := must(open(later))(t)
			sum := int64(0)
			ok(t, db.read(ctx, func(r reader) error {
				return r.each(ctx, `SELECT CAST(sum(forbidden) AS BIGINT) FROM nodes`, nil, func(scan func(...any) error) error { return scan(&sum) })
			}))
			if sum != 7*7 {
				t.Errorf("the new column adds up to %d", sum)
			}
			ok(t, db.close())
		}
		for _, o := range []Options{{}, {ReadOnly: true}} {
			if _, err := at_.try(o); err == nil || !strings.Contains(err.Error(), "it needs a newer nodetrail") {
				t.Errorf("a newer schema: %v", err)
			}
		}
		// A reader does not bring up to date.
		err := func() error {
			if strings.HasPrefix(at_.where, "postgres") {
				_, err := openShared(ctx, at_.where, Options{ReadOnly: true}, broken)
				return err
			}
			_, err := openEmbeddedReader(ctx, at_.where, len(broken))
			return err
		}()
		if err == nil || !strings.Contains(err.Error(), "`nodetrail run` brings it up to date") {
			t.Errorf("an older schema: %v", err)
		}
	})
}

func TestManyOpenAtOnce(t *testing.T) {
	at_ := sharedSite(t)
	errs := make(chan error)
	for range 8 {
		go func() {
			s, err := at_.try(Options{})
			if err == nil {
				err = s.Close()
			}
			errs <- err
		}()
	}
	for range 8 {
		ok(t, <-errs)
	}
}

func TestNoPasswordInErrors(t *testing.T) {
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Second)
	defer stop()
	for _, dsn := range []string{
		"postgres://me:s3cret@127.0.0.1:1/db", "postgres://me:s3cret@127.0.0.1:port/db", "postgres://me:s3cret%zz@127.0.0.1/db",
		"host=127.0.0.1 port=1 user=me password=s3cret dbname=db", "host=127.0.0.1 port=x password=s3cret", "password=s3cret host",
		"postgres://me:s3cret@[::1/db", "s3cret", "postgres://me:s3cret@127.0.0.1:1/db?sslmode=bad", "postgres://me:pa ss3cret@x\x7f/",
		"postgres://me:x@127.0.0.1:1/db?password=s3cret&pool_max_conns=a", "host=127.0.0.1 port=1 passfile=/nowhere password='s3cret",
		"://me:s3cret@", "postgres:s3cret",
	} {
		_, err := OpenPostgres(ctx, dsn, Options{})
		if err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", dsn, err)
		}
		t.Log(err)
	}
}

// A report that comes while run makes its store, or after it could not, says that nothing is stored.
func TestReadNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "nodetrail.db")
	ok(t, os.WriteFile(path, nil, 0o600))
	if _, err := OpenSQLite(t.Context(), path, Options{ReadOnly: true}); !errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), "SQL") {
		t.Errorf("an empty file: %v", err)
	}
	db, err := sql.Open("sqlite", path)
	ok(t, err)
	_, err = db.Exec(`PRAGMA journal_mode = WAL`)
	ok(t, err)
	ok(t, db.Close())
	if _, err := OpenSQLite(t.Context(), path, Options{ReadOnly: true}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a database without tables: %v", err)
	}
	ok(t, must(OpenSQLite(t.Context(), path, Options{}))(t).Close())
	ok(t, must(OpenSQLite(t.Context(), path, Options{ReadOnly: true}))(t).Close())
}

// A reader says once what is wrong with a file.
func TestReadDamaged(t *testing.T) {
	whole := filepath.Join(t.TempDir(), "nodetrail.db")
	ok(t, must(OpenSQLite(t.Context(), whole, Options{}))(t).Close())
	db := must(os.ReadFile(whole))(t)
	for text, want := range map[string]string{
		string(db[:len(db)/2]):                    errDamaged.Error(),
		strings.Repeat("this is no database", 60): "it is not a database, or damaged",
	} {
		path := copyOf(t, []byte(text), nil)
		if _, err := OpenSQLite(t.Context(), path, Options{ReadOnly: true}); err == nil || strings.Count(err.Error(), want) != 1 {
			t.Errorf("%v, want once %q", err, want)
		}
	}
}

// Whoever stops must not wait for each write as long as it takes another program to let go of the file.
func TestLockedFileHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	site := embeddedSite(t)
	s := site.open(t, Options{})
	other, err := sql.Open("sqlite", fileURI(site.where, "rw"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	held, err := other.Begin() // BEGIN IMMEDIATE
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	tries := 0
	began := time.Now()
	err = s.write(ctx, "waiting", func(tx) error { tries++; return nil })
	if waited := time.Since(began); err == nil || tries > 0 || waited >= lockedFor {
		t.Errorf("a write whose time was over waited for %s, was called %d times, and says %v", waited, tries, err)
	} else if !strings.Contains(err.Error(), "another program holds it locked") {
		t.Errorf("it says %v", err)
	}
	if err := held.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := s.write(t.Context(), "waiting", func(tx) error { tries++; return nil }); err != nil || tries != 1 {
		t.Errorf("after it was let go: %v, called %d times", err, tries)
	}
}

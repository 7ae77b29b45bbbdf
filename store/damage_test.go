package store

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/tally"
)

// written makes a store of some commits, each of ten requests, and returns its two files and how long the second was after each commit.
func written(t *testing.T, commits int) (db, wal []byte, ends []int) {
	t.Helper()
	ctx, path := context.Background(), filepath.Join(t.TempDir(), "nodetrail.db")
	s := must(OpenSQLite(ctx, path, Options{}))(t)
	defer s.Close()
	must(s.Acquire(ctx, "file:a", 0, 0))(t)
	for n := range commits {
		ok(t, s.Commit(ctx, killed(n)))
		info := must(os.Stat(path + "-wal"))(t)
		ends = append(ends, int(info.Size()))
	}
	return must(os.ReadFile(path))(t), must(os.ReadFile(path + "-wal"))(t), ends
}

func copyOf(t *testing.T, db, wal []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nodetrail.db")
	ok(t, os.WriteFile(path, db, 0o600))
	if wal != nil {
		ok(t, os.WriteFile(path+"-wal", wal, 0o600))
	}
	return path
}

// A power cut tears the log of changes anywhere, and leaves anything behind the tear: what was committed before it is there, all of it
// and nothing else.
func TestTornLog(t *testing.T) {
	db, wal, ends := written(t, 40)
	r := rand.New(rand.NewPCG(1, 1))
	garbage := make([]byte, 10_000)
	for i := range garbage {
		garbage[i] = byte(r.Uint32())
	}
	for round := range effort.Of(90, 12) {
		cut := r.IntN(len(wal))
		if round%5 == 0 {
			cut = ends[r.IntN(len(ends))]
		}
		torn := append([]byte{}, wal[:cut]...)
		switch round % 4 {
		case 1:
			torn = append(torn, garbage[:r.IntN(len(garbage))]...)
		case 2: // the rest is that of another time, or zero
			torn = append(torn, make([]byte, len(wal)-cut)...)
		case 3:
			torn = append(torn, wal[cut:]...)
			torn[min(cut, len(torn)-1)] ^= 1 << r.IntN(8)
		}
		want := sort.Search(len(ends), func(i int) bool { return ends[i] > cut })
		path := copyOf(t, db, torn)
		s, err := OpenSQLite(context.Background(), path, Options{})
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		if got := all(t, s).Sums.Allow; got != int64(10*want) {
			t.Errorf("cut at %d, in way %d: %d requests, want %d", cut, round%4, got, 10*want)
		}
		// It resumes from there.
		lane := must(s.Acquire(context.Background(), "file:a", 0, 0))(t)
		if n := must(strconv.Atoi("0" + lane.Position))(t); n != want {
			t.Errorf("cut at %d: position %d, want %d", cut, n, want)
		}
		for n := want; n < want+3; n++ {
			ok(t, s.Commit(context.Background(), killed(n)))
		}
		if got := all(t, s).Sums.Allow; got != int64(10*want+30) {
			t.Errorf("cut at %d: %d requests after three more commits, want %d", cut, got, 10*want+30)
		}
		ok(t, s.Close())
	}
}

// A file that was cut or overwritten is refused, or what it says is right.
func TestDamagedFile(t *testing.T) {
	ctx := context.Background()
	db, wal, _ := written(t, 300)
	path := copyOf(t, db, wal)
	s := must(OpenSQLite(ctx, path, Options{}))(t)
	ok(t, s.Close())
	clean := must(os.ReadFile(path))(t)
	if _, err := os.Stat(path + "-wal"); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("the log of changes is left: %v", err)
	}
	// As it is when a crash comes right after a checkpoint.
	must(must(OpenSQLite(ctx, path, Options{}))(t).db.(*embedded).conn.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)"))(t)
	unclean := must(os.ReadFile(path))(t)

	r := rand.New(rand.NewPCG(2, 2))
	const page = 4096
	refused := 0
	rounds := effort.Of(120, 12)
	for round := range rounds {
		whole := clean
		if round%2 == 0 {
			whole = unclean
		}
		bad, at := append([]byte{}, whole...), page*r.IntN(len(whole)/page)
		if round%3 == 0 {
			at = len(bad) - page // the last
		}
		what := ""
		switch r.IntN(4) {
		case 0:
			what, bad = "cut", bad[:at+r.IntN(page)]
		case 1:
			what = "zeroed"
			clear(bad[at : at+page])
		case 2:
			what = "torn"
			clear(bad[at+512*(1+r.IntN(7)) : at+page])
		case 3:
			what = "overwritten"
			for i := at; i < at+page; i++ {
				bad[i] = byte(r.Uint32())
			}
		}
		if what == "torn" && round%2 == 1 {
			continue // only a crash tears
		}
		path := copyOf(t, bad, nil)
		s, err := OpenSQLite(ctx, path, Options{})
		if err != nil {
			if _, err := OpenSQLite(ctx, path, Options{}); err == nil {
				t.Errorf("%s at %d: it was opened the second time", what, at)
			}
			if strings.Count(err.Error(), "\n") > 0 || !strings.Contains(err.Error(), "nodetrail.db") {
				t.Errorf("%s at %d: %v", what, at, err)
			}
			refused++
			continue
		}
		sum, err := s.Tally(ctx, start.Add(-1e18), start.Add(1e18))
		if err == nil && len(bad) > 0 && sum.Sums.Allow != 3000 {
			t.Errorf("%s at %d of %d (unclean %t): %d requests, want 3000", what, at, len(whole), round%2 == 0, sum.Sums.Allow)
		}
		if err != nil {
			refused++
		}
		_ = s.Close()
	}
	t.Logf("%d of %d were refused", refused, rounds)
}

func TestSomethingElse(t *testing.T) {
	ctx := context.Background()
	for what, content := range map[string]string{"text": strings.Repeat("this is a log\n", 1000), "short": "x"} {
		if _, err := OpenSQLite(ctx, copyOf(t, []byte(content), nil), Options{}); err == nil {
			t.Errorf("%s was opened", what)
		}
	}
	path := filepath.Join(t.TempDir(), "other.db")
	s := must(OpenSQLite(ctx, path, Options{}))(t)
	ok(t, s.db.write(ctx, false, func(w tx) error { return w.exec(ctx, "ALTER TABLE meta RENAME TO theirs") }))
	_ = s.Close()
	if _, err := OpenSQLite(ctx, path, Options{}); err == nil || !strings.Contains(err.Error(), "something else") {
		t.Errorf("a database of something else: %v", err)
	}
	if _, err := OpenSQLite(ctx, t.TempDir(), Options{}); err == nil {
		t.Error("a folder was opened")
	}
}

// full fills the store until there is no room, makes room, and continues.
func full(t *testing.T, s *Store, makeRoom func()) {
	t.Helper()
	ctx, stored := context.Background(), 0
	var err error
	for err == nil && stored < 20_000 {
		if err = s.Commit(ctx, killed(stored)); err == nil {
			stored++
		}
	}
	if err == nil || !strings.Contains(err.Error(), "disk is full") {
		t.Fatalf("after %d commits: %v", stored, err)
	}
	for range 3 {
		if err := s.Commit(ctx, killed(stored)); err == nil {
			stored++ // a smaller change may find room
		}
	}
	if got := all(t, s).Sums.Allow; got != int64(10*stored) {
		t.Errorf("%d requests, want %d", got, 10*stored)
	}
	makeRoom()
	for range 20 {
		ok(t, s.Commit(ctx, killed(stored)))
		stored++
	}
	if got := all(t, s).Sums.Allow; got != int64(10*stored) {
		t.Errorf("%d requests with room again, want %d", got, 10*stored)
	}
	t.Logf("%d commits", stored)
}

func TestFull(t *testing.T) {
	ctx := context.Background()
	t.Run("pages", func(t *testing.T) {
		s := embeddedSite(t).open(t, Options{})
		must(s.Acquire(ctx, "file:a", 0, 0))(t)
		e := s.db.(*embedded)
		must(e.conn.ExecContext(ctx, "PRAGMA max_page_count = 100"))(t)
		full(t, s, func() { must(e.conn.ExecContext(ctx, "PRAGMA max_page_count = 100000"))(t) })
	})
	t.Run("disk", func(t *testing.T) {
		dir := t.TempDir()
		if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", dir).CombinedOutput(); err != nil {
			t.Logf("no disk of its own can be made here, so only the bound on pages was tested: %v %s", err, out)
			return
		}
		defer func() {
			if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
				t.Errorf("%v %s", err, out)
			}
		}()
		filler := filepath.Join(dir, "filler")
		ok(t, os.WriteFile(filler, make([]byte, 1<<20), 0o600))
		path := filepath.Join(dir, "nodetrail.db")
		s := must(OpenSQLite(ctx, path, Options{}))(t)
		must(s.Acquire(ctx, "file:a", 0, 0))(t)
		full(t, s, func() { ok(t, os.Remove(filler)) })
		sum := all(t, s).Sums
		ok(t, s.Close())
		s = must(OpenSQLite(ctx, path, Options{}))(t)
		if got := all(t, s).Sums; got != sum {
			t.Errorf("opened again it has %+v, want %+v", got, sum)
		}
		ok(t, s.Close())
	})
}

// What is acknowledged is in the file that the next start opens: a file that was moved away or replaced takes nothing more, until it is back.
func TestFileMovedAway(t *testing.T) {
	ctx, path := context.Background(), filepath.Join(t.TempDir(), "nodetrail.db")
	s := must(OpenSQLite(ctx, path, Options{}))(t)
	defer s.Close()
	must(s.Acquire(ctx, "file:a", 0, 0))(t)
	ok(t, s.Commit(ctx, killed(0)))
	ok(t, os.Rename(path, path+".away"))
	refused := func(what string, commit int) {
		t.Helper()
		if err := s.Commit(ctx, killed(commit)); err == nil || !strings.Contains(err.Error(), "moved, deleted or replaced") {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("moved away", 1)
	ok(t, os.WriteFile(path, must(os.ReadFile(path+".away"))(t), 0o600))
	refused("a copy in its place", 1)
	ok(t, os.Rename(path+".away", path))
	ok(t, s.Commit(ctx, killed(1)))
}

// A reader says in one line that the end of the file is missing.
func TestReadOfACutFile(t *testing.T) {
	ctx, path := context.Background(), filepath.Join(t.TempDir(), "nodetrail.db")
	s := must(OpenSQLite(ctx, path, Options{}))(t)
	must(s.Acquire(ctx, "file:a", 0, 0))(t)
	c := killed(0)
	c.Memory = []tally.Remembered{{Kind: "long", Value: bytes.Repeat([]byte("x"), 1_000_000)}} // to the end of the file
	ok(t, s.Commit(ctx, c))
	ok(t, s.Close())
	ok(t, os.Truncate(path, must(os.Stat(path))(t).Size()-100))
	s, err := OpenSQLite(ctx, path, Options{ReadOnly: true})
	if err == nil {
		_, err = s.RememberedOf(ctx, "long")
		ok(t, s.Close())
	}
	if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), errDamaged.Error()) {
		t.Errorf("%v", err)
	}
}

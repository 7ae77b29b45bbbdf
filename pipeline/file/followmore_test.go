package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/pipeline/source"
)

// TestFollowAtStart is about a log that was rotated several times before anybody followed it.
func TestFollowAtStart(t *testing.T) {
	old := func(t *testing.T) *writer {
		w := logIn(t)
		w.file("audit-2026-11-21T06-04-03.123.log.gz", 50)
		w.file("audit-2026-11-21T06-05-03.123.log.gz", 1)
		w.file("audit-2026-11-21T06-06-03.123.log", 500)
		w.file("audit.log.3", 50)
		w.file("audit.log.2", 50)
		w.copy("audit.log.2", "audit.log.2.gz.tmp")
		w.file("audit.log-20261121.gz", 50)
		check(t, os.WriteFile(w.beside("audit.log.1"), nil, 0o600))
		check(t, os.WriteFile(w.beside("audit-policy.log"), []byte(event("other", 1)), 0o600))
		w.lines(9)
		return w
	}
	t.Run("from the beginning", func(t *testing.T) {
		w, st := old(t), newStored()
		st.start(t, following(w))
		st.await(t, w.lane(), w.want)
		w.lines(1)
		st.await(t, w.lane(), w.want)
		st.noGaps(t)
	})
	t.Run("from the end", func(t *testing.T) {
		w, st := old(t), newStored()
		opt := following(w)
		opt.From = End
		line := w.make(1)
		w.text(line[:40]) // it is begun already, and counts as new
		seen := len(w.want) - 1
		s := st.start(t, opt)
		until(t, "a position", func() bool { st.mu.Lock(); defer st.mu.Unlock(); return st.positions[w.lane()] != "" })
		s.crash()
		w.text(line[40:])
		w.lines(2)
		w.rename("audit.log", "audit.log.1")
		w.open()
		w.lines(2)
		st.start(t, opt)
		w.text("no event\n")
		st.await(t, w.lane(), w.want[seen:])
		until(t, "a place", func() bool { st.mu.Lock(); defer st.mu.Unlock(); return len(st.places) > 0 })
		if diff := cmp.Diff([]source.Place{{Input: w.path, Line: 3}}, st.places, cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "Cause" }, cmp.Ignore())); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("from the end of an empty log", func(t *testing.T) {
		w, st := logIn(t), newStored()
		w.file("audit.log.1", 5)
		w.open()
		opt := following(w)
		opt.From = End
		s := st.start(t, opt)
		until(t, "a position", func() bool { st.mu.Lock(); defer st.mu.Unlock(); return st.positions[w.lane()] != "" })
		w.lines(3)
		st.await(t, w.lane(), w.want[5:])
		s.crash()
		w.lines(3)
		st.start(t, opt)
		st.await(t, w.lane(), w.want[5:])
		st.noGaps(t)
	})
}

// TestFollowSeveral is about several logs, globs, logs that come later, and what rotated files are of which.
func TestFollowSeveral(t *testing.T) {
	dir := t.TempDir()
	st := newStored()
	check(t, os.MkdirAll(filepath.Join(dir, "a"), 0o700))
	check(t, os.MkdirAll(filepath.Join(dir, "c[d]"), 0o700))
	logs := []*writer{
		newWriter(t, filepath.Join(dir, "a", "audit.log")),
		newWriter(t, filepath.Join(dir, "a", "audit-2.log")),
		newWriter(t, filepath.Join(dir, "b", "audit.log")),
		newWriter(t, filepath.Join(dir, "c[d]", "x.json")),
	}
	check(t, os.WriteFile(logs[0].path+".2.gz", []byte(gz(t, logs[0].make(3))), 0o600))
	logs[0].file("audit-2026-11-21T06-04-03.123.log", 2)
	logs[0].lines(3)
	logs[1].lines(3)
	check(t, os.Symlink(logs[0].path, filepath.Join(dir, "a", "audit-link.log")))
	s := st.start(t, FollowOptions{From: End, Paths: []string{filepath.Join(dir, "*", "audit*"), logs[3].path, logs[0].path, logs[0].path + ".2.gz"}})
	all := func(logs ...*writer) {
		t.Helper()
		for _, w := range logs {
			st.await(t, w.lane(), w.want)
		}
	}
	for _, w := range logs {
		w.want = nil
	}
	until(t, "the positions of two", func() bool { st.mu.Lock(); defer st.mu.Unlock(); return len(st.positions) == 2 })
	logs[0].lines(2)
	logs[3].lines(2)
	all(logs...)
	check(t, os.MkdirAll(filepath.Join(dir, "b"), 0o700))
	logs[2].lines(2) // this folder was not there at the start, and is not passed over
	all(logs...)
	var lanes []string
	for _, x := range s.follow.Stats() {
		lanes = append(lanes, strings.TrimPrefix(x.Lane, "file:"+dir))
	}
	slices.Sort(lanes)
	if diff := cmp.Diff([]string{"/a/audit-2.log", "/a/audit.log", "/b/audit.log", "/c[d]/x.json"}, lanes); diff != "" {
		t.Error(diff)
	}
	st.noGaps(t)
}

func TestFollowTooManyLogs(t *testing.T) {
	w, st := logIn(t), newStored()
	w.file("a.log", 1)
	w.file("b.log", 1)
	s := st.start(t, FollowOptions{Paths: []string{w.beside("*.log")}, MaxLogs: 1})
	st.oneGap(t, "more than 1 logs")
	if n := len(s.follow.Stats()); n != 1 {
		t.Errorf("%d lanes", n)
	}
}

func TestLiveNames(t *testing.T) {
	f := func(name string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, liveNames(name)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		for _, live := range want {
			if !newFamily("/x/"+live, nil).owns("/x/" + name) {
				t.Errorf("%s does not own %s", live, name)
			}
		}
	}
	f("audit.log")
	f("audit-2.log")
	f("audit-policy.log")
	f("kube-apiserver-audit.json")
	f("audit.log.1", "audit.log")
	f("audit.log.12.gz", "audit.log", "audit.log.12")
	f("audit.1.log", "audit.log")
	f("audit.log-20261121", "audit.log")
	f("audit.log-20261121-1700000000.zst", "audit.log", "audit.log-20261121-1700000000")
	f("audit-20261121.log", "audit.log")
	f("audit-2022-03-03T14-28-05.286.log", "audit.log")
	f("audit-2022-03-03T14-28-05.286.log.gz", "audit.log", "audit-2022-03-03T14-28-05.286.log")
	f("audit-2022-03-03T14-28-05.286.log.1.gz", "audit.log", "audit-2022-03-03T14-28-05.286.log", "audit-2022-03-03T14-28-05.286.log.1")
	f("audit.log.old", "audit.log")
	f("audit.1", "audit")
	for _, name := range []string{"/x/audit-2.log", "/x/audit.log.bz2", "/x/audit.logs.1", "/y/audit.log.1", "/x/audit.log.1/y", "/x/xaudit.log.1", "/x/audit.log.1.gz.tmp", "/x/auditXlog.1"} {
		if newFamily("/x/audit.log", nil).owns(name) {
			t.Errorf("audit.log owns %s", name)
		}
	}
}

// TestFollowGone is about what rotation deletes before it was read: that is reported, and the rest is read.
func TestFollowGone(t *testing.T) {
	t.Run("while away", func(t *testing.T) {
		w, st := logIn(t), newStored()
		w.file("audit.log.3", 5)
		w.lines(5)
		s := st.start(t, following(w))
		st.await(t, w.lane(), w.want)
		s.crash()
		check(t, os.Remove(w.path))
		w.file("audit.log.2.gz", 5)
		w.file("audit.log.1", 5)
		w.open()
		w.lines(5)
		st.start(t, following(w))
		st.await(t, w.lane(), w.want)
		st.oneGap(t, "is not next to the log any more: what was written to it later may be lost")
	})
	t.Run("while it waits", func(t *testing.T) {
		w, st := logIn(t), newStored()
		w.size = 60_000
		n := 16 * chunkBytes / w.size // more than a lane reads ahead
		w.file("audit.log.3", n)
		w.file("audit.log.2", 5)
		w.file("audit.log.1", 5)
		w.lines(5)
		opt := following(w)
		opt.Workers = 1
		s := st.start(t, opt, held)
		until(t, "the first batches", func() bool { return len(s.queue) == cap(s.queue) })
		check(t, os.Remove(w.beside("audit.log.2")))
		close(s.hold)
		st.await(t, w.lane(), append(w.want[:n:n], w.want[n+5:]...))
		st.oneGap(t, "audit.log.2 was deleted or truncated before it was read")
	})
	t.Run("a position that cannot be read", func(t *testing.T) {
		w, st := logIn(t), newStored()
		w.file("audit.log.1", 5)
		w.lines(5)
		st.positions[w.lane()] = `{"v":2}`
		st.start(t, following(w))
		st.await(t, w.lane(), w.want)
		st.oneGap(t, "the stored position is of version 2, not 1")
	})
	t.Run("a disk that comes later", func(t *testing.T) {
		w, st := logIn(t), newStored()
		w.lines(5)
		s := st.start(t, following(w))
		st.await(t, w.lane(), w.want)
		s.crash()
		check(t, os.Rename(filepath.Dir(w.path), filepath.Dir(w.path)+"x"))
		st.start(t, following(w))
		until(t, "word that the log is not there", func() bool { return st.logged("waiting for the log") == 1 })
		check(t, os.Rename(filepath.Dir(w.path)+"x", filepath.Dir(w.path)))
		w.lines(5)
		st.await(t, w.lane(), w.want)
		st.noGaps(t)
	})
}

// TestFollowDamaged is about compressed files that are cut off: for a while they may be in the making.
func TestFollowDamaged(t *testing.T) {
	w, st := logIn(t), newStored()
	w.size = 1500
	whole := gz(t, w.make(400))
	check(t, os.WriteFile(w.beside("audit.log.3.gz"), []byte(whole[:len(whole)/2]), 0o600))
	w.file("audit.log.2", 5)
	check(t, os.WriteFile(w.beside("audit.log.1.gz"), []byte(whole[:5]), 0o600))
	w.lines(5)
	opt := following(w)
	opt.Poll = 50 * time.Millisecond
	s := st.start(t, opt)
	until(t, "the first half", func() bool { return len(st.lane(w.lane())) > 50 })
	check(t, os.WriteFile(w.beside("audit.log.3.gz"), []byte(whole), 0o600)) // done at last
	st.await(t, w.lane(), w.want)
	s.crash()
	st.oneGap(t, "audit.log.1.gz")

	// One that stays as it is.
	st = newStored()
	check(t, os.Remove(w.beside("audit.log.1.gz")))
	check(t, os.WriteFile(w.beside("audit.log.3.gz"), []byte(whole[:len(whole)/2]), 0o600))
	good := len(idsOf(decompressed(t, whole[:len(whole)/2])))
	opt.Poll = 0
	s = st.start(t, opt)
	st.await(t, w.lane(), append(w.want[:good:good], w.want[400:]...))
	s.crash()
	st.oneGap(t, "the compressed data is cut off")
}

// TestFollowLongLines is about lines that are longer than an event may be, however they come.
func TestFollowLongLines(t *testing.T) {
	w, st := logIn(t), newStored()
	opt := following(w)
	opt.MaxEventBytes = 2000
	s := st.start(t, opt)
	long := odd(sized("long", 0, 3*chunkBytes))
	for i := range 4 {
		w.lines(3)
		if i%2 == 1 {
			w.text(long + "\n")
		} else {
			for part := range slices.Chunk([]byte(long), chunkBytes*2/3) {
				w.text(string(part))
				n := len(w.want)
				if i == 2 {
					s.crash()
					s = st.start(t, opt)
				}
				st.await(t, w.lane(), w.want[:n])
			}
			w.text("\n")
		}
	}
	w.lines(2)
	w.text(long)
	w.rename("audit.log", "audit.log.1")
	w.open()
	w.lines(1)
	st.await(t, w.lane(), w.want)
	st.noGaps(t)
	st.mu.Lock()
	defer st.mu.Unlock()
	var lines []int64
	for _, p := range st.places {
		lines = append(lines, p.Line)
	}
	if diff := cmp.Diff([]int64{4, 8, 12, 16, 19}, lines); diff != "" || st.counts.Malformed != 5 {
		t.Errorf("%s %+v %v", diff, st.counts, st.places)
	}
}

// refusing is an intake that fails.
type refusing struct {
	*session
	open, take func() error
}

func (r *refusing) Open(ctx context.Context, lane string, fence int64) (string, error) {
	if err := r.open(); err != nil {
		return "", err
	}
	return r.session.Open(ctx, lane, fence)
}

func (r *refusing) Take(ctx context.Context, b *source.Batch, done func(error)) error {
	if err := r.take(); err != nil {
		return err
	}
	return r.session.Take(ctx, b, done)
}

// TestFollowRefused: a lane that is another's ends, and with the last lane the source; other failures are tried again from what is stored.
func TestFollowRefused(t *testing.T) {
	fine := func() error { return nil }
	once := func(err error) func() error {
		n := 0
		return func() error {
			if n++; n == 2 {
				return err
			}
			return nil
		}
	}
	f := func(name string, open, take func() error, want error) {
		t.Run(name, func(t *testing.T) {
			before := runtime.NumGoroutine()
			w, st := logIn(t), newStored()
			w.size = 50_000
			w.lines(50)
			s := &session{stored: st, t: t, hold: make(chan struct{}), queue: make(chan waiting, 2), over: make(chan struct{})}
			close(s.hold)
			s.wg.Go(s.commit)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			fo := NewFollow(FollowOptions{Paths: []string{w.path}, Poll: 2 * time.Millisecond}, zerolog.New(st))
			go func() { ended <- fo.Run(ctx, &refusing{s, open, take}) }()
			if want == nil {
				st.await(t, w.lane(), w.want)
				cancel()
				want = context.Canceled
			}
			select {
			case err := <-ended:
				if !errors.Is(err, want) {
					t.Errorf("error %v, want %v", err, want)
				}
			case <-time.After(time.Minute):
				t.Fatal("Run does not end")
			}
			cancel()
			close(s.over)
			s.wg.Wait()
			settled(t, before)
		})
	}
	f("fenced at first", func() error { return source.ErrFenced }, fine, source.ErrFenced)
	f("fenced later", fine, once(source.ErrFenced), source.ErrFenced)
	f("closed", fine, once(source.ErrClosed), source.ErrClosed)
	f("busy", fine, once(source.ErrBusy), nil)
	f("never", fine, fine, nil)

	if err := NewFollow(FollowOptions{}, zerolog.Nop()).Run(t.Context(), nil); err == nil {
		t.Error("no paths: no error")
	}
	if err := NewFollow(FollowOptions{Paths: []string{"[x"}}, zerolog.Nop()).Run(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "not a pattern") {
		t.Errorf("a bad pattern: error %v", err)
	}
}

// FuzzPosition reads any stored position: it is refused or comes back as it was, and finding its file in any folder goes well.
func FuzzPosition(f *testing.F) {
	info, err := os.Stat(".")
	check(f, err)
	head := []byte(strings.Repeat("x", 200) + "\n")
	tl := tailed{mark: mark{info, head}, path: "/x/\xff\n", offset: 201, line: 2, last: head, first: day}
	f.Add(tl.position().String())
	f.Add(`{"v":1,"head":"` + sum(nil) + `","tail":"` + sum(nil) + `","line":1}`)
	f.Add(`{"v":1,"offset":-1}`)
	f.Fuzz(func(t *testing.T, s string) {
		p, err := parsePosition(s)
		if err != nil {
			return
		}
		again, err := parsePosition(p.String())
		if err != nil {
			t.Fatalf("%s: %v", p.String(), err)
		}
		if diff := cmp.Diff(p.String(), again.String()); diff != "" {
			t.Error(diff)
		}
		entries := []entry{{mark: mark{info: info}}, {mark: mark{info, head}}, {mark: mark{info, head}, packed: true}, {mark: mark{info, head[:20]}}}
		if i := p.find(entries); i >= 0 && int64(len(entries[i].head)) < int64(p.HeadBytes) {
			t.Errorf("%s is said to be entry %d", s, i)
		}
	})
}

// BenchmarkFollow catches up with the log that BenchmarkRead reads.
func BenchmarkFollow(b *testing.B) {
	text := events("a", 50_000, 0, 1, 1200)
	path := filepath.Join(files(b, "a.log", text), "a.log")
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		ctx, cancel := context.WithCancel(b.Context())
		in := &counting{all: int64(50_000), cancel: cancel}
		if err := NewFollow(FollowOptions{Paths: []string{path}}, zerolog.Nop()).Run(ctx, in); !errors.Is(err, context.Canceled) {
			b.Fatal(err)
		}
	}
}

// counting is an intake that only counts.
type counting struct {
	n, all int64
	cancel func()
}

func (*counting) Open(context.Context, string, int64) (string, error) { return "", nil }
func (*counting) Announce(context.Context, []string) error            { return nil }
func (*counting) Close(string)                                        {}

func (c *counting) Take(_ context.Context, b *source.Batch, done func(error)) error {
	c.n += int64(len(b.Events))
	if b.Release != nil {
		b.Release()
	}
	done(nil)
	if c.n == c.all {
		c.cancel()
	}
	return nil
}

// TestFollowUnreadable is about what may not be read: that is said once, and tried again.
func TestFollowUnreadable(t *testing.T) {
	// Nobody may read this, not even root.
	forbid := func(path string) {
		if os.Geteuid() == 0 {
			check(t, os.Symlink("/proc/sys/vm/compact_memory", path))
			return
		}
		check(t, os.WriteFile(path, nil, 0))
	}
	w, st := logIn(t), newStored()
	check(t, os.Remove(filepath.Dir(w.path)))
	check(t, os.WriteFile(filepath.Dir(w.path), nil, 0o600)) // no folder
	opt := following(w)
	opt.FollowLinks = true
	run := st.start(t, opt)
	until(t, "word of the folder", func() bool { return st.logged("not a directory") > 0 })
	check(t, os.Remove(filepath.Dir(w.path)))
	check(t, os.Mkdir(filepath.Dir(w.path), 0o700))
	forbid(w.beside("audit.log.1"))
	forbid(w.path)
	until(t, "word of the files", func() bool {
		return st.logged("audit.log: permission denied") > 0 && st.logged("audit.log.1: permission denied") > 0
	})
	until(t, "trouble in the stats", func() bool { return strings.Contains(run.follow.Stats()[0].Trouble, "audit.log: permission denied") })
	check(t, os.Remove(w.path))
	w.lines(5)
	st.await(t, w.lane(), w.want)
	until(t, "no trouble in the stats", func() bool { return run.follow.Stats()[0].Trouble == "" })
	st.oneGap(t, "audit.log.1: permission denied")
	if n := st.logged("permission denied\",\"message\":\"following a log"); n != 2 {
		t.Errorf("logged %d times", n)
	}
	// The next one is not for us: what is read of the last one does not hide that.
	check(t, os.Rename(w.path, w.beside("audit.log.2")))
	forbid(w.path)
	until(t, "trouble after a rotation", func() bool { return strings.Contains(run.follow.Stats()[0].Trouble, "audit.log: permission denied") })
	check(t, os.Remove(w.path))
	until(t, "trouble without a log", func() bool { return strings.Contains(run.follow.Stats()[0].Trouble, "no such file") })
}

// TestFollowClockSetBack: rotated files count by their numbers where they have them.
func TestFollowClockSetBack(t *testing.T) {
	w, st := logIn(t), newStored()
	*w.n = 1000
	w.lines(5)
	s := st.start(t, following(w))
	st.await(t, w.lane(), w.want)
	s.crash()
	w.lines(5)
	w.rename("audit.log", "audit.log.2")
	*w.n = 0
	w.file("audit.log.1", 5)
	w.open()
	w.lines(5)
	st.start(t, following(w))
	st.await(t, w.lane(), w.want)
	st.noGaps(t)
}

// TestFollowReducesLongLines is about such lines of which enough can be kept, written in parts, with a crash between them.
func TestFollowReducesLongLines(t *testing.T) {
	w, st := logIn(t), newStored()
	opt := following(w)
	opt.MaxEventBytes = 2000
	s := st.start(t, opt)
	for i := range 4 {
		w.lines(3)
		id := fmt.Sprintf("long%d", i)
		long := sized(id, 0, 3*chunkBytes)
		for part := range slices.Chunk([]byte(long), chunkBytes*2/3) {
			w.text(string(part))
			if i == 2 {
				st.await(t, w.lane(), w.want)
				s.crash()
				s = st.start(t, opt)
			}
		}
		w.want = append(w.want, id)
		w.text("\n")
		st.await(t, w.lane(), w.want)
	}
	w.text(answered(sized("answered", 0, 100), 3*chunkBytes) + "\n")
	w.want = append(w.want, "answered")
	w.lines(2)
	st.await(t, w.lane(), w.want)
	st.noGaps(t)
	s.crash()
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.counts.Malformed != 0 || len(st.places) != 0 || st.answers != 1 {
		t.Errorf("%+v %v, %d for their responses", st.counts, st.places, st.answers)
	}
}

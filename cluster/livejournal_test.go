package cluster

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/nodeauthz"
)

// copyDir makes the image of a folder that a crash at this moment would leave.
func copyDir(t testing.TB, dir string) string {
	t.Helper()
	to := t.TempDir()
	for tries := 0; ; tries++ {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		whole := true
		for _, e := range entries {
			raw, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil { // renamed or packed meanwhile: a crash sees one or the other
				whole = false
				break
			}
			if err := os.WriteFile(filepath.Join(to, e.Name()), raw, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if whole || tries > 100 {
			return to
		}
		to = t.TempDir()
	}
}

// cutTail takes up to n bytes from the end of the newest plain file of pods.
func cutTail(t testing.TB, dir string, n int) {
	t.Helper()
	files, err := listJournals(dir)
	if err != nil || len(files[kindPod]) == 0 {
		t.Fatal(err, files[kindPod])
	}
	path := files[kindPod][len(files[kindPod])-1].path
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, max(0, info.Size()-int64(n))); err != nil {
		t.Fatal(err)
	}
}

type truth struct {
	pod, node string
	from, to  time.Time // to is zero while it lives
}

// alive are those that were not removed.
func alive(lives []*truth) (out []*truth) {
	for _, p := range lives {
		if p.to.IsZero() {
			out = append(out, p)
		}
	}
	return out
}

type interval struct{ from, to time.Time }

func (i interval) String() string {
	return i.from.UTC().Format(journalTime) + "/" + i.to.UTC().Format(journalTime)
}

func within(all []interval, t time.Time) bool {
	for _, i := range all {
		if !t.Before(i.from) && !t.After(i.to) {
			return true
		}
	}
	return false
}

// TestLiveAgainstTruth lets pods come and go while Live is killed at random, in a cluster that at times forgets its past, and then asks at many
// instants. What is not a race must be true; what is unknown must lie where nobody watched.
func TestLiveAgainstTruth(t *testing.T) {
	for seed := range effort.Of(uint64(4), 1) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			againstTruth(t, rand.New(rand.NewPCG(seed, 11)))
		})
	}
}

func againstTruth(t *testing.T, rng *rand.Rand) {
	c := newFakeCluster(t)
	c.put(rolesPath, clusterRole("admin", "admin-1"))
	var lives []*truth
	var unsure, blind []interval // where an operation was under way; where nobody watched
	serial := 0
	// operate makes or deletes a pod, and waits until l has seen it, if there is one.
	operate := func(l *liveTest) {
		began := time.Now()
		alive := alive(lives)
		if len(alive) > 0 && (rng.IntN(3) == 0 || len(alive) > 6) {
			p := alive[rng.IntN(len(alive))]
			c.remove(podsPath, "shop/"+p.pod)
			p.to = began
			if l != nil {
				l.seesPod(p.pod, false)
			}
		} else {
			serial++
			p := &truth{pod: fmt.Sprint("p", serial), node: fmt.Sprint("n", rng.IntN(2)), from: began}
			lives = append(lives, p)
			c.pod(p.pod, "u"+p.pod, p.node, "s"+fmt.Sprint(serial%5))
			if l != nil {
				l.seesPod(p.pod, true)
			}
		}
		unsure = append(unsure, interval{began, time.Now()})
	}
	start := time.Now()
	dir := t.TempDir()
	var l *liveTest
	for range effort.Of(6, 3) {
		segment := time.Now()
		cfg := LiveConfig{Dir: dir, MaxFile: int64(500 + rng.IntN(3000))}
		cfg.Record.catchUp = catchUpFor // the times of what was missed depend on it
		l = startLive(t, c, cfg)
		up := l.caughtUp()
		if len(blind) == 0 {
			blind = append(blind, interval{start, up})
		} else {
			blind[len(blind)-1].to = up
		}
		for range 3 + rng.IntN(8) {
			operate(l)
			if rng.IntN(6) == 0 { // the connection breaks, at times for so long that all must be listed again
				lost := l.proven()
				c.down(true)
				l.interrupted()
				operate(nil)
				if rng.IntN(2) == 0 {
					c.forget()
				}
				c.down(false)
				blind = append(blind, interval{lost, l.caughtUp()})
			}
		}
		lost := l.proven()
		dir = copyDir(t, dir)
		if rng.IntN(2) == 0 {
			cutTail(t, dir, rng.IntN(300))
			lost = segment
		}
		l.stop()
		blind = append(blind, interval{from: lost})
		for range rng.IntN(4) {
			operate(nil)
		}
		if rng.IntN(3) == 0 {
			c.forget()
		}
	}
	l = startLive(t, c, LiveConfig{Dir: dir})
	blind[len(blind)-1].to = l.caughtUp()
	end := l.proven()
	l.stop()
	loaded := NewState()
	if err := loaded.Load([]string{dir}, nil); err != nil {
		t.Fatal(err)
	}
	f, err := nodeauthz.FeaturesFor("")
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*State{"live": l.state, "loaded": loaded} {
		counts := map[string]int{}
		a := nodeauthz.NewAuthorizer(s.Graph, f, 0)
		for at := start; at.Before(end); at = at.Add(end.Sub(start) / 2000) {
			if within(unsure, at) {
				continue
			}
			for secret := range 5 {
				for node := range 2 {
					want := "deny"
					for _, p := range lives {
						if p.node == fmt.Sprint("n", node) && strings.TrimPrefix(p.pod, "p") != "" && !at.Before(p.from) && (p.to.IsZero() || at.Before(p.to)) {
							var n int
							_, _ = fmt.Sscanf(p.pod, "p%d", &n)
							if n%5 == secret {
								want = "allow"
							}
						}
					}
					got := decide(a, fmt.Sprint("n", node), fmt.Sprint("s", secret), at)
					words := got.Verdict.String()
					counts[words]++
					switch {
					case got.Race:
						counts["race"]++
						if !within(blind, at) {
							t.Fatalf("%s: a race at %s where all was watched", name, at)
						}
					case got.Verdict == nodeauthz.Unknown && !within(blind, at):
						t.Fatalf("%s: unknown at %s of %s", name, at.UTC().Format(journalTime), blind)
					case got.Verdict == nodeauthz.Unknown:
					case words != want:
						t.Fatalf("%s: secret s%d of n%d at %s: %s, but it was %s", name, secret, node, at.UTC().Format(journalTime), words, want)
					}
				}
			}
		}
		t.Logf("%s: %v", name, counts)
		if counts["allow"] == 0 || counts["deny"] == 0 || counts["unknown"] == 0 {
			t.Errorf("%s shows little: %v", name, counts)
		}
	}
}

// However much of the journal's end a crash has taken, it is read up to there, and what is missing is watched again.
func TestJournalCutAnywhere(t *testing.T) {
	c := newFakeCluster(t)
	c.put(rolesPath, clusterRole("admin", "admin-1"))
	c.pod("a", "ua", "n1", "sa")
	l := startLive(t, c, LiveConfig{Dir: t.TempDir()})
	l.proven()
	c.pod("b", "ub", "n1", "sb")
	l.seesPod("b", true)
	c.remove(podsPath, "shop/a")
	l.seesPod("a", false)
	l.proven()
	l.stop()
	files, err := listJournals(l.cfg.Dir)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(files[kindPod][0].path)
	if err != nil {
		t.Fatal(err)
	}
	_, list, ok := bytes.Cut(whole, []byte("initial-events-end"))
	if !ok {
		t.Fatalf("%s", whole)
	}
	head := len(whole) - len(list) + bytes.IndexByte(list, '\n') + 1
	every := effort.Of(1, 7)
	for n := 0; n <= len(whole); n += every {
		scan, err := scanJournal(bytes.NewReader(whole[:n]), kindPod)
		if want := int64(bytes.LastIndexByte(whole[:n], '\n') + 1); err != nil || scan.size != want || scan.listed != (n >= head) {
			t.Fatalf("cut at %d: %+v %v", n, scan, err)
		}
		if n%37 != 0 && n != head && n != head-1 && n != len(whole) {
			continue
		}
		dir := t.TempDir()
		path := filepath.Join(dir, filepath.Base(files[kindPod][0].path))
		if err := os.WriteFile(path, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		s := NewState()
		cfg := l.cfg
		cfg.Dir = dir
		live, err := NewLive(cfg, s, zerolog.Nop())
		if err != nil {
			t.Fatalf("cut at %d: %v", n, err)
		}
		r := live.kinds[kindPod].rec
		if got := s.Summary(); got.Malformed != 0 {
			t.Fatalf("cut at %d: %+v", n, got)
		}
		if r.listed != (n >= head) {
			t.Fatalf("cut at %d of %d: listed %t", n, head, r.listed)
		}
		if !r.listed {
			continue
		}
		after, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if want := bytes.LastIndexByte(whole[:n], '\n') + 1; len(after) != want {
			t.Fatalf("cut at %d: %d bytes are left, want %d", n, len(after), want)
		}
		for name, o := range r.known {
			got, err := newDecoder().object(kindPod, after[o.at:o.at+int64(o.size)])
			if err != nil || got.ref != name || got.uid != o.uid {
				t.Fatalf("cut at %d: %v is not where it should be: %+v %v", n, name, got, err)
			}
		}
		for _, k := range live.kinds {
			k.stopped()
		}
	}
}

// What is older than the horizon goes, what is not current is packed, and what is left is whole.
func TestJournalIsTidied(t *testing.T) {
	c := newFakeCluster(t)
	c.pod("keep", "u", "n1", "sk")
	l := startLive(t, c, LiveConfig{Dir: t.TempDir(), MaxFile: 1})
	l.proven()
	serial := 0
	churn := func(n int) {
		for range n {
			serial++
			name := fmt.Sprint("p", serial)
			c.pod(name, "u"+name, "n1", "s"+name)
			l.seesPod(name, true)
			c.remove(podsPath, "shop/"+name)
			l.seesPod(name, false)
		}
	}
	churn(10)
	files := func() (plain, packed int) {
		all, err := listJournals(l.cfg.Dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range all[kindPod] {
			if strings.HasSuffix(f.path, packedSuffix) {
				packed++
			} else {
				plain++
			}
		}
		return plain, packed
	}
	l.until("packed", func() bool { plain, packed := files(); return plain <= 2 && packed > 2 })
	middle := l.proven()
	churn(3)
	l.stop()
	live := func(s *State) {
		t.Helper()
		for secret, want := range map[string]string{"sk": "allow", "sp1": "deny"} {
			if got := says(t, s, "n1", secret, middle); got != want {
				t.Errorf("%s: %s, want %s", secret, got, want)
			}
		}
	}
	live(l.state)
	s := NewState()
	if err := s.Load([]string{l.cfg.Dir}, nil); err != nil {
		t.Fatal(err)
	}
	live(s)
	before, _ := l.state.Graph.CoveredFrom()
	if err := tidyJournals(context.Background(), l.cfg.Dir, nil, middle); err != nil {
		t.Fatal(err)
	}
	s = NewState()
	if err := s.Load([]string{l.cfg.Dir}, nil); err != nil {
		t.Fatal(err)
	}
	live(s)
	if from, _ := s.Graph.CoveredFrom(); !from.After(before) || from.After(middle) {
		t.Errorf("covers from %s, before from %s", from, before)
	}
}

// A full disk ends the journal, not the state; when there is room again, the journal begins anew.
func TestJournalWithoutRoom(t *testing.T) {
	c := newFakeCluster(t)
	c.pod("a", "ua", "n1", "sa")
	l := startLive(t, c, LiveConfig{Dir: t.TempDir()})
	l.proven()
	l.stop()
	k := l.live.kinds[kindPod]
	files, err := listJournals(l.cfg.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.j.reopen(files[kindPod][0].path, 1<<10); err != nil {
		t.Fatal(err)
	}
	_ = k.j.f.Close() // every write fails from now on
	now := time.Now()
	_, _ = k.j.append("BOOKMARK", []byte("{}"), now, time.Time{})
	k.j.flush(now)
	if k.j.f != nil || k.j.lost(now.Add(time.Second)) || !k.j.lost(now.Add(retryJournal)) {
		t.Error("the error was not noticed")
	}
	if at, size := k.j.append("BOOKMARK", []byte("{}"), now, time.Time{}); at != 0 || size != 0 || k.j.full() {
		t.Error("something was written")
	}
	k.j.flush(now)
	k.j.close()
	if !k.j.begin(now) {
		t.Fatal("a new file cannot be begun")
	}
	k.j.append("BOOKMARK", []byte("{}"), now, time.Time{})
	k.j.listed(now)
	raw, err := os.ReadFile(k.j.path)
	if err != nil || bytes.IndexByte(raw, 0) >= 0 || lines(t, string(raw)) != 1 {
		t.Errorf("%q %v", raw, err)
	}
	k.j.dir = filepath.Join(k.j.dir, "gone")
	if k.j.begin(now) {
		t.Error("a file in no folder")
	}
}

// A journal that could not be written is begun anew by a list, while the watch continues.
func TestLiveBeginsAJournalAnew(t *testing.T) {
	c := newFakeCluster(t)
	c.pod("a", "ua", "n1", "sa")
	c.pod("b", "ub", "n1", "sb")
	l := startLive(t, c, LiveConfig{Dir: t.TempDir()})
	l.proven()
	l.stop()
	// As after an error more than a minute ago.
	k := l.live.kinds[kindPod]
	k.j.drop()
	k.j.failed = time.Now().Add(-2 * retryJournal)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); k.rec.run(ctx); k.stopped() }()
	defer func() { cancel(); <-done }()
	l.until("begun anew", func() bool { f, _ := listJournals(l.cfg.Dir); return len(f[kindPod]) == 2 })
	c.pod("c", "uc", "n1", "sc")
	l.seesPod("c", true)
	cancel()
	<-done
	files, err := listJournals(l.cfg.Dir)
	if err != nil {
		t.Fatal(err)
	}
	s := NewState()
	if err := s.Load([]string{files[kindPod][1].path}, nil); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", "c"} {
		if _, ok := s.Graph.PodNode("shop", name, time.Now().Add(time.Hour)); !ok {
			t.Errorf("%s is not in the new file", name)
		}
	}
}

// A damaged file and those before it are set aside; what is after it counts.
func TestDamagedJournalFile(t *testing.T) {
	c := newFakeCluster(t)
	c.pod("keep", "u", "n1", "sk")
	l := startLive(t, c, LiveConfig{Dir: t.TempDir(), MaxFile: 1})
	l.proven()
	for i := range 6 {
		name := fmt.Sprint("p", i)
		c.pod(name, "u"+name, "n1", "s"+name)
		l.seesPod(name, true)
	}
	at := l.proven()
	l.stop()
	files, err := listJournals(l.cfg.Dir)
	if err != nil || len(files[kindPod]) < 3 {
		t.Fatal(err, files[kindPod])
	}
	middle := files[kindPod][1].path
	if strings.HasSuffix(middle, journalSuffix) {
		if err := packJournal(context.Background(), middle); err != nil {
			t.Fatal(err)
		}
		middle = strings.TrimSuffix(middle, journalSuffix) + packedSuffix
	}
	raw, err := os.ReadFile(middle)
	if err == nil {
		err = os.WriteFile(middle, append(raw[:len(raw)/2:len(raw)/2], "garbage"...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	l = startLive(t, c, l.cfg)
	l.caughtUp()
	if log := l.log.String(); !strings.Contains(log, "is damaged") {
		t.Error(log)
	}
	l.expect("n1", "sk", at, "allow")
	l.expect("n1", "none", at, "deny")
	aside, err := filepath.Glob(filepath.Join(l.cfg.Dir, "*.damaged"))
	if err != nil || len(aside) != 2 {
		t.Errorf("%v %v", err, aside)
	}
}

func FuzzScanJournal(f *testing.F) {
	line, _ := appendEntry(nil, "ADDED", []byte(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","uid":"u","resourceVersion":"7"}}`), base, time.Time{})
	end, _ := appendEntry(nil, "BOOKMARK", []byte(`{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"8","annotations":{"k8s.io/initial-events-end":"true"}}}`), base.Add(time.Second), time.Time{})
	f.Add(append(append([]byte(nil), line...), end...))
	f.Add(append(append(append([]byte(nil), line...), end...), line[:40]...))
	f.Add([]byte(`{"observedAt":"2026-11-21T06:00:00Z","type":"ADDED","object":}` + "\n"))
	f.Add([]byte(`{"observedAt":"2026-11-21T06:00:00Z","type":"ADDED","x":{"object":1},"object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}} }` + "\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := scanJournal(bytes.NewReader(raw), kindPod)
		if err != nil {
			t.Fatal(err)
		}
		if s.size < 0 || s.size > int64(len(raw)) || s.size > 0 && raw[s.size-1] != '\n' {
			t.Fatalf("%d of %d bytes", s.size, len(raw))
		}
		for name, o := range s.known {
			if o.at < 0 || o.size < 2 || o.at+int64(o.size) > s.size {
				t.Fatalf("%v stands at %d with %d bytes of %d", name, o.at, o.size, s.size)
			}
		}
		again, err := scanJournal(bytes.NewReader(raw[:s.size]), kindPod)
		if err != nil || again.size != s.size || again.rv != s.rv || !again.good.Equal(s.good) || len(again.known) != len(s.known) {
			t.Fatalf("the same again: %+v, %+v, %v", s, again, err)
		}
	})
}

func FuzzReadPage(f *testing.F) {
	f.Add([]byte(`{"kind":"PodList","metadata":{"resourceVersion":"7","continue":"x"},"items":[{"kind":"Pod","metadata":{"name":"a"}},{}]}`))
	f.Add([]byte(`{"metadata":null,"items":null}`))
	f.Add([]byte(`{"items":[null,1,[]],"metadata":{"resourceVersion":5}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := readPage(raw)
		if err != nil {
			return
		}
		for _, i := range p.items {
			if o, err := item(i); err == nil {
				_ = nameOf(o)
			}
		}
	})
}

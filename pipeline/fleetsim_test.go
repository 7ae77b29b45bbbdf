package pipeline

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/pipeline/source"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// One, two and three analyzers of one topic and one store find what detectors find that see the whole log: while partitions are nobody's, change hands,
// lag behind and have nothing, analyzers are killed and get stuck, also the one that judges for all, their clocks differ, and messages come twice.
// Their time is virtual.
func TestFleetFindsWhatOneFinds(t *testing.T) {
	lines := crowded()
	want := tally.New()
	d, judge := newDetectors(), judgeOf(t, loaded(t, captureJournal), "Node,RBAC")
	judge.Tallies = true
	add := func(f *rules.Detection) {
		e := DetectionEntry(f, judge.State)
		want.Add(&e)
	}
	for i := range lines {
		j := judge.Judge(&lines[i].events[0])
		e := j.Entry.Own()
		e.ID = idOf(&lines[i].events[0])
		want.Add(&e)
		d.Observe(&j.Request, judge.State)
		if d.Due() {
			d.Advance(time.Time{}, judge.State, add)
		}
	}
	d.Flush(judge.State, add)
	reasons := map[rules.Reason]bool{}
	for _, g := range want.Groups {
		reasons[g.Reason] = true
	}
	for _, r := range []rules.Reason{rules.SpikeOfCluster, rules.SharedCertificate, rules.SecondAddress, rules.ManyWithinMinutes} {
		if !reasons[r] {
			t.Fatalf("%s is not in the log: %v", r, reasons)
		}
	}
	for seed := range effort.Of(uint64(40), 3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSimulation(t, lines, seed)
				s.run()
				if diff := cmp.Diff(found(want), found(s.h.store.sum)); diff != "" {
					t.Errorf("(-one +fleet):\n%s", diff)
				}
				if n := s.late.Load(); n > 0 {
					t.Errorf("%d requests are late", n)
				}
				if n := len(s.h.store.rows); n > 1000 { // what came after the last cut
					t.Errorf("%d rows are left", n)
				}
			})
		})
	}
}

// simulation is a topic, its consumer group and the analyzers in it.
type simulation struct {
	t       *testing.T
	h       *harness
	rnd     *rand.Rand
	began   time.Time
	base    time.Time // what a right clock shows at began
	lasts   time.Duration
	topic   [][]message
	members []*member
	fence   int64
	joined  context.CancelFunc // ends the generation
	late    atomic.Int64
	running sync.WaitGroup

	mu     sync.Mutex
	stuck  map[*bool]time.Time     // until when
	strike map[*bool]time.Duration // for how long it gets stuck when it stores what detectors remember
}

// message is there from a time on.
type message struct {
	logLine
	at time.Time
}

// member is an analyzer.
type member struct {
	s          *simulation
	e          *Engine
	kill, stop func()
	killed     *bool
	wrong      time.Duration // how wrong its clock is
	ctx        context.Context
	cancel     context.CancelFunc
	stuckUntil time.Time
}

func (m *member) now() time.Time { return m.s.base.Add(time.Since(m.s.began) + m.wrong) }

func newSimulation(t *testing.T, lines []logLine, seed uint64) *simulation {
	rnd := rand.New(rand.NewPCG(seed, 16))
	speed := []time.Duration{1, 7, 60, 200}[rnd.IntN(4)]
	s := &simulation{
		t: t, h: &harness{t: t, store: newModelStore(), mode: "Node,RBAC"}, rnd: rnd, began: time.Now(), base: epoch, topic: make([][]message, 7), stuck: map[*bool]time.Time{}, strike: map[*bool]time.Duration{},
	}
	if speed > 1 { // an old log comes in faster than it was written
		s.base = epoch.Add(30 * 24 * time.Hour)
	}
	behind := make([]time.Duration, len(s.topic)) // one partition is written to later than another
	for i := range behind {
		behind[i] = time.Duration(rnd.Int64N(int64(8 * time.Second)))
	}
	for _, l := range lines {
		f := fnv.New32a()
		f.Write([]byte(l.events[0].User.Username))
		i := int(f.Sum32()) % len(s.topic)
		at := s.began.Add(l.events[0].StageTime.Sub(epoch)/speed + behind[i])
		for range 1 + rnd.IntN(20)/19 {
			s.topic[i] = append(s.topic[i], message{l, at})
		}
		s.lasts = max(s.lasts, at.Sub(s.began))
	}
	s.h.store.gate = func(killed *bool, c *tally.Commit) {
		s.mu.Lock()
		if d := s.strike[killed]; d > 0 && c != nil && c.OverTime != nil {
			s.stuck[killed] = time.Now().Add(d)
			delete(s.strike, killed)
		}
		until := s.stuck[killed]
		s.mu.Unlock()
		time.Sleep(time.Until(until))
	}
	for range 1 + seed%3 {
		s.members = append(s.members, s.begin())
	}
	return s
}

// begin starts an analyzer, whose clock may be wrong.
func (s *simulation) begin() *member {
	m := &member{s: s}
	if s.rnd.IntN(2) == 0 {
		m.wrong = time.Duration(s.rnd.Int64N(int64(40*time.Minute))) - 20*time.Minute
	}
	s.h.opt = EngineOptions{Detectors: newDetectors(), Now: m.now}
	m.e, m.kill, m.stop = s.h.start()
	m.killed = m.e.opt.Store.(process).killed
	m.ctx, m.cancel = context.WithCancel(context.Background())
	return m
}

// end ends an analyzer, which may be stuck.
func (s *simulation) end(m *member, kill bool) {
	m.cancel()
	s.running.Go(func() {
		if kill {
			m.kill()
		} else {
			m.stop()
		}
		s.late.Add(m.e.opt.Detectors.Late())
	})
}

// share shares the partitions out anew, after a while in which they are nobody's. An analyzer that is stuck does not hear of it.
func (s *simulation) share() {
	if s.joined != nil {
		s.joined()
	}
	time.Sleep(time.Duration(s.rnd.Int64N(int64(20 * time.Second))))
	var able []*member
	for _, m := range s.members {
		if time.Now().After(m.stuckUntil) {
			able = append(able, m)
		}
	}
	s.fence++
	gen, cancel := context.WithCancel(context.Background())
	s.joined = cancel
	if len(able) == 0 {
		return
	}
	var names []string
	for p := range s.topic {
		names = append(names, fmt.Sprintf("kafka:audit/%d", p))
	}
	if err := able[0].e.Announce(s.t.Context(), names); err != nil {
		s.t.Error(err)
	}
	for p, name := range names {
		m, fence, rnd := able[s.rnd.IntN(len(able))], s.fence, rand.New(rand.NewPCG(s.rnd.Uint64(), 1))
		ctx, leave := context.WithCancel(m.ctx)
		context.AfterFunc(gen, func() {
			s.mu.Lock()
			until := s.stuck[m.killed]
			s.mu.Unlock()
			time.Sleep(time.Until(until)) // it does not know
			leave()
		})
		s.running.Go(func() {
			time.Sleep(time.Duration(rnd.Int64N(int64(3 * time.Second))))
			for ctx.Err() == nil {
				m.read(ctx, name, s.topic[p], fence, rnd)
				time.Sleep(time.Second)
			}
			leave()
		})
	}
}

// read reads a partition.
func (m *member) read(ctx context.Context, name string, all []message, fence int64, rnd *rand.Rand) {
	position, err := m.e.Open(ctx, name, fence)
	if err != nil {
		return
	}
	defer m.e.Close(name)
	next, _ := strconv.Atoi(position) // 0 where there is none
	var lost atomic.Bool
	var told time.Time
	for ctx.Err() == nil && !lost.Load() {
		if rnd.IntN(2000) == 0 {
			time.Sleep(time.Duration(rnd.Int64N(int64(3 * time.Minute)))) // it does not answer
		}
		began, there := m.now(), next
		for there < len(all) && !all[there].at.After(time.Now()) {
			there++
		}
		b := &source.Batch{}
		if n := min(there-next, 1+rnd.IntN(500)); n > 0 {
			var lines []logLine
			for _, one := range all[next : next+n] {
				lines = append(lines, one.logLine)
			}
			b, next = batchOf(lines), next+n
			b.Received, b.Position, b.Behind = began, strconv.Itoa(next), next < there
		}
		b.Lane, b.Wait = name, true
		if next == there {
			b.Ended = began
		}
		if b.Position != "" || began.Sub(told) >= time.Second {
			told = began
			if err := m.e.Take(ctx, b, func(err error) {
				if err != nil {
					lost.Store(true)
				}
			}); err != nil {
				return
			}
		}
		if next == there {
			time.Sleep(300 * time.Millisecond)
		}
	}
}

func (s *simulation) run() {
	s.share()
	for events := 2 + s.rnd.IntN(12); events > 0; events-- {
		time.Sleep(time.Duration(s.rnd.Int64N(2*int64(s.lasts)/int64(events+1) + 1)))
		if time.Since(s.began) > s.lasts {
			break
		}
		i := s.rnd.IntN(len(s.members))
		if s.rnd.IntN(2) == 0 {
			i = max(0, slices.IndexFunc(s.members, func(m *member) bool { return m.killed == s.h.store.judge() }))
		}
		m := s.members[i]
		switch s.rnd.IntN(4) {
		case 0:
		case 1: // its partitions are nobody's for a while
			s.end(m, true)
			s.members[i] = s.begin()
			time.Sleep(time.Duration(s.rnd.Int64N(int64(45 * time.Second))))
		case 2:
			s.end(m, false)
			s.members[i] = s.begin()
		case 3: // its session ends, and it finds that out later
			stuck := time.Duration(s.rnd.Int64N(int64(4 * time.Minute)))
			s.mu.Lock()
			if s.rnd.IntN(2) == 0 {
				s.stuck[m.killed] = time.Now().Add(stuck)
			} else {
				s.strike[m.killed] = stuck
			}
			s.mu.Unlock()
			time.Sleep(12 * time.Second)
			s.mu.Lock()
			m.stuckUntil = s.stuck[m.killed]
			s.mu.Unlock()
			time.Sleep(time.Duration(s.rnd.Int64N(int64(30 * time.Second))))
			if s.rnd.IntN(2) == 0 { // who took over from it ends when it is back
				s.share()
				time.Sleep(time.Until(m.stuckUntil) + time.Duration(s.rnd.Int64N(int64(5*time.Second))))
				for k, other := range s.members {
					if k != i {
						s.end(other, true)
						s.members[k] = s.begin()
					}
				}
			}
		}
		s.share()
	}
	time.Sleep(s.lasts - time.Since(s.began) + 5*time.Minute)
	s.share()
	time.Sleep(15 * time.Minute) // the log is silent
	s.joined()
	for _, m := range s.members {
		s.end(m, false)
	}
	s.running.Wait()
}

// One analyzer judges what several requests show as soon as the lateness allows, also where it has another source that has no events.
func TestOneAnalyzerDoesNotWait(t *testing.T) {
	lines := crowded()
	for _, c := range []struct {
		name, other string
		most        time.Duration // beyond the lateness and a step; there are seconds without any event
	}{{"one source", "", 6 * time.Second}, {"and one without events", "webhook:audit", 20 * time.Second}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, began := &harness{t: t, store: newModelStore(), mode: "Node,RBAC"}, time.Now()
				now := func() time.Time { return epoch.Add(time.Since(began)) }
				h.opt = EngineOptions{Detectors: newDetectors(), Now: now}
				e, _, stop := h.start()
				defer stop()
				for _, name := range []string{"file:a", c.other} {
					if name == "" {
						continue
					}
					if _, err := e.Open(t.Context(), name, 0); err != nil {
						t.Fatal(err)
					}
				}
				next := 0
				for time.Since(began) < 12*time.Minute {
					time.Sleep(time.Second)
					first := next
					for lines[next].events[0].StageTime.Before(now()) {
						next++
					}
					if next > first {
						b := batchOf(lines[first:next])
						b.Lane, b.Position, b.Received, b.Wait = "file:a", strconv.Itoa(next), now(), true
						if err := e.Take(t.Context(), b, func(error) {}); err != nil {
							t.Fatal(err)
						}
					}
					var at time.Time
					if err := e.Do(t.Context(), func() { at = e.over.lanes.Watermark() }); err != nil {
						t.Fatal(err)
					}
					if behind := now().Sub(at) - rules.DefaultLateness - rules.DetectStep; time.Since(began) > 4*time.Minute && behind > c.most {
						t.Fatalf("after %v time is %v behind", time.Since(began), behind)
					}
				}
			})
		})
	}
}

package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nodetrail/nodetrail/evidence"
	"github.com/nodetrail/nodetrail/pipeline/source"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// modelStore keeps what a store has to, in the plainest way. A crash is the loss of everything but this.
type modelStore struct {
	mu     sync.Mutex
	lanes  map[string]*tally.LaneCommit // fence, position and latest
	owners map[string]*bool             // of the lanes: the process, by what says whether it was killed
	seen   map[tally.ID][]tally.ID      // the answers of each ID, of which one may be none
	opened map[tally.ID]tally.Opened
	of     map[tally.ID]string
	memory map[string]tally.Remembered
	rows   []tally.ObservationRow
	number int64
	judges *bool // the process that has the lease
	// frontier is what it stored last; touched counts what was stored of each lane.
	frontier time.Time
	touched  map[string]int64
	asked    time.Time // when who has the lease asked for it last
	// gate holds up a process, nil for none; c is what it commits.
	gate   func(killed *bool, c *tally.Commit)
	sum    *tally.Tally
	ledger *evidence.Ledger
	fail   func() error // called before each commit
	// lives is how many more commits a process lives, if it is not 0; it dies before or after the last one. died is closed then.
	lives int
	died  chan struct{}
}

func newModelStore() *modelStore {
	return &modelStore{
		lanes: map[string]*tally.LaneCommit{}, owners: map[string]*bool{}, seen: map[tally.ID][]tally.ID{}, opened: map[tally.ID]tally.Opened{}, of: map[tally.ID]string{},
		memory: map[string]tally.Remembered{}, touched: map[string]int64{}, sum: tally.New(), ledger: evidence.New(),
	}
}

// has reports whether the request is stored. One that was stored without an answer is given this one.
func (s *modelStore) has(id, answer tally.ID) bool {
	answers := s.seen[id]
	if answer == (tally.ID{}) || slices.Contains(answers, answer) {
		return answers != nil
	}
	if i := slices.Index(answers, tally.ID{}); i >= 0 {
		answers[i] = answer
		return true
	}
	return false
}

// stored reports whether an operation is, the beginning of a request by itself, too.
func (s *modelStore) stored(o operation) bool {
	is := o.request()
	_, opened := s.opened[is.ID]
	return slices.Contains(s.seen[is.ID], is.Answer) || o.stage == began && (opened || s.seen[is.ID] != nil)
}

// count is how many requests are stored.
func (s *modelStore) count() (n int) {
	for _, answers := range s.seen {
		n += len(answers)
	}
	return n
}

// process is the store as one process sees it, until it is killed.
type process struct {
	*modelStore
	killed *bool
}

// wait is called before anything is asked of the store.
func (p process) wait(c *tally.Commit) {
	if p.gate != nil {
		p.gate(p.killed, c)
	}
}

var errKilled = errors.New("killed")

func (p process) Acquire(_ context.Context, name string, fence int64, recent int) (*tally.Lane, error) {
	p.wait(nil)
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.lanes[name]
	if l == nil {
		l = &tally.LaneCommit{}
		p.lanes[name] = l
	}
	if fence < l.Fence {
		return nil, source.ErrFenced
	}
	l.Fence = fence
	p.touched[name]++
	out := &tally.Lane{Position: l.Position, Latest: l.Latest}
	p.owners[name] = p.killed
	for id, o := range p.opened {
		if p.of[id] == name {
			out.Opened = append(out.Opened, o)
		}
	}
	for id, answers := range p.seen {
		for _, answer := range answers {
			if len(out.Recent) < max(recent/100, min(recent, 4)) { // most must be found by the store
				out.Recent = append(out.Recent, tally.Seen{ID: id, Answer: answer})
			}
		}
	}
	return out, nil
}

// Announce implements tally.Store.
func (p process) Announce(_ context.Context, lanes []string) error {
	p.wait(nil)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range lanes {
		if p.lanes[name] == nil {
			p.lanes[name] = &tally.LaneCommit{Fence: -1}
		}
		p.touched[name]++
	}
	return nil
}

// Lease gives the lane to whoever asks when the last one was killed, gave it up, or has not asked for it for long.
func (p process) Lease(_ context.Context, name string, frontier time.Time) (tally.Lease, error) {
	p.wait(nil)
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.lanes[name]
	if l == nil {
		l = &tally.LaneCommit{}
		p.lanes[name] = l
	}
	switch {
	case *p.killed:
		return tally.Lease{}, errKilled
	case p.judges != nil && p.judges != p.killed && !*p.judges && time.Since(p.asked) < 10*time.Second:
		return tally.Lease{Frontier: p.frontier}, nil
	case p.judges != p.killed:
		l.Fence++
		p.modelStore.judges = p.killed
	}
	p.modelStore.asked = time.Now()
	if !frontier.IsZero() {
		p.modelStore.frontier = frontier
	}
	return tally.Lease{Held: true, Fence: l.Fence, Frontier: p.frontier}, nil
}

// judge is the process that has the lease.
func (s *modelStore) judge() *bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.judges
}

func (p process) Resign(_ context.Context, _ string) error {
	p.wait(nil)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.judges == p.killed {
		p.modelStore.judges = nil
	}
	return nil
}

func (p process) Observations(_ context.Context, after map[string]int64) (*tally.Observed, error) {
	p.wait(nil)
	p.mu.Lock()
	defer p.mu.Unlock()
	out := &tally.Observed{}
	for _, row := range p.rows {
		if row.Number <= after[row.Writer] {
			continue
		}
		if out.More = len(out.Rows) >= 10; out.More {
			break
		}
		row.Body = slices.Clone(row.Body)
		out.Rows = append(out.Rows, row)
	}
	for name := range p.lanes {
		if name != tally.OverTimeLane {
			out.Lanes = append(out.Lanes, rules.KnownLane{Name: name, Shared: p.lanes[name].Fence != 0, Touched: p.touched[name]})
		}
	}
	return out, nil
}

// observe keeps what detectors look at of the requests that a commit counts.
func (p process) observe(c *tally.Commit) {
	var o rules.Observations
	for i := range c.Lanes {
		lc := &c.Lanes[i]
		o.Lane(lc.Lane, lc.Reached)
		for k := range lc.Entries {
			if e := &lc.Entries[k]; len(e.Observation) > 0 && !e.Duplicate {
				o.Add(e.Observation)
			}
		}
	}
	p.modelStore.number++
	if b := o.Bytes(); b != nil {
		p.modelStore.rows = append(p.modelStore.rows, tally.ObservationRow{RowID: tally.RowID{Writer: fmt.Sprintf("%p", p.killed), Number: p.number}, Body: b})
	}
	if c.OverTime == nil {
		return
	}
	p.modelStore.rows = slices.DeleteFunc(p.rows, func(row tally.ObservationRow) bool { return slices.Contains(c.OverTime.Taken, row.RowID) })
	for _, r := range c.OverTime.Memory {
		p.memory[r.Kind+"/"+r.Key] = r
	}
}

func (p process) Memory(context.Context) ([]tally.Remembered, error) {
	p.wait(nil)
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []tally.Remembered
	for _, r := range p.memory {
		all = append(all, r)
	}
	return all, nil
}

func (p process) Commit(_ context.Context, c *tally.Commit) (err error) {
	p.wait(c)
	p.mu.Lock()
	defer p.mu.Unlock()
	if *p.killed {
		return errKilled
	}
	if p.lives != 0 {
		if p.lives--; p.lives == 0 {
			*p.killed = true
			close(p.died)
			if len(c.Lanes)%2 == 0 || len(c.Memory)%2 == 0 {
				return errKilled
			}
		}
	}
	if p.fail != nil {
		if err := p.fail(); err != nil {
			return err
		}
	}
	var fenced []string
	for i := range c.Lanes {
		if lc := &c.Lanes[i]; p.lanes[lc.Lane].Fence != lc.Fence {
			fenced = append(fenced, lc.Lane)
		}
	}
	if len(fenced) > 0 {
		return &tally.FencedError{Lanes: fenced}
	}
	for i := range c.Lanes {
		lc := &c.Lanes[i]
		l := p.lanes[lc.Lane]
		p.touched[lc.Lane]++
		if lc.Position != "" {
			l.Position = lc.Position
		}
		l.Latest = lc.Latest
		p.sum.Events.Add(&lc.Events)
		for k := range lc.Entries {
			e := &lc.Entries[k]
			if e.Duplicate = p.has(e.ID, e.Answer); !e.Duplicate {
				p.seen[e.ID] = append(p.seen[e.ID], e.Answer)
				p.sum.Add(e)
			}
		}
		for _, o := range lc.Opened {
			p.opened[o.ID], p.of[o.ID] = o, lc.Lane
		}
		for _, id := range lc.Resolved {
			delete(p.opened, id)
		}
	}
	if *p.killed {
		defer func() { err = errKilled }() // it was stored, and nobody knew
	}
	if err := evidence.Each(c.Evidence, p.ledger.Put); err != nil {
		return err
	}
	p.observe(c)
	for _, r := range c.Memory {
		if _, there := p.memory[r.Kind+"/"+r.Key]; !there || !r.First {
			p.memory[r.Kind+"/"+r.Key] = r
		}
	}
	return nil
}

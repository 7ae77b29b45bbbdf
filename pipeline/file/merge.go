package file

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/pipeline/source"
)

// merge hands on the events of several logs in the order of time. A log is opened when its first event is due, so that a thousand
// rotated files are one after the other in memory too, whatever they are named, and those of several API servers next to each other.
func (rd *reader) merge(waiting []*log, out func(Batch) error) error {
	var alive []*log
	var few gathered
	for {
		var err error
		if alive, waiting, err = rd.wake(alive, waiting); err != nil {
			return err
		}
		if len(alive) == 0 {
			return few.flush(rd, out)
		}
		l := earliest(alive)
		end := l.before(limit(alive, l, waiting))
		ended := end == len(l.head.events) // out may release the job, and then it is another's
		if len(alive) > 1 {
			few.add(l.head, l.next, end)
		} else if err = few.flush(rd, out); err == nil {
			err = out(rd.batch(l.head, l.next, end))
		}
		if err != nil {
			return err
		}
		l.next = end
		if ended || len(few.events) >= enough {
			if err := few.flush(rd, out); err != nil {
				return err
			}
		}
		if !ended {
			continue
		}
		more, err := rd.await(l)
		if err != nil {
			return err
		}
		if !more {
			alive = slices.DeleteFunc(alive, func(x *log) bool { return x == l })
		}
	}
}

// wake opens the waiting logs whose turn it is.
func (rd *reader) wake(alive, waiting []*log) (stillAlive, stillWaiting []*log, err error) {
	for len(waiting) > 0 && (len(alive) == 0 || !waiting[0].in.first.After(earliest(alive).time())) {
		l := waiting[0]
		waiting = waiting[1:]
		l.start()
		more, err := rd.await(l)
		if err != nil {
			return alive, waiting, err
		}
		if more {
			alive = append(alive, l)
		}
	}
	return alive, waiting, nil
}

// earliest is the log whose next event is first; of several the one that was given first.
func earliest(alive []*log) *log {
	least := alive[0]
	for _, l := range alive[1:] {
		if l.time().Before(least.time()) {
			least = l
		}
	}
	return least
}

// limit is the time of the first event that is not of l, zero if there is none.
func limit(alive []*log, l *log, waiting []*log) time.Time {
	var t time.Time
	if len(waiting) > 0 {
		t = waiting[0].in.first
	}
	for _, other := range alive {
		if other != l && (t.IsZero() || other.time().Before(t)) {
			t = other.time()
		}
	}
	return t
}

func (l *log) time() time.Time { return stageTime(&l.head.events[l.next]) }

func stageTime(ev *audit.Event) time.Time {
	if ev.StageTime.IsZero() {
		return ev.RequestReceived
	}
	return ev.StageTime
}

// before is where the run of events up to t ends, or all of them if t is zero; it has one event at least.
func (l *log) before(t time.Time) int {
	if t.IsZero() {
		return len(l.head.events)
	}
	i := l.next + 1
	for i < len(l.head.events) && !stageTime(&l.head.events[i]).After(t) {
		i++
	}
	return i
}

// enough is how many events of several logs make a batch. Batches of the few that lie between those of other logs would be so many
// that whoever bounds batches would bound time.
const enough = 1024

// gathered is a batch in the making, of events of several jobs.
type gathered struct {
	events []audit.Event
	looks  []source.Look // at them, or at some of them
	parts  []part
}

type part struct {
	of *job
	n  int64
}

func (g *gathered) add(j *job, from, to int) {
	if g.events == nil {
		g.events = make([]audit.Event, 0, enough)
	}
	looks := j.looked(from, to)
	g.looks = append(g.looks, looks...)
	clear(looks)
	g.events = append(g.events, j.events[from:to]...)
	for i := range g.parts {
		if g.parts[i].of == j {
			g.parts[i].n += int64(to - from)
			return
		}
	}
	g.parts = append(g.parts, part{j, int64(to - from)})
}

func (g *gathered) flush(rd *reader, out func(Batch) error) error {
	if len(g.events) == 0 {
		return nil
	}
	parts := g.parts
	for _, p := range parts {
		p.of.share()
	}
	b := Batch{Events: g.events, Release: func() {
		for _, p := range parts {
			rd.release(p.of, p.n)
		}
	}}
	if len(g.looks) == len(g.events) {
		b.Looks = g.looks
	}
	*g = gathered{}
	return out(b)
}

// batch makes a batch of a run of a job's events. The job's memory is given back when all of its batches are released.
func (rd *reader) batch(j *job, from, to int) Batch {
	if from == 0 && to == len(j.events) {
		return Batch{Events: j.events, Looks: j.looked(from, to), Release: func() { rd.recycle(j) }}
	}
	j.share()
	return Batch{Events: j.events[from:to], Looks: j.looked(from, to), Release: func() { rd.release(j, int64(to-from)) }}
}

// looked returns the looks at a run of the job's events, nil if there are none.
func (j *job) looked(from, to int) []source.Look {
	if len(j.looks) < to {
		return nil
	}
	return j.looks[from:to]
}

// share makes the job count its events that are in use.
func (j *job) share() {
	if j.left == nil {
		j.left = new(atomic.Int64)
		j.left.Store(int64(len(j.events)))
	}
}

func (rd *reader) release(j *job, n int64) {
	if j.left.Add(-n) == 0 {
		rd.recycle(j)
	}
}

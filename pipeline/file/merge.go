package file

import (
	"sync/atomic"
	"time"

	"github.com/nodetrail/nodetrail/audit"
)

// merge hands on the events of several logs in the order of time, as runs that no other log's event falls into.
func (rd *reader) merge(logs []*log, out func(Batch) error) error {
	alive := logs[:0:0]
	for _, l := range logs {
		more, err := rd.await(l)
		if err != nil {
			return err
		}
		if more {
			alive = append(alive, l)
		}
	}
	for len(alive) > 0 {
		least := 0
		for i, l := range alive {
			if l.time().Before(alive[least].time()) {
				least = i
			}
		}
		l := alive[least]
		end := len(l.head.events)
		if len(alive) > 1 {
			end = l.before(others(alive, least))
		}
		if err := out(rd.batch(l.head, l.next, end)); err != nil {
			return err
		}
		if l.next = end; l.next < len(l.head.events) {
			continue
		}
		more, err := rd.await(l)
		if err != nil {
			return err
		}
		if !more {
			alive = append(alive[:least], alive[least+1:]...)
		}
	}
	return nil
}

func (l *log) time() time.Time { return stageTime(&l.head.events[l.next]) }

func stageTime(ev *audit.Event) time.Time {
	if ev.StageTime.IsZero() {
		return ev.RequestReceived
	}
	return ev.StageTime
}

// others is the time of the first event of the other logs.
func others(alive []*log, not int) time.Time {
	var t time.Time
	for i, l := range alive {
		if i != not && (t.IsZero() || l.time().Before(t)) {
			t = l.time()
		}
	}
	return t
}

// before is where the run of events up to t ends; it has one event at least.
func (l *log) before(t time.Time) int {
	i := l.next + 1
	for i < len(l.head.events) && !stageTime(&l.head.events[i]).After(t) {
		i++
	}
	return i
}

// batch makes a batch of a run of a job's events. The job's memory is given back when all of its batches are released.
func (rd *reader) batch(j *job, from, to int) Batch {
	if from == 0 && to == len(j.events) {
		return Batch{Events: j.events, Release: func() { rd.recycle(j) }}
	}
	if j.left == nil {
		j.left = new(atomic.Int64)
		j.left.Store(int64(len(j.events)))
	}
	n := int64(to - from)
	return Batch{Events: j.events[from:to], Release: func() {
		if j.left.Add(-n) == 0 {
			rd.recycle(j)
		}
	}}
}

package pipeline

import (
	"slices"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/tally"
)

// of is the events of one request.
func of(id int, stages ...string) (all []operation) {
	for _, s := range stages {
		all = append(all, operation{id, s})
	}
	return all
}

// judge lets everything be judged but request 11, whose clock is far ahead.
func (d *driver) judge() {
	d.clock.advance(10 * time.Second)
	d.e.drain(d.clock.now())
	d.check()
}

// fenceOff lets another process take the lane over, and then the commit end.
func (d *driver) fenceOff(name string) {
	d.fence++
	d.store.lanes[name].Fence = d.fence
	d.endCommit(9)
	d.check()
}

// Two partitions are lost at once, one by being closed and one to another process, and each has a batch of the request in the commit: neither is
// acknowledged.
func TestClosedWhileFenced(t *testing.T) {
	d := newDriver(t)
	d.take("kafka:c/0", "1", false, of(2, ended))
	d.take("file:b", "1", false, of(2, ended))
	d.take("webhook:w", "", false, of(1, ended))
	d.judge()
	d.beginCommit()
	done := make(chan struct{})
	d.e.commits.close(d.e.parts.open["file:b"], done)
	d.fenceOff("kafka:c/0")
	<-done
	d.beginCommit()
	d.endCommit(9)
	if len(d.held) != 0 || len(d.store.seen) != 1 {
		t.Errorf("%d batches have not ended, %d requests are stored", len(d.held), len(d.store.seen))
	}
	d.finish()
}

// A request of a lost partition has batches of two others, of which one is in the commit: the request stays in the commit with that one, though
// the other one came first.
func TestHeirInTheSameCommit(t *testing.T) {
	d := newDriver(t)
	d.take("kafka:c/0", "1", false, of(2, ended))
	d.take("file:b", "1", false, of(11, ended)) // its positions are in order: nothing after it is complete before it
	d.take("file:b", "2", false, of(2, ended))
	d.take("file:a", "1", false, of(2, ended))
	d.judge()
	d.beginCommit()
	d.fenceOff("kafka:c/0")
	d.beginCommit()
	d.endCommit(9)
	if len(d.held) != 2 || !d.store.stored(operation{2, ended}) {
		t.Errorf("%d batches have not ended, %d requests are stored", len(d.held), len(d.store.seen))
	}
	d.finish()
}

// The store keeps the beginning of a request whose partition is elsewhere. When the partition comes back the request may be over: then it is not
// judged again, and its beginning is deleted.
func TestBeginningOfWhatIsOver(t *testing.T) {
	d := newDriver(t)
	d.take("kafka:c/0", "1", false, of(2, began))
	d.beginCommit()
	d.endCommit(9)
	d.e.commits.close(d.e.parts.open["kafka:c/0"], make(chan struct{}))
	d.take("file:a", "1", false, of(2, ended))
	d.judge()
	d.beginCommit()
	d.endCommit(9)
	if len(d.store.opened) != 1 || len(d.store.seen) != 1 {
		t.Fatalf("%d beginnings and %d requests are stored", len(d.store.opened), len(d.store.seen))
	}
	d.open("kafka:c/0")
	d.finish()
	if len(d.store.opened) != 0 || d.judged[operation{id: 2}.auditID()+" 200"] != 1 {
		t.Errorf("%d beginnings are stored; %v", len(d.store.opened), d.judged)
	}
}

// What was to be remembered with a commit whose partitions are all lost is not stored, and whoever gave it learns that; where a partition is left it is stored.
func TestForgoneMemory(t *testing.T) {
	for _, left := range []bool{false, true} {
		d := newDriver(t)
		var forgone []tally.Remembered
		given := []tally.Remembered{{Kind: "hours", Key: "a", Value: []byte("1")}}
		d.e.opt.Remember = func(time.Time, bool) []tally.Remembered { return given }
		d.e.opt.Forgone = func(all []tally.Remembered) { forgone = append(forgone, all...) }
		d.take("kafka:c/0", "1", false, of(2, ended))
		if left {
			d.take("file:b", "1", false, of(3, ended))
		}
		d.judge()
		d.beginCommit()
		d.fenceOff("kafka:c/0")
		told := slices.ContainsFunc(forgone, func(r tally.Remembered) bool { return r.Kind == "hours" })
		given = nil
		d.beginCommit()
		d.endCommit(9)
		_, stored := d.store.memory["hours/a"]
		if told == left || stored != left {
			t.Errorf("a partition is left %t: given back %t, stored %t", left, told, stored)
		}
		d.finish()
	}
}

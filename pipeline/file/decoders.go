package file

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/pipeline/source"
)

// job is a chunk on its way through a worker.
type job struct {
	chunk     chunk
	events    []audit.Event
	looks     []source.Look // at events, or none
	malformed []audit.Malformed
	counts    audit.Counts
	order     order // of the events
	// first and last bound the times of their requests.
	first, last time.Time
	// begins is the oldest time of which an event was written.
	begins time.Time
	done   chan struct{}
	left   *atomic.Int64 // events not released, once they go to several batches
}

// kept bounds the buffers that wait to be used again.
const kept = 64

// decoders decode jobs in parallel, for all that is read at a time.
type decoders struct {
	opt  Options
	todo chan *job
	used chan *job // whose memory is to be cleared
	// Lists rather than pools: those the collector empties, and clearing new buffers costs more than reading into them.
	jobs free[*job]
	bufs free[[]byte]
}

// free holds what can be used again. What was used last, and is in the processor's caches, is used first.
type free[T any] struct {
	mu  sync.Mutex
	all []T
}

func (f *free[T]) take() (t T, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.all) - 1
	if n < 0 {
		return t, false
	}
	t, f.all[n] = f.all[n], t
	f.all = f.all[:n]
	return t, true
}

func (f *free[T]) give(t T) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.all) < kept {
		f.all = append(f.all, t)
	}
}

// newDecoders wants options that have no zero values left.
func newDecoders(opt Options) *decoders {
	return &decoders{opt: opt, todo: make(chan *job), used: make(chan *job, kept)}
}

// job makes a job of a chunk.
func (d *decoders) job(ch chunk) *job {
	j, ok := d.jobs.take()
	if !ok {
		j = &job{}
	}
	j.chunk, j.done = ch, make(chan struct{})
	return j
}

// decode gives a job to a worker, who closes its done; false when ctx has ended.
func (d *decoders) decode(ctx context.Context, j *job) bool {
	select {
	case d.todo <- j:
		return true
	case <-ctx.Done():
		return false
	}
}

func (d *decoders) alloc() []byte {
	if b, ok := d.bufs.take(); ok {
		return b
	}
	return make([]byte, 0, chunkBytes)
}

// work decodes until ctx ends.
func (d *decoders) work(ctx context.Context) {
	dec := audit.Decoder{Want: d.opt.Want, MaxEventBytes: d.opt.MaxEventBytes}
	for {
		select {
		case j := <-d.todo:
			j.decode(&dec, d.opt.MaxPlaces)
			if d.opt.Look != nil && !j.chunk.document { // of which all objects would be in memory at once
				j.looks = d.opt.Look(j.looks[:0], j.events)
			}
			close(j.done)
		case j := <-d.used:
			d.clear(j)
		case <-ctx.Done():
			return
		}
	}
}

func (j *job) decode(d *audit.Decoder, places int) {
	j.events, j.malformed = j.events[:0], j.malformed[:0]
	emit := func(ev *audit.Event) { j.events = append(j.events, *ev) }
	malformed := func(m audit.Malformed) {
		if len(j.malformed) < places {
			j.malformed = append(j.malformed, m)
		}
	}
	if j.chunk.document {
		j.counts = d.Document(j.chunk.buf, emit, malformed)
		inOrder(j.events)
	} else {
		j.counts = audit.Counts{}
		for _, l := range j.chunk.reduced {
			j.counts.Add(d.Chunk(l.event, l.line, emit, malformed))
		}
		d.Continues = j.chunk.continues
		j.counts.Add(d.Chunk(j.chunk.buf, j.chunk.firstLine, emit, malformed))
		d.Continues = false
	}
	for i := range j.events {
		j.order.see(&j.events[i])
		widen(&j.first, &j.last, j.events[i].RequestReceived)
		sooner(&j.begins, cmp.Or(j.events[i].StageTime, j.events[i].RequestReceived))
	}
}

// widen makes the interval hold t. The zero time is none.
func widen(first, last *time.Time, t time.Time) {
	if t.IsZero() {
		return
	}
	if first.IsZero() || t.Before(*first) {
		*first = t
	}
	if t.After(*last) {
		*last = t
	}
}

// sooner makes the time t if that is before it. The zero time is none.
func sooner(at *time.Time, t time.Time) {
	if !t.IsZero() && (at.IsZero() || t.Before(*at)) {
		*at = t
	}
}

// recycle takes back a job that nobody needs any more. A worker clears it, as soon as one has time.
func (d *decoders) recycle(j *job) {
	source.Overwrite(j.chunk.buf)
	if buf := j.chunk.buf[:0]; cap(buf) >= chunkBytes && cap(buf) <= 2*chunkBytes {
		d.bufs.give(buf)
	}
	j.chunk = chunk{}
	select {
	case d.used <- j:
	default:
		d.clear(j)
	}
}

// clear has the job hold on to nothing but room for another one.
func (d *decoders) clear(j *job) {
	clear(j.events)
	clear(j.looks)
	*j = job{events: j.events[:0], looks: j.looks[:0], malformed: j.malformed[:0]}
	d.jobs.give(j)
}

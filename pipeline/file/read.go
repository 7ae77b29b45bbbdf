package file

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nodetrail/nodetrail/audit"
)

// Batch is a run of decoded events in the order of time. The events alias the batch's memory: Release gives that back when none
// of them is needed any more, and may be called from any goroutine, once.
type Batch struct {
	Events  []audit.Event
	Release func()
}

// Result says what was read and what was wrong. It is complete when Read returns.
type Result struct {
	Counts audit.Counts
	// Bytes counts the plain bytes read.
	Bytes int64
	// Malformed holds the places of the first malformed lines, at most the number asked for.
	Malformed []Place
	// Errors are the files that could not be read to their end. What came before is in the batches.
	Errors []error
	// First and Last bound the times of the events that were decoded.
	First, Last time.Time
}

// Place is where a log was malformed.
type Place struct {
	Path  string
	Line  int
	Cause string
}

// Options of Read. The zero value of each means its default.
type Options struct {
	// Want is what to decode beside the requests of nodes.
	Want audit.Want
	// MaxEventBytes bounds an event, 4 MiB by default.
	MaxEventBytes int
	// MaxPlaces bounds Result.Malformed, 20 by default.
	MaxPlaces int
	// Workers is how many chunks are decoded at a time, by default one for each processor.
	Workers int
	// Progress is called after each chunk with the plain bytes it had, from several goroutines.
	Progress func(bytes int)
}

// Read decodes the inputs, given as Expand ordered them, and hands batches to out in the order of time, from the calling goroutine.
// It stops when out returns an error or ctx ends, and returns that error; a pipe that nobody writes to does not hold it up.
func Read(ctx context.Context, inputs []Input, opt Options, out func(Batch) error) (*Result, error) {
	if opt.MaxEventBytes <= 0 {
		opt.MaxEventBytes = audit.DefaultMaxEventBytes
	}
	if opt.MaxPlaces == 0 {
		opt.MaxPlaces = 20
	}
	if opt.Workers <= 0 {
		opt.Workers = runtime.GOMAXPROCS(0)
	}
	ctx, cancel := context.WithCancel(ctx)
	rd := &reader{opt: opt, ctx: ctx, res: &Result{}, work: make(chan *job), jobs: make(chan *job, kept), bufs: make(chan []byte, kept)}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for range opt.Workers {
		wg.Go(rd.worker)
	}
	logs := make([]*log, len(inputs))
	for i, in := range inputs {
		l := &log{in: in, queue: make(chan *job, 2*opt.Workers)}
		l.start = func() { wg.Go(func() { rd.feed(l) }) }
		logs[i] = l
	}
	if err := rd.merge(logs, out); err != nil {
		return rd.res, err
	}
	return rd.res, ctx.Err()
}

// log is an input, being read.
type log struct {
	in    Input
	start func() // begins the reading
	queue chan *job
	head  *job // whose events are next
	next  int
}

// job is a chunk on its way through a worker.
type job struct {
	chunk     chunk
	events    []audit.Event
	malformed []audit.Malformed
	counts    audit.Counts
	done      chan struct{}
	left      *atomic.Int64 // events not released, once they go to several batches
}

// kept bounds the buffers that wait to be used again.
const kept = 64

type reader struct {
	opt  Options
	ctx  context.Context
	res  *Result
	work chan *job
	// Free lists rather than pools: those the collector empties, and clearing new buffers costs more than reading into them.
	jobs chan *job
	bufs chan []byte
}

// feed cuts a log into jobs, which enter the log's queue in order and go to the workers.
func (rd *reader) feed(l *log) {
	defer close(l.queue)
	c := chunker{in: l.in, bound: rd.opt.MaxEventBytes, alloc: rd.alloc, eat: func(ch chunk) bool {
		var j *job
		select {
		case j = <-rd.jobs:
		default:
			j = &job{}
		}
		j.chunk, j.done = ch, make(chan struct{})
		select {
		case l.queue <- j:
		case <-rd.ctx.Done():
			return false
		}
		select {
		case rd.work <- j:
		case <-rd.ctx.Done():
			return false
		}
		return true
	}}
	c.run(rd.ctx)
}

func (rd *reader) alloc() []byte {
	select {
	case b := <-rd.bufs:
		return b
	default:
		return make([]byte, 0, chunkBytes)
	}
}

func (rd *reader) worker() {
	d := audit.Decoder{Want: rd.opt.Want, MaxEventBytes: rd.opt.MaxEventBytes}
	for {
		select {
		case j := <-rd.work:
			j.decode(&d, rd.opt.MaxPlaces)
			if rd.opt.Progress != nil {
				rd.opt.Progress(len(j.chunk.buf))
			}
			close(j.done)
		case <-rd.ctx.Done():
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
	} else {
		j.counts = d.Chunk(j.chunk.buf, j.chunk.firstLine, emit, malformed)
	}
}

// await makes the log's next job its head; false when the log has ended.
func (rd *reader) await(l *log) (bool, error) {
	for {
		var j *job
		select {
		case next, open := <-l.queue:
			if !open {
				return false, rd.ctx.Err()
			}
			j = next
		case <-rd.ctx.Done():
			return false, rd.ctx.Err()
		}
		select {
		case <-j.done:
		case <-rd.ctx.Done():
			return false, rd.ctx.Err()
		}
		rd.account(j)
		if len(j.events) == 0 {
			rd.recycle(j)
			continue
		}
		l.head, l.next = j, 0
		return true, nil
	}
}

func (rd *reader) account(j *job) {
	r := rd.res
	r.Counts.Add(j.counts)
	r.Counts.Malformed += int64(len(j.chunk.tooLong))
	r.Bytes += int64(len(j.chunk.buf))
	for _, list := range [][]audit.Malformed{j.chunk.tooLong, j.malformed} {
		for _, m := range list {
			if len(r.Malformed) < rd.opt.MaxPlaces {
				r.Malformed = append(r.Malformed, Place{Path: j.chunk.path, Line: m.Line, Cause: m.Cause})
			}
		}
	}
	if j.chunk.err != nil {
		r.Errors = append(r.Errors, j.chunk.err)
	}
	for i := range j.events {
		t := j.events[i].RequestReceived
		if t.IsZero() {
			continue
		}
		if r.First.IsZero() || t.Before(r.First) {
			r.First = t
		}
		if t.After(r.Last) {
			r.Last = t
		}
	}
}

func (rd *reader) recycle(j *job) {
	if buf := j.chunk.buf[:0]; cap(buf) >= chunkBytes && cap(buf) <= 2*chunkBytes {
		select {
		case rd.bufs <- buf:
		default:
		}
	}
	clear(j.events)
	*j = job{events: j.events[:0], malformed: j.malformed[:0]}
	select {
	case rd.jobs <- j:
	default:
	}
}

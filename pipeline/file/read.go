package file

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nodetrail/nodetrail/audit"
)

// Batch is a run of decoded events of one log, in its order. The events alias the batch's memory: Release gives that back when none
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
// It stops when out returns an error or ctx ends, and returns that error.
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
	rd := &reader{opt: opt, ctx: ctx, res: &Result{}, work: make(chan *job)}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for range opt.Workers {
		wg.Go(rd.worker)
	}
	var logs []*log
	for i := range inputs {
		if i == 0 || inputs[i].group != inputs[i-1].group {
			logs = append(logs, &log{queue: make(chan *job, 2*opt.Workers)})
		}
		l := logs[len(logs)-1]
		l.inputs = append(l.inputs, inputs[i])
	}
	for _, l := range logs {
		wg.Go(func() { rd.feed(l) })
	}
	if err := rd.merge(logs, out); err != nil {
		return rd.res, err
	}
	return rd.res, ctx.Err()
}

// log is the files of one apiserver, being read.
type log struct {
	inputs []Input
	queue  chan *job
	head   *job // whose events are next
	next   int
}

// job is a chunk on its way through a worker.
type job struct {
	chunk     chunk
	events    []audit.Event
	malformed []audit.Malformed
	counts    audit.Counts
	done      chan struct{}
	left      *atomic.Int64 // events not released, once the job is cut into several batches
}

type reader struct {
	opt  Options
	ctx  context.Context
	res  *Result
	work chan *job
	jobs sync.Pool
	bufs sync.Pool
}

// feed cuts a log's files into jobs, which enter the log's queue in order and go to the workers.
func (rd *reader) feed(l *log) {
	defer close(l.queue)
	for _, in := range l.inputs {
		c := chunker{in: in, bound: rd.opt.MaxEventBytes, alloc: rd.alloc, eat: func(ch chunk) bool {
			j, _ := rd.jobs.Get().(*job)
			if j == nil {
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
		if !c.run() {
			return
		}
	}
}

func (rd *reader) alloc() []byte {
	if b, _ := rd.bufs.Get().(*[]byte); b != nil {
		return (*b)[:0]
	}
	return make([]byte, 0, chunkBytes)
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
		rd.bufs.Put(&buf)
	}
	clear(j.events)
	*j = job{events: j.events[:0], malformed: j.malformed[:0]}
	rd.jobs.Put(j)
}

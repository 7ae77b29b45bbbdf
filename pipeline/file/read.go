package file

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/pipeline/source"
)

// Batch is a run of decoded events in the order of time. The events alias the batch's memory: Release gives that back when none
// of them is needed any more, and may be called from any goroutine, once.
type Batch struct {
	Events []audit.Event
	// Looks are what Options.Look said of them, nil for nothing.
	Looks   []source.Look
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
	// Reversals are the inputs that go back in time, each with its farthest way back, but for those that go from the newest event to the oldest.
	Reversals []Reversal
	// First and Last bound the times of the events that were decoded.
	First, Last time.Time
	// Begins is when the log begins: the oldest time of which it has an event. First is before it where requests that ended later began before the log,
	// as watches do.
	Begins time.Time
}

// Reversal is where an input goes back in time: after an event of From, which is its latest so far, it has one of To.
type Reversal struct {
	Input    string
	From, To time.Time
}

// Place is where a log was malformed.
type Place struct {
	Path  string
	Line  int
	Cause string
	// OfNoNode says that what is left shows that nothing needs the event.
	OfNoNode bool
}

// Options of Read. The zero value of each means its default.
type Options struct {
	// Want is what to decode in addition to the requests of nodes.
	Want audit.Want
	// MaxEventBytes bounds an event, 4 MiB by default.
	MaxEventBytes int
	// MaxPlaces bounds Result.Malformed, 20 by default.
	MaxPlaces int
	// Workers is how many chunks are decoded at a time, by default one for each processor.
	Workers int
	// Look appends what each of some events tells, or nothing if it is too early for that. It is called as soon as they are decoded, from several
	// goroutines, but not for a log that is one JSON document; nil for nothing.
	Look func(looks []source.Look, events []audit.Event) []source.Look
	// Progress is called with how many bytes were read of the inputs, as they are there, compressed or not; from several goroutines.
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
	rd := &reader{decoders: newDecoders(opt), opt: opt, ctx: ctx, res: &Result{}}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for range opt.Workers {
		wg.Go(func() { rd.work(ctx) })
	}
	logs := make([]*log, len(inputs))
	for i, in := range inputs {
		l := &log{in: in, queue: make(chan *job, 2*opt.Workers+ahead)}
		l.start = func() { wg.Go(func() { rd.feed(l) }) }
		logs[i] = l
	}
	if err := rd.merge(logs, out); err != nil {
		return rd.res, err
	}
	return rd.res, ctx.Err()
}

// ahead is how many chunks are decoded in addition to those that the workers have in hand, so that they do not wait while a slice of the log is judged.
const ahead = 4

// log is an input, being read.
type log struct {
	in    Input
	start func() // begins the reading
	queue chan *job
	head  *job // whose events are next
	next  int
	order order
}

type reader struct {
	*decoders
	opt Options
	ctx context.Context
	res *Result
}

// feed cuts a log into jobs, which enter the log's queue in order and go to the workers.
func (rd *reader) feed(l *log) {
	defer close(l.queue)
	c := chunker{in: l.in, bound: rd.opt.MaxEventBytes, alloc: rd.alloc, progress: rd.opt.Progress, eat: func(ch chunk) bool {
		j := rd.job(ch)
		select {
		case l.queue <- j:
		case <-rd.ctx.Done():
			return false
		}
		return rd.decode(rd.ctx, j)
	}}
	c.run(rd.ctx)
}

// await makes the log's next job its head; false when the log has ended.
func (rd *reader) await(l *log) (bool, error) {
	for {
		var j *job
		select {
		case next, open := <-l.queue:
			if !open {
				if err := l.order.backward(l.in.String()); err != nil {
					rd.res.Errors = append(rd.res.Errors, err)
				} else if l.order.from.After(l.order.to) {
					rd.res.Reversals = append(rd.res.Reversals, Reversal{Input: l.in.String(), From: l.order.from, To: l.order.to})
				}
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
		l.order.add(&j.order)
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
				r.Malformed = append(r.Malformed, Place{Path: j.chunk.path, Line: m.Line, Cause: m.Cause, OfNoNode: m.OfNoNode})
			}
		}
	}
	if j.chunk.err != nil {
		r.Errors = append(r.Errors, j.chunk.err)
	}
	widen(&r.First, &r.Last, j.first)
	widen(&r.First, &r.Last, j.last)
	sooner(&r.Begins, j.begins)
}

// Package source is the contract between the pipeline and what feeds it: files, Kafka, the API server's webhook.
//
// A source cuts its input into lanes, each of which is in order and owned by one source of one process at a time: a file with its
// rotated predecessors, a Kafka partition, a webhook endpoint. For each lane it calls [Intake.Open], which says where to continue, then
// [Intake.Take] for batch after batch. It acknowledges its input (a 200, a commit, nothing for a file) only when the pipeline calls the
// batch's done function, which it does once everything that the batch counts for is stored. What was not stored comes again after a
// crash; the pipeline counts each request once all the same.
//
// The package imports audit.
package source

import (
	"context"
	"errors"
	"time"

	"github.com/nodetrail/nodetrail/audit"
)

// The errors that a done function may be given, and Open and Take may return.
var (
	// ErrFenced says that another process owns the lane by now: drop it and do not acknowledge.
	ErrFenced = errors.New("another process has taken over")
	// ErrClosed says that the lane, or the whole pipeline, was closed before the batch was stored.
	ErrClosed = errors.New("closed before it was stored")
	// ErrBusy says that too much waits already. Take returns it, or waits, as Batch.Wait says.
	ErrBusy = errors.New("too much waits already")
)

// Batch is a run of events that a source hands on at once.
type Batch struct {
	// Lane is what was opened.
	Lane string
	// Position is where the lane continues after this batch, in the source's own form; "" if the lane has no positions. It is stored with what
	// the batch counts for, and given to the source by Open after a restart. It is stored only when all batches before are.
	Position string
	// Events are in the order of the input. They may alias memory that Release gives back.
	Events []audit.Event
	// Release is called once when no event is needed any more, from any goroutine. It may be nil.
	Release func()
	// Received is when the batch came in, by this machine's clock.
	Received time.Time
	// Behind says that the source knows of more input that is there already: then the times in the log, not the clock, say how long
	// a request waits for news of the state.
	Behind bool
	// Ended is a time, by this process's clock, at which the lane had nothing after this batch; zero if the source does not know. A lane with a fence needs
	// it: without it, time waits for a lane that has no events. A batch may have this alone, without events and position; done is called at once then.
	Ended time.Time
	// Wait says to wait while too much waits already; otherwise Take waits for Patience at most, and then returns ErrBusy.
	Wait     bool
	Patience time.Duration
	// Bytes is about how much memory the batch keeps until Release, 0 if that is little next to its events.
	Bytes int
	// Counts is what the bytes of the batch held.
	Counts audit.Counts
	// Places are where it was malformed, some of them.
	Places []Place
}

// Look is what an event tells whoever takes it in by itself, found out as soon as it is decoded. It may alias the event's memory.
type Look struct {
	// Key is the request's, 0 for one that nothing identifies.
	Key uint64
	// Mark is of what the event says of the request's answer, 0 if it says none.
	Mark uint32
	// Needed says that the request may be judged, Node that it is a node's.
	Needed, Node bool
	// Body is what was read of a body; nil for nothing.
	Body any
}

// Place is where an input was malformed, for logs and reports.
type Place struct {
	// Input names the file, the topic and partition, or the endpoint.
	Input string
	// Line is the line of a file or the offset of a message, 0 if there is none.
	Line int64
	// Cause is one clause that quotes little of the input.
	Cause string
	// OfNoNode says that what is left shows that nothing needs the event.
	OfNoNode bool
}

// Intake is what a source gives its batches to. Its methods may be called concurrently; Take calls of one lane one after the other, in
// order, but for lanes without positions.
type Intake interface {
	// Announce says that there are these lanes, which processes share, before any process opens one of them. So what is judged in the order of time waits
	// for a lane that nobody has opened yet.
	Announce(ctx context.Context, lanes []string) error
	// Open takes the lane over and returns the position up to which everything is stored, "" if there is none. fence orders the owners of a
	// lane: who opens it with a lower one than another did gets ErrFenced, now or at the next commit. A lane that nobody else can own has 0.
	Open(ctx context.Context, lane string, fence int64) (position string, err error)
	// Close gives the lane up. What is not stored of it is dropped, and its done functions are called with ErrClosed. When Close returns no
	// commit of the lane is under way.
	Close(lane string)
	// Take takes a batch in. It returns once the batch is the pipeline's, or with an error, and then done is not called and the batch is
	// still the caller's. done is called once, from another goroutine, with nil when everything is stored; it must not block.
	Take(ctx context.Context, b *Batch, done func(error)) error
}

package pipeline

import (
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/evidence"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// EngineOptions are what an Engine works with. Judge and Store are needed; the zero value of the others means the default.
type EngineOptions struct {
	Judge *Judge
	Store tally.Store
	// Detectors are given what is judged; nil for none. What they find of a rule that is not among the Judge's is dropped.
	Detectors *rules.Detectors
	// State is fed the events that change it; nil if the audit log is not to tell.
	State StateSink
	// CaughtUp reports whether the state knows everything up to t; nil if it always does.
	CaughtUp func(t time.Time) bool
	// Stored is called for each commit, from the goroutine that commits, which waits for it.
	Stored func(*Stored)
	// Line makes the verdict line of a judgement, appended to b; nil for none.
	Line func(j *Judgement, b []byte) []byte
	// Judged is given each judgement, from the loop, before what it adds is stored; it must not keep it. Nil for nothing. A request whose batch comes
	// again is judged again.
	Judged func(j *Judgement)
	// Remember returns what is to be stored with the next commit, and so with the requests that were judged since it was called last; called from the
	// loop. last says that the engine stops. Nil for nothing.
	Remember func(now time.Time, last bool) []tally.Remembered
	// Forgone is given what Remember returned where it will not be stored: nothing is that was judged with it. Called from the loop; nil for nothing.
	Forgone func(all []tally.Remembered)
	// Ledger is shown every event; what that changes is stored with the commit that acknowledges the event, or an earlier one. The engine forgets in it
	// what is stored and some hours old. Only the engine may use it. Nil for none.
	Ledger *evidence.Ledger
	// Begins is set to the oldest time at which an event was written, from the loop. Nil for nothing.
	Begins *time.Time
	// Facts makes what a report needs to know in addition to the counts, as JSON; called every five seconds, from the loop.
	Facts    func() []byte
	Instance string

	// Skew is how far around a request's time changes count.
	Skew time.Duration
	// Slack is how much later in the log than its time a change may stand. Default 2s.
	Slack time.Duration
	// Settle is how long after a request, and after its coming in, news of the state may still come. Default 500ms.
	Settle time.Duration
	// WaitAtMost bounds how long a request waits for the state. Default 30s.
	WaitAtMost time.Duration
	// OpenFor is how long a request whose beginning alone was logged waits for its response. Default two minutes.
	OpenFor time.Duration
	// LeaseEvery is how often this process asks whether it is the one that judges what several requests show together, and for what others judged. Default
	// a second.
	LeaseEvery time.Duration
	// HoldFor is for how long, by the clock, time waits for a lane without a fence whose process has ended. Default a minute.
	HoldFor time.Duration
	// EndAfter is how much later, by the clock, a producer may write to one lane than to another. Default ten seconds.
	EndAfter time.Duration
	// CommitEvery is how long at least goes by between commits. Default 100ms.
	CommitEvery time.Duration
	// MaxBytes bounds about how much memory the events keep that were taken in and not stored. Default 128 MiB.
	MaxBytes int64
	// MaxRequests is how many stored requests are remembered to tell duplicates without asking the store. Default a million.
	MaxRequests int
	// Now is the clock, time.Now if nil.
	Now func() time.Time
	Log zerolog.Logger
}

// Stored is a commit that was stored.
type Stored struct {
	// Entries are what was judged, those with Duplicate set included, which were stored before.
	Entries []tally.Entry
	// Received are the times at which the entries' requests came in.
	Received []time.Time
	// Lines are the verdict lines of the entries.
	Lines [][]byte
	// Lanes tells of each lane what its completed batches held.
	Lanes []StoredLane
	// At is when the commit was done, Took how long it took.
	At   time.Time
	Took time.Duration
}

// StoredLane is a lane's part of a commit.
type StoredLane struct {
	Lane   string
	Counts audit.Counts
	Events tally.Events
	Latest time.Time
}

// EngineStats are an engine's figures at a moment.
type EngineStats struct {
	// Waiting counts the requests that wait to be judged, Open those whose response has not come, Held the bytes of all that is not stored.
	Waiting, Open int
	Held          int64
	// Early counts requests that were judged although the state had not caught up.
	Early int64
	// Late counts requests that came too late for the detectors.
	Late int64
	// Ahead counts requests that were dated ahead of the clock when they came in.
	Ahead int64
	// Failures counts commits that failed, Failing says since when they do, or since when one has not ended that takes very long; zero if all is well.
	Failures int64
	Failing  time.Time
	// GivenUp counts lanes that were closed before what was judged of them could be stored, which had failed.
	GivenUp int64
	// Oldest is the time of coming in of the oldest of what is not stored, zero if there is nothing.
	Oldest time.Time
	Lanes  []LaneStats
}

// LaneStats are one lane's.
type LaneStats struct {
	Lane   string
	Latest time.Time
	Behind bool
	// Batches counts those that are not stored.
	Batches int
}

// withDefaults returns the options with a value for each that has a default.
func (o EngineOptions) withDefaults() EngineOptions {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&o.Slack, 2*time.Second)
	def(&o.Settle, 500*time.Millisecond)
	def(&o.WaitAtMost, 30*time.Second)
	def(&o.OpenFor, 2*time.Minute)
	def(&o.CommitEvery, 100*time.Millisecond)
	def(&o.LeaseEvery, time.Second)
	def(&o.HoldFor, time.Minute)
	def(&o.EndAfter, 10*time.Second)
	if o.MaxBytes <= 0 {
		o.MaxBytes = 128 << 20
	}
	if o.MaxRequests <= 0 {
		o.MaxRequests = 1 << 20
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

package tally

import (
	"context"
	"time"

	"github.com/nodetrail/nodetrail/rules"
)

// Commit is what is stored in one transaction: of each lane what was judged and how far the lane is done.
type Commit struct {
	Lanes []LaneCommit
	// Memory are the entries of rules' memory that changed.
	Memory []Remembered
	// OverTime is of the process that judges what several requests show together, nil for nothing; the lane OverTimeLane is among the Lanes then.
	OverTime *OverTime
	// Facts is what a report needs to know in addition to the counts, as JSON, from the instance of that name; nil to leave it as it is.
	Facts    []byte
	Instance string
	// Evidence is what changed in the ledger of evidence, as evidence.Ledger.AppendChanges writes it: what the events of all batches show that are
	// complete with this commit, unless an earlier one stored it. It merges with what is stored, whoever stored that. It is the caller's own after
	// the call.
	Evidence []byte
	// At is the time of the commit by this machine's clock.
	At time.Time
}

// LaneCommit is one lane's part of a commit.
type LaneCommit struct {
	Lane  string
	Fence int64
	// Position is where the lane continues; "" leaves what is stored.
	Position string
	// Latest is the latest time of any event of the lane so far, zero if there was none.
	Latest time.Time
	// Events counts the events of the batches that are complete by now.
	Events Events
	// Entries are the requests that were judged. Each counts once in the whole store: the store sets Duplicate on those that were stored before. Of one
	// ID, each answer is a request. One without an answer is whichever the store has of its ID, or else the first that comes later.
	Entries []Entry
	// Reached says that all requests of the lane from before it are stored with this commit or were before; zero says nothing new.
	Reached time.Time
	// Opened are requests of completed batches whose response has not come yet; Resolved are those opened before that are judged now.
	Opened   []Opened
	Resolved []ID
}

// Opened is a request of which only the beginning was logged.
type Opened struct {
	ID ID
	// Event is the event as JSON, as an audit log has it.
	Event []byte
	Until time.Time
}

// Remembered is an entry of a rule's memory: kinds and values are the rules' own.
type Remembered = rules.Remembered

// Lane is what the store knows of a lane.
type Lane struct {
	Position string
	Latest   time.Time
	Opened   []Opened
	// Recent are the requests that were stored lately, of all lanes, at most as many as asked for: a fast way to know duplicates,
	// which the store knows anyway. The ID may be that of Seen.Other.
	Recent []Seen
}

// Store is what the pipeline needs of a store. Its methods may be called concurrently.
type Store interface {
	// Announce says that there are these lanes, which processes share, before any process acquires one of them.
	Announce(ctx context.Context, lanes []string) error
	// Acquire makes this process the owner of the lane under the fence, unless another one owns it under a higher one: source.ErrFenced.
	Acquire(ctx context.Context, lane string, fence int64, recent int) (*Lane, error)
	// Commit stores everything or nothing. If lanes are owned by others by now it stores nothing and returns a FencedError. After any other
	// error, unless ctx has ended, nothing is stored either, and the same commit may come again.
	Commit(ctx context.Context, c *Commit) error
	// Memory returns the rules' memory.
	Memory(ctx context.Context) ([]Remembered, error)
	// Lease gives the lane to this process if nobody else has it, or if who has it has not asked for it for so long that it is taken for dead. It is
	// to be called every second or so, to keep the lane or to get it. While it is held, frontier is stored for the others; the zero time changes nothing.
	Lease(ctx context.Context, lane string, frontier time.Time) (Lease, error)
	// Resign gives up a lane that Lease gave.
	Resign(ctx context.Context, lane string) error
	// Observations returns what was stored after the rows given by writer, and was not taken, as it is at one time.
	Observations(ctx context.Context, after map[string]int64) (*Observed, error)
}

// Lease is who has a lane.
type Lease struct {
	// Held says that this process has it, under the Fence.
	Held  bool
	Fence int64
	// Frontier is what was stored last by who had the lane, zero if nothing was.
	Frontier time.Time
}

// OverTimeLane is the lane of what several requests show together, of whichever lanes. One process at a time has it, by a lease.
const OverTimeLane = "over-time"

// OverTime is what is stored by the process that judges what several requests show together.
type OverTime struct {
	// Memory is what the detectors remember, as of a time of the log.
	Memory []Remembered
	// Taken are the observations that are part of it, and are stored no longer.
	Taken []RowID
}

// RowID tells rows of observations apart. The numbers of a writer grow.
type RowID struct {
	Writer string
	Number int64
}

// Observed is what of observations is there.
type Observed struct {
	// Rows are the oldest, in the order of their numbers. Those of one lane are in the order in which they were stored, also where analyzers took turns.
	// More says that there are others.
	Rows []ObservationRow
	More bool
	// Lanes are all lanes of late that have requests.
	Lanes []rules.KnownLane
}

// ObservationRow is what one commit stored of the requests that it counted, as rules.Observations writes it.
type ObservationRow struct {
	RowID
	Body []byte
}

// FencedError says which lanes belong to others by now.
type FencedError struct{ Lanes []string }

func (e *FencedError) Error() string {
	s := "another process has taken over "
	for i, l := range e.Lanes {
		if i > 0 {
			s += ", "
		}
		s += l
	}
	return s
}

package kafka

import (
	"slices"
	"time"
)

// Stats says what a Source did and how far it is. The counts only grow.
type Stats struct {
	// Generation is the group's, 0 before it was joined. Rebalances counts the generations joined.
	Generation int32
	Rebalances int64
	// Up says that the member belongs to the group, or did until a moment ago.
	Up bool
	// Messages counts those handed on, Bytes their keys and values. Tombstones are messages without a value.
	Messages, Bytes, Tombstones int64
	// FetchErrors, GroupErrors and CommitErrors count requests that failed and were made again, Redials how often all connections were
	// made anew. Fenced counts lanes that others took over.
	FetchErrors, GroupErrors, CommitErrors, Redials, Fenced int64
	// Gaps counts runs of messages that were gone before they were read.
	Gaps int64
	// DeadLetters counts messages that held what is no audit event; LetterErrors failures to keep one, which were tried again.
	DeadLetters, LetterErrors int64
	// PrefetchBytes and PrefetchMessages are read and not stored yet.
	PrefetchBytes, PrefetchMessages int64
	Partitions                      []PartitionStats
}

// PartitionStats is of one partition that this member reads.
type PartitionStats struct {
	Topic     string
	Partition int
	// Owned says that the lane is open.
	Owned bool
	// Up says that its broker answers, or did until a moment ago.
	Up bool
	// Read and Stored are the offsets to resume at: of the next message to be read, and after a restart. HighWatermark is the end of the
	// partition as of the last answer. All are -1 before they are known.
	Read, Stored, HighWatermark int64
	// Lag is how many offsets are not stored yet. LagSeconds is 0 if Lag is, else how long ago the last message that is stored was written, or if
	// there is none how long the partition has been waited for.
	Lag        int64
	LagSeconds float64
	// LastMessage is when the last message that is stored was written, by the brokers' clock.
	LastMessage time.Time
}

// Stats may be called at any time.
func (s *Source) Stats() Stats {
	s.mu.Lock()
	st := s.stats
	st.Up = st.Generation > 0 && s.opt.recent(s.left)
	lanes := make([]*lane, 0, len(s.lanes))
	for _, l := range s.lanes {
		lanes = append(lanes, l)
	}
	s.mu.Unlock()
	st.PrefetchBytes, st.PrefetchMessages = s.budget.used()
	slices.SortFunc(lanes, func(a, b *lane) int { return compareTopicPartitions(a.topicPartition, b.topicPartition) })
	now := time.Now()
	for _, l := range lanes {
		st.Partitions = append(st.Partitions, l.stats(now))
	}
	return st
}

func (s *Source) count(f func(*Stats)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.stats)
}

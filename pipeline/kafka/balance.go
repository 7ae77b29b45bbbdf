package kafka

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"
)

// topicPartition names a partition.
type topicPartition struct {
	topic     string
	partition int
}

func compareTopicPartitions(a, b topicPartition) int {
	return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.partition, b.partition))
}

// balancer shares the partitions of all topics out in turn, as Java's RoundRobinAssignor does. Kafka-go's own looks at each topic by itself, so
// that of many topics with one partition the first member gets all; and it gets no partitions at all if one topic does not exist.
type balancer struct {
	// look returns what partitions there are.
	look func(context.Context) (map[string]int, error)
	// announce is called with them before any member gets its share.
	announce func(ctx context.Context, counts map[string]int)

	mu sync.Mutex
	// shared is what was last shared out, by topic; nil if this member was not the group's leader.
	shared map[string]int
}

func (b *balancer) ProtocolName() string { return "roundrobin" }

func (b *balancer) UserData() ([]byte, error) { return nil, nil }

// AssignGroups is called on the leader of the group.
func (b *balancer) AssignGroups(members []kafkago.GroupMember, found []kafkago.Partition) kafkago.GroupMemberAssignments {
	// There is no way to report an error here: what kafka-go has found serves then.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	counts, err := b.look(ctx)
	if err != nil {
		counts = map[string]int{}
	}
	for _, p := range found {
		counts[p.Topic] = max(counts[p.Topic], p.ID+1)
	}
	b.announce(ctx, counts)
	b.mu.Lock()
	b.shared = counts
	b.mu.Unlock()
	return share(members, counts)
}

// share gives partition after partition to member after member, over those that read its topic.
func share(members []kafkago.GroupMember, counts map[string]int) kafkago.GroupMemberAssignments {
	members = slices.Clone(members)
	slices.SortFunc(members, func(a, b kafkago.GroupMember) int { return cmp.Compare(a.ID, b.ID) })
	out := kafkago.GroupMemberAssignments{}
	for _, m := range members {
		out[m.ID] = map[string][]int{}
	}
	var all []topicPartition
	for topic, n := range counts {
		for p := range n {
			all = append(all, topicPartition{topic, p})
		}
	}
	slices.SortFunc(all, compareTopicPartitions)
	next := 0
	for _, tp := range all {
		for range members {
			m := members[next%len(members)]
			next++
			if slices.Contains(m.Topics, tp.topic) {
				out[m.ID][tp.topic] = append(out[m.ID][tp.topic], tp.partition)
				break
			}
		}
	}
	return out
}

// take returns what was shared out since the last call, nil if nothing was.
func (b *balancer) take() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	shared := b.shared
	b.shared = nil
	return shared
}

// partitions returns how many partitions each of the topics has, 0 for one that does not exist.
func (s *Source) partitions(ctx context.Context) (map[string]int, error) {
	meta, err := s.client().Metadata(ctx, &kafkago.MetadataRequest{Topics: s.opt.Topics})
	if err != nil {
		return nil, err
	}
	counts := map[string]int{}
	for _, t := range meta.Topics {
		counts[t.Name] = len(t.Partitions)
	}
	return counts, nil
}

// watch returns when there are other partitions than were shared out, which ends the generation. The group's leader calls it: a member that
// joins again changes nothing, but the leader does.
func (s *Source) watch(ctx context.Context, g *generation, shared map[string]int) {
	for wait(ctx, s.opt.WatchEvery) {
		now, err := s.partitions(ctx)
		if err != nil {
			s.log.Debug().Err(err).Msg("kafka: looking for new partitions failed")
			continue
		}
		changed := false
		var added []topicPartition
		for _, topic := range s.opt.Topics {
			for p := shared[topic]; p < now[topic]; p++ {
				added = append(added, topicPartition{topic, p})
			}
			// Fewer partitions can be a broker that does not know all yet; a topic that is gone is nothing to share out anew.
			changed = changed || now[topic] > shared[topic]
		}
		if !changed {
			continue
		}
		// What is new is read from its beginning, wherever else reading began: its first messages came before anybody knew of it.
		for _, tp := range added {
			g.mark(tp, 0)
		}
		s.commit(ctx, g)
		s.log.Info().Int("added", len(added)).Msg("kafka: there are new partitions")
		return
	}
}

// wait returns true after d, false when ctx has ended.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

package kafka

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"
	kafkago "github.com/segmentio/kafka-go"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/pipeline/source"
)

// Source reads the topics as a member of a consumer group.
type Source struct {
	opt      Options
	log      zerolog.Logger
	budget   *budget
	balancer *balancer
	letters  *Producer // of the topic of dead letters; nil if there is none
	bufs     chan []byte
	events   chan []audit.Event

	mu     sync.Mutex
	conns  *kafkago.Client
	since  time.Time        // when conns was made
	epochs map[string]int64 // of each lane, the latest that served
	lanes  map[string]*lane // of the present generation
	left   time.Time        // when the latest generation ended, zero while it lasts
	stats  Stats            // the sums
}

// New returns a source, or what is wrong with the options. It does not connect yet.
func New(opt Options, log zerolog.Logger) (*Source, error) {
	opt, err := opt.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	s := &Source{
		opt: opt, log: log, budget: newBudget(opt.MaxBytes, opt.MaxMessages), bufs: make(chan []byte, kept), events: make(chan []audit.Event, kept),
		epochs: map[string]int64{}, lanes: map[string]*lane{},
	}
	s.balancer = &balancer{look: s.partitions, announce: func(context.Context, map[string]int) {}}
	if opt.DeadLetterTopic != "" {
		s.letters, err = NewProducer(ProducerOptions{Cluster: opt.Cluster, Topic: opt.DeadLetterTopic, dial: opt.dial}, log)
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Run reads until ctx ends and then leaves the group. Brokers that cannot be reached, and members that come and go, are waited for; what is wrong
// is logged and counted. It returns an error if there is nothing to wait for.
func (s *Source) Run(ctx context.Context, in source.Intake) error {
	s.balancer.announce = func(ctx context.Context, counts map[string]int) { s.announce(ctx, in, counts) }
	brokers := slices.Clone(s.opt.Brokers)
	group, err := s.group(brokers)
	if err != nil {
		return err
	}
	failing := 0
	for {
		gen, err := group.Next(ctx)
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			failing++
			s.count(func(st *Stats) { st.GroupErrors++ })
			// A rebalance, a coordinator that moves, a broker that restarts: all come by themselves and go.
			if level := zerolog.DebugLevel; !errors.Is(err, kafkago.RebalanceInProgress) {
				if failing == 3 || failing%60 == 0 {
					level = zerolog.WarnLevel
				}
				s.log.WithLevel(level).Err(err).Str("group", s.opt.Group).Int("attempts", failing).Msg("kafka: joining the group failed")
				// kafka-go asks the first broker that takes its connection, again and again, be it that it never answers.
				if err := group.Close(); err != nil {
					return fmt.Errorf("kafka: leaving the group: %w", err)
				}
				brokers = append(brokers[1:], brokers[0])
				if !wait(ctx, min(time.Duration(failing)*100*time.Millisecond, time.Second)) {
					break
				}
				if group, err = s.group(brokers); err != nil {
					return err
				}
			}
			continue
		}
		failing = 0
		s.begin(gen, in)
	}
	err = group.Close()
	s.client().Transport.(*kafkago.Transport).CloseIdleConnections()
	if s.letters != nil {
		err = errors.Join(err, s.letters.Close())
	}
	if err != nil {
		return fmt.Errorf("kafka: leaving the group: %w", err)
	}
	return nil
}

// announce tells the intake which partitions there are. If that fails, time does not wait for partitions that no analyzer has ever opened.
func (s *Source) announce(ctx context.Context, in source.Intake, counts map[string]int) {
	var lanes []string
	for topic, n := range counts {
		for partition := range n {
			lanes = append(lanes, laneName(topicPartition{topic, partition}))
		}
	}
	if err := in.Announce(ctx, lanes); err != nil {
		s.log.Warn().Err(err).Msg("kafka: announcing the partitions failed")
	}
}

// group begins to join the group, through the first of the brokers that can be reached.
func (s *Source) group(brokers []string) (*kafkago.ConsumerGroup, error) {
	group, err := kafkago.NewConsumerGroup(kafkago.ConsumerGroupConfig{
		ID: s.opt.Group, Brokers: slices.Clone(brokers), Topics: s.opt.Topics, Dialer: s.opt.dialer(s.opt.dial),
		GroupBalancers: []kafkago.GroupBalancer{s.balancer},
		SessionTimeout: s.opt.SessionTimeout, HeartbeatInterval: min(3*time.Second, s.opt.SessionTimeout/3),
		RebalanceTimeout: s.opt.RebalanceTimeout, JoinGroupBackoff: time.Second, Timeout: groupTimeout,
		StartOffset: kafkago.FirstOffset,
		Logger:      kafkago.LoggerFunc(func(format string, args ...any) { s.log.Trace().Msgf("kafka-go: "+format, args...) }),
		ErrorLogger: kafkago.LoggerFunc(func(format string, args ...any) { s.log.Debug().Msgf("kafka-go: "+format, args...) }),
	})
	if err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	return group, nil
}

// groupTimeout is how long an answer of the group's coordinator is waited for, beyond what it may wait itself.
const groupTimeout = 5 * time.Second

// generation is one sharing out of the partitions.
type generation struct {
	id     int32
	member string
	lanes  sync.WaitGroup

	mu    sync.Mutex
	dirty map[topicPartition]int64 // offsets that are stored and not committed
}

// mark takes note of what is to be committed.
func (g *generation) mark(tp topicPartition, offset int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dirty[tp] = offset
}

// begin starts what runs for one generation. All of it ends with the generation; the next begins only then.
func (s *Source) begin(gen *kafkago.Generation, in source.Intake) {
	g := &generation{id: gen.ID, member: gen.MemberID, dirty: map[topicPartition]int64{}}
	lanes := map[string]*lane{}
	var run []*lane
	for topic, assigned := range gen.Assignments {
		for _, a := range assigned {
			l := newLane(s, g, topicPartition{topic, a.ID})
			lanes[l.name] = l
			run = append(run, l)
		}
	}
	s.mu.Lock()
	s.lanes, s.left = lanes, time.Time{}
	s.stats.Generation = gen.ID
	s.stats.Rebalances++
	s.mu.Unlock()
	s.log.Info().Str("group", s.opt.Group).Int32("generation", gen.ID).Str("member", gen.MemberID).Int("partitions", len(run)).
		Msg("kafka: the group has shared the partitions out")
	g.lanes.Add(len(run))
	for _, l := range run {
		gen.Start(func(ctx context.Context) {
			defer g.lanes.Done()
			l.run(ctx, in)
		})
	}
	gen.Start(func(ctx context.Context) { s.committer(ctx, g) })
	gen.Start(func(ctx context.Context) {
		<-ctx.Done()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.left = time.Now()
	})
	if shared := s.balancer.take(); shared != nil {
		gen.Start(func(ctx context.Context) { s.watch(ctx, g, shared) })
	}
}

// committer commits what is stored, now and then and at the end.
func (s *Source) committer(ctx context.Context, g *generation) {
	for wait(ctx, s.opt.CommitEvery) {
		s.commit(ctx, g)
	}
	g.lanes.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	s.commit(last, g)
}

// commit tells the group how far the lanes are stored. It is for others to see: nothing is lost when it fails.
func (s *Source) commit(ctx context.Context, g *generation) {
	g.mu.Lock()
	dirty := g.dirty
	g.dirty = map[topicPartition]int64{}
	g.mu.Unlock()
	if len(dirty) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, fetchMargin)
	defer cancel()
	req := &kafkago.OffsetCommitRequest{GroupID: s.opt.Group, GenerationID: int(g.id), MemberID: g.member, Topics: map[string][]kafkago.OffsetCommit{}}
	for tp, offset := range dirty {
		req.Topics[tp.topic] = append(req.Topics[tp.topic], kafkago.OffsetCommit{Partition: tp.partition, Offset: offset})
	}
	res, err := s.client().OffsetCommit(ctx, req)
	refused := map[topicPartition]bool{}
	if err == nil {
		for topic, all := range res.Topics {
			for _, p := range all {
				if p.Error != nil {
					err = p.Error
					refused[topicPartition{topic, p.Partition}] = true
				}
			}
		}
	}
	if err == nil {
		return
	}
	s.count(func(st *Stats) { st.CommitErrors++ })
	s.log.Debug().Err(err).Int32("generation", g.id).Msg("kafka: committing offsets to the group failed")
	g.mu.Lock()
	defer g.mu.Unlock()
	for tp, offset := range dirty {
		// Tried again, unless there is something newer by now.
		if _, newer := g.dirty[tp]; !newer && (len(refused) == 0 || refused[tp]) {
			g.dirty[tp] = offset
		}
	}
}

// alive asks the group's coordinator whether the member belongs to the group's present generation.
func (s *Source) alive(ctx context.Context, g *generation) error {
	ctx, cancel := context.WithTimeout(ctx, fetchMargin)
	defer cancel()
	res, err := s.client().Heartbeat(ctx, &kafkago.HeartbeatRequest{GroupID: s.opt.Group, GenerationID: g.id, MemberID: g.member})
	if err == nil {
		err = res.Error
	}
	if err != nil {
		return fmt.Errorf("asking for the membership in group %s: %w", s.opt.Group, err)
	}
	return nil
}

// Fences from their high bits down: epoch, generation, and some of the member, so that two members of one number cannot both own a lane.
const (
	memberBits     = 8
	generationBits = 31
	maxEpoch       = 1<<(63-memberBits-generationBits) - 1
)

func fence(epoch int64, g *generation) int64 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(g.member))
	return epoch<<(generationBits+memberBits) | int64(g.id&(1<<generationBits-1))<<memberBits | int64(h.Sum32()&(1<<memberBits-1))
}

func (s *Source) epoch(lane string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.epochs[lane]
}

func (s *Source) setEpoch(lane string, epoch int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epochs[lane] = epoch
}

// client returns the connections.
func (s *Source) client() *kafkago.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns == nil {
		s.conns = &kafkago.Client{Addr: kafkago.TCP(s.opt.Brokers...), Transport: s.opt.transport(s.opt.dial, s.opt.Topics)}
		s.since = time.Now()
	}
	return s.conns
}

// renew drops all connections if they are older than the patience.
func (s *Source) renew() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns == nil || time.Since(s.since) < s.opt.Patience {
		return
	}
	s.conns.Transport.(*kafkago.Transport).CloseIdleConnections()
	s.conns = nil
	s.stats.Redials++
}

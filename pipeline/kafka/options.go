package kafka

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/pipeline/source"
)

// Where to begin in a partition of which neither the store nor the group knows a position.
const (
	Earliest = "earliest"
	// Latest is for what is there when the group is first used. Partitions that are added later are read from their beginning.
	Latest = "latest"
)

// Options of a Source. The zero value of a field means its default.
type Options struct {
	Cluster
	// Topics need not exist yet.
	Topics []string
	// Group is the consumer group that shares the partitions out. All members must read the same topics.
	Group string
	// StartOffset is Earliest, the default, or Latest.
	StartOffset string

	// Want is what to decode in addition to the requests of nodes.
	Want audit.Want
	// MaxEventBytes bounds an event, audit.DefaultMaxEventBytes by default.
	MaxEventBytes int

	// FetchBytes is how much is asked for at once of a partition with messages waiting, as the log has it, so mostly compressed: 256 KiB by
	// default. A batch of messages that is longer comes as a whole.
	FetchBytes int
	// MaxBytes and MaxMessages bound what is read and not stored yet, decompressed, of all partitions together: 64 MiB and 200,000 by
	// default. They are passed by one answer of a broker for each partition at most.
	MaxBytes    int64
	MaxMessages int64
	// MaxWait is how long a broker waits for a first message, 500 ms by default.
	MaxWait time.Duration

	// SessionTimeout is after what silence of a member the others get its partitions, 15 s by default. Brokers have bounds for it, 6 s to
	// 30 min by default.
	SessionTimeout time.Duration
	// RebalanceTimeout is how long the group waits for a member that is about to give its partitions up, 30 s by default.
	RebalanceTimeout time.Duration
	// CommitEvery is the time between two commits of offsets to the group, 1 s by default.
	CommitEvery time.Duration
	// Drain is how long a partition that is given up waits for its last batches to be stored, 2 s by default.
	Drain time.Duration
	// WatchEvery is the time between two looks for new partitions, 10 s by default.
	WatchEvery time.Duration
	// Patience is after how long without an answer of a partition's broker all connections are made anew, and how long an offset beyond the
	// log's end is believed to be the brokers' delay, 30 s by default. Without an answer for half of it, a source is not up.
	Patience time.Duration

	// DeadLetters keeps messages that hold what is no audit event, and DeadLetterTopic is a topic for the same. With both, both get them;
	// with none they are counted alone. A message is passed only when its letter is safe.
	DeadLetters     source.Letters
	DeadLetterTopic string
	// OnGap is called for messages that are lost, from the goroutine of the partition. It may be nil.
	OnGap func(Gap)

	dial dialFunc
}

// Gap is a run of messages that were gone before they were read.
type Gap struct {
	Topic     string
	Partition int
	// From and To are offsets. If To is not after From, the log is not the one in which From was reached: it was truncated, or the topic was made anew.
	From, To int64
}

func (g Gap) String() string {
	if g.To <= g.From {
		return fmt.Sprintf("%s/%d is not the log in which offset %d was reached: it was truncated or made anew; reading resumes at %d", g.Topic, g.Partition, g.From, g.To)
	}
	return fmt.Sprintf("%s/%d: messages %d to %d were deleted before they were read", g.Topic, g.Partition, g.From, g.To-1)
}

// withDefaults returns the options with every field set, or what is wrong with one of them.
func (o Options) withDefaults() (Options, error) {
	if err := o.Cluster.validate(); err != nil {
		return o, err
	}
	o.Topics = slices.Clone(o.Topics)
	slices.Sort(o.Topics)
	if err := o.validTopics(); err != nil {
		return o, err
	}
	if o.Group == "" {
		return o, errors.New("group: it is missing")
	}
	switch o.StartOffset {
	case "":
		o.StartOffset = Earliest
	case Earliest, Latest:
	default:
		return o, fmt.Errorf("startOffset: %q is neither %s nor %s", o.StartOffset, Earliest, Latest)
	}
	for _, d := range []struct {
		name string
		v    *time.Duration
		def  time.Duration
	}{
		{"maxWait", &o.MaxWait, 500 * time.Millisecond},
		{"sessionTimeout", &o.SessionTimeout, 15 * time.Second},
		{"rebalanceTimeout", &o.RebalanceTimeout, 30 * time.Second},
		{"commitEvery", &o.CommitEvery, time.Second},
		{"drain", &o.Drain, 2 * time.Second},
		{"watchEvery", &o.WatchEvery, 10 * time.Second},
		{"patience", &o.Patience, 30 * time.Second},
	} {
		if *d.v < 0 {
			return o, fmt.Errorf("%s: %v is negative", d.name, *d.v)
		}
		if *d.v == 0 {
			*d.v = d.def
		}
	}
	if o.FetchBytes == 0 {
		o.FetchBytes = 256 << 10
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = 64 << 20
	}
	if o.MaxMessages == 0 {
		o.MaxMessages = 200_000
	}
	if o.FetchBytes < 1<<10 || o.FetchBytes > 1<<30 {
		return o, fmt.Errorf("fetchBytes: %d is not between 1 KiB and 1 GiB", o.FetchBytes)
	}
	if o.MaxBytes < int64(o.FetchBytes) {
		return o, fmt.Errorf("maxBytes: %d is less than fetchBytes, %d", o.MaxBytes, o.FetchBytes)
	}
	if o.MaxMessages < 0 || o.MaxEventBytes < 0 {
		return o, errors.New("maxMessages and maxEventBytes must not be negative")
	}
	if o.dial == nil {
		o.dial = o.Cluster.dial
	}
	return o, nil
}

// validTopics needs the topics in order.
func (o *Options) validTopics() error {
	if len(o.Topics) == 0 {
		return errors.New("topics: at least one is needed")
	}
	for i, t := range o.Topics {
		if err := validTopic(t); err != nil {
			return fmt.Errorf("topics: %w", err)
		}
		if i > 0 && t == o.Topics[i-1] {
			return fmt.Errorf("topics: %q is there twice", t)
		}
	}
	if o.DeadLetterTopic == "" {
		return nil
	}
	if err := validTopic(o.DeadLetterTopic); err != nil {
		return fmt.Errorf("deadLetterTopic: %w", err)
	}
	if slices.Contains(o.Topics, o.DeadLetterTopic) {
		return fmt.Errorf("deadLetterTopic: %q is one of the topics that are read", o.DeadLetterTopic)
	}
	return nil
}

// validTopic is as org.apache.kafka.common.internals.Topic has it.
func validTopic(t string) error {
	if t == "" || t == "." || t == ".." || len(t) > 249 {
		return fmt.Errorf("%q is no topic's name", t)
	}
	if i := strings.IndexFunc(t, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-')
	}); i >= 0 {
		return fmt.Errorf("%q is no topic's name: only letters, digits, '.', '_' and '-' may be in it", t)
	}
	return nil
}

// recent says whether a trouble that began then, if at all, is too short to be one: brokers that move and restart are nothing to wake anybody for.
func (o *Options) recent(since time.Time) bool {
	return since.IsZero() || time.Since(since) <= o.Patience/2
}

// decompressed is how much of one answer is read at once.
func (o *Options) decompressed() int64 {
	return max(int64(o.FetchBytes), min(4*int64(o.FetchBytes), o.MaxBytes/8))
}

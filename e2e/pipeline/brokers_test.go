package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/nodetrail/nodetrail/e2e/plane"
)

const (
	topic      = "audit"
	group      = "nodetrail"
	partitions = 6
	copies     = 3
)

// brokers is a cluster of Kafka, by e2e/kafka/kafka.sh. A message is acknowledged when two of three have it.
type brokers struct {
	script, dir string
	addresses   []string
	processes   []*plane.Process // those that run now
	started     []*plane.Process
	client      *kafkago.Client
}

func startBrokers(t *testing.T) *brokers {
	t.Helper()
	root := plane.Must(plane.Root())(t)
	b := &brokers{script: filepath.Join(root, "e2e", "kafka", "kafka.sh"), dir: filepath.Join(work.Dir, "kafka"), processes: make([]*plane.Process, copies)}
	var groups []string
	for range copies {
		address, controller := plane.Must(plane.FreeAddress())(t), plane.Must(plane.FreeAddress())(t)
		b.addresses = append(b.addresses, address)
		_, port, err := net.SplitHostPort(address)
		plane.Check(t, err)
		_, voter, err := net.SplitHostPort(controller)
		plane.Check(t, err)
		groups = append(groups, port+":"+voter+"::")
	}
	prepare := plane.Must(work.Start("kafka-prepare", "bash", []string{b.script, "prepare", b.dir, strings.Join(groups, ",")}))(t)
	if !prepare.Success() {
		t.Fatalf("preparing the brokers:\n%s", prepare.Tail(2000))
	}
	for i := range copies {
		b.launch(t, i)
	}
	for i := range copies {
		b.await(t, i)
	}
	b.client = &kafkago.Client{Addr: kafkago.TCP(b.addresses...), Timeout: 10 * time.Second, Transport: &kafkago.Transport{}}
	plane.Check(t, plane.Eventually(work.Context(), "the topic is made", func() error {
		made, err := b.client.CreateTopics(work.Context(), &kafkago.CreateTopicsRequest{
			Topics: []kafkago.TopicConfig{{Topic: topic, NumPartitions: partitions, ReplicationFactor: copies}},
		})
		if err == nil {
			err = made.Errors[topic]
		}
		if errors.Is(err, kafkago.TopicAlreadyExists) {
			return nil
		}
		return err
	}))
	plane.Check(t, plane.Eventually(work.Context(), "the topic is there", func() error { return b.inSync(work.Context()) }))
	return b
}

func (b *brokers) launch(t *testing.T, i int) {
	t.Helper()
	id := strconv.Itoa(i + 1)
	p := plane.Must(work.Start("kafka-"+id, "bash", []string{b.script, "run", b.dir, id}))(t)
	b.processes[i] = p
	b.started = append(b.started, p)
}

// await waits until a broker serves.
func (b *brokers) await(t *testing.T, i int) {
	t.Helper()
	p := b.processes[i]
	plane.Check(t, plane.Eventually(work.Context(), p.Name+" serves", func() error {
		if err := p.Alive(); err != nil {
			return plane.Fatal(err)
		}
		log, err := os.ReadFile(p.Log)
		if err == nil && !bytes.Contains(log, []byte("Kafka Server started")) {
			err = errors.New("it does not say so")
		}
		return err
	}))
}

// kill ends broker i as kill -9 does.
func (b *brokers) kill(i int) { b.processes[i].Kill() }

// restart starts broker i again and waits until it has all that the others have.
func (b *brokers) restart(t *testing.T, i int) {
	t.Helper()
	b.launch(t, i)
	b.await(t, i)
	plane.Check(t, plane.Eventually(work.Context(), "all brokers have all messages", func() error { return b.inSync(work.Context()) }))
}

func (b *brokers) inSync(ctx context.Context) error {
	meta, err := b.client.Metadata(ctx, &kafkago.MetadataRequest{Topics: []string{topic}})
	if err != nil {
		return err
	}
	n := 0
	for _, t := range meta.Topics {
		for _, p := range t.Partitions {
			if len(p.Isr) == copies && p.Error == nil {
				n++
			}
		}
	}
	if n != partitions {
		return fmt.Errorf("%d of %d partitions are in sync", n, partitions)
	}
	return nil
}

// coordinator is the broker, from 0, that leads the group.
func (b *brokers) coordinator(t *testing.T) int {
	t.Helper()
	at := 0
	plane.Check(t, plane.Eventually(work.Context(), "the group has a coordinator", func() error {
		res, err := b.client.FindCoordinator(work.Context(), &kafkago.FindCoordinatorRequest{Key: group, KeyType: kafkago.CoordinatorKeyTypeConsumer})
		if err == nil {
			err = res.Error
		}
		if err == nil {
			at = res.Coordinator.NodeID - 1
		}
		return err
	}))
	return at
}

// members is nil when the group is stable, has n members, and each of them some partitions.
func (b *brokers) members(ctx context.Context, n int) error {
	res, err := b.client.DescribeGroups(ctx, &kafkago.DescribeGroupsRequest{GroupIDs: []string{group}})
	if err != nil {
		return err
	}
	if len(res.Groups) != 1 {
		return fmt.Errorf("%d groups", len(res.Groups))
	}
	g := &res.Groups[0]
	if g.Error != nil {
		return g.Error
	}
	with := 0
	for i := range g.Members {
		for _, t := range g.Members[i].MemberAssignments.Topics {
			if len(t.Partitions) > 0 {
				with++
			}
		}
	}
	if g.GroupState != "Stable" || len(g.Members) != n || with != n {
		return fmt.Errorf("the group is %s, with %d members, %d of them with partitions", g.GroupState, len(g.Members), with)
	}
	return nil
}

// drained is nil when the offset that the group has committed is the end of every partition.
func (b *brokers) drained(ctx context.Context) error {
	committed, err := b.client.OffsetFetch(ctx, &kafkago.OffsetFetchRequest{GroupID: group, Topics: map[string][]int{topic: numbers()}})
	if err == nil {
		err = committed.Error
	}
	if err != nil {
		return err
	}
	last, err := b.ends(ctx)
	if err != nil {
		return err
	}
	for _, p := range committed.Topics[topic] {
		if p.Error != nil {
			return p.Error
		}
		if p.CommittedOffset != last[p.Partition] {
			return fmt.Errorf("partition %d ends at %d, and the group is at %d", p.Partition, last[p.Partition], p.CommittedOffset)
		}
		delete(last, p.Partition)
	}
	if len(last) > 0 {
		return fmt.Errorf("the group has no offset of %d partitions", len(last))
	}
	return nil
}

// ends are the offsets behind the last messages, by partition.
func (b *brokers) ends(ctx context.Context) (map[int]int64, error) {
	var ask []kafkago.OffsetRequest
	for _, n := range numbers() {
		ask = append(ask, kafkago.LastOffsetOf(n))
	}
	res, err := b.client.ListOffsets(ctx, &kafkago.ListOffsetsRequest{Topics: map[string][]kafkago.OffsetRequest{topic: ask}})
	if err != nil {
		return nil, err
	}
	last := map[int]int64{}
	for _, p := range res.Topics[topic] {
		if p.Error != nil {
			return nil, p.Error
		}
		last[p.Partition] = p.LastOffset
	}
	return last, nil
}

// contents are the values of all messages of the topic.
func (b *brokers) contents(t *testing.T) [][]byte {
	t.Helper()
	var all [][]byte
	ends := plane.Must(b.ends(work.Context()))(t)
	for _, n := range numbers() {
		r := kafkago.NewReader(kafkago.ReaderConfig{Brokers: b.addresses, Topic: topic, Partition: n, MaxWait: 100 * time.Millisecond})
		ctx, cancel := context.WithTimeout(work.Context(), plane.Patience())
		for at := int64(0); at < ends[n]; {
			m, err := r.ReadMessage(ctx)
			if err != nil {
				t.Errorf("reading partition %d: %v", n, err)
				break
			}
			all, at = append(all, m.Value), m.Offset+1
		}
		cancel()
		plane.Check(t, r.Close())
	}
	return all
}

func numbers() []int {
	all := make([]int, partitions)
	for i := range all {
		all[i] = i
	}
	return all
}

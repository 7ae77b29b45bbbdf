package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	kafkago "github.com/segmentio/kafka-go"

	"github.com/nodetrail/nodetrail/pipeline/source"
)

// store models what the pipeline's store promises: what is counted and the position are stored at once, and only for the lane's present owner.
// It knows no duplicates: what is handed on twice is counted twice.
type store struct {
	mu      sync.Mutex
	lanes   map[string]*storedLane
	counted map[string]int
	batches int
	behind  map[string]bool
	// ended is given what is said of the end of a partition: it was there at the position when; nil for nothing.
	ended func(lane, position string, when time.Time)
}

type storedLane struct {
	fence    int64
	owner    *process // under an equal fence the last to open owns the lane, as in package store
	position string
	// announced says that it was announced before anybody opened it.
	announced bool
}

func newStore() *store {
	return &store{lanes: map[string]*storedLane{}, counted: map[string]int{}, behind: map[string]bool{}}
}

func (s *store) lane(name string) *storedLane {
	l := s.lanes[name]
	if l == nil {
		l = &storedLane{}
		s.lanes[name] = l
	}
	return l
}

// got returns how often each audit ID was counted.
func (s *store) got() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.counted)
}

func (s *store) total() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, c := range s.counted {
		n += c
	}
	return n
}

func (s *store) owner(lane string) *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lane(lane).owner
}

// process models the pipeline of one process: batches are stored some time after they were taken, several at once.
type process struct {
	st    *store
	delay func() time.Duration

	mu      sync.Mutex
	open    map[string]int64  // fences
	at      map[string]string // the position of each lane
	waiting []*handed
	dead    bool
	frozen  bool
	fenced  int // commits that were refused
	wake    chan struct{}
	ended   chan struct{}
}

type handed struct {
	b    *source.Batch
	ids  []string
	done func(error)
}

func newProcess(t testing.TB, st *store, delay func() time.Duration) *process {
	p := &process{st: st, delay: delay, open: map[string]int64{}, at: map[string]string{}, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	stop := make(chan struct{})
	go p.commits(stop)
	t.Cleanup(func() { close(stop); <-p.ended })
	return p
}

func (p *process) Announce(_ context.Context, lanes []string) error {
	p.st.mu.Lock()
	defer p.st.mu.Unlock()
	for _, name := range lanes {
		p.st.lane(name).announced = true
	}
	return nil
}

func (p *process) Open(ctx context.Context, lane string, fence int64) (string, error) {
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return "", source.ErrClosed
	}
	if _, open := p.open[lane]; open {
		panic("opened twice: " + lane)
	}
	p.st.mu.Lock()
	defer p.st.mu.Unlock()
	l := p.st.lane(lane)
	if fence < l.fence {
		return "", source.ErrFenced
	}
	if !l.announced && p.st.ended != nil {
		panic(lane + " was not announced")
	}
	l.fence, l.owner = fence, p
	p.open[lane], p.at[lane] = fence, l.position
	return l.position, nil
}

func (p *process) Close(lane string) {
	p.mu.Lock()
	delete(p.open, lane)
	var dropped []*handed
	p.waiting = slices.DeleteFunc(p.waiting, func(h *handed) bool {
		if h.b.Lane == lane {
			dropped = append(dropped, h)
			return true
		}
		return false
	})
	p.mu.Unlock()
	for _, h := range dropped {
		p.finish(h, source.ErrClosed)
	}
}

func (p *process) Take(ctx context.Context, b *source.Batch, done func(error)) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return source.ErrClosed
	}
	if _, open := p.open[b.Lane]; !open {
		return source.ErrClosed
	}
	if b.Position != "" {
		p.at[b.Lane] = b.Position
	}
	if p.st.ended != nil && !b.Ended.IsZero() {
		p.st.ended(b.Lane, p.at[b.Lane], b.Ended)
	}
	if len(b.Events) == 0 && b.Position == "" { // it says that the partition is at its end
		if b.Ended.IsZero() {
			panic("a batch that says nothing")
		}
		done(nil)
		return nil
	}
	h := &handed{b: b, done: done}
	for i := range b.Events {
		h.ids = append(h.ids, strings.Clone(b.Events[i].AuditID))
	}
	p.waiting = append(p.waiting, h)
	select {
	case p.wake <- struct{}{}:
	default:
	}
	return nil
}

func (p *process) finish(h *handed, err error) {
	if h.b.Release != nil {
		h.b.Release()
	}
	h.done(err)
}

func (p *process) commits(stop chan struct{}) {
	defer close(p.ended)
	for {
		select {
		case <-p.wake:
		case <-stop:
			return
		}
		if p.delay != nil {
			select {
			case <-time.After(p.delay()):
			case <-stop:
				return
			}
		}
		p.commit()
	}
}

// commit stores all that waits, lane by lane.
func (p *process) commit() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead || p.frozen {
		return
	}
	p.st.mu.Lock()
	defer p.st.mu.Unlock()
	waiting := p.waiting
	p.waiting = nil
	for _, h := range waiting {
		l := p.st.lane(h.b.Lane)
		if l.fence != p.open[h.b.Lane] || l.owner != p {
			p.fenced++
			p.finish(h, source.ErrFenced)
			continue
		}
		for _, id := range h.ids {
			p.st.counted[id]++
		}
		p.st.batches++
		p.st.behind[h.b.Lane] = h.b.Behind
		l.position = h.b.Position
		p.finish(h, nil)
	}
}

// kill ends the process as kill -9 does: nothing is stored or closed any more.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = true
}

func (p *process) freeze(frozen bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = frozen
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// network is the way of one process to the brokers. It can be cut, or fall silent.
type network struct {
	mu     sync.Mutex
	conns  map[net.Conn]bool
	cut    bool
	silent chan struct{} // closed when it is over
}

func (n *network) dial(ctx context.Context, network, address string) (net.Conn, error) {
	n.mu.Lock()
	cut, silent := n.cut, n.silent
	n.mu.Unlock()
	if cut {
		return nil, errors.New("the network is cut")
	}
	if silent != nil {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	c, err := (&Cluster{}).dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.conns == nil {
		n.conns = map[net.Conn]bool{}
	}
	n.conns[c] = true
	return &networkConn{Conn: c, n: n}, nil
}

type networkConn struct {
	net.Conn
	n *network
}

func (c *networkConn) hold() {
	c.n.mu.Lock()
	silent := c.n.silent
	c.n.mu.Unlock()
	if silent != nil {
		<-silent
	}
}

func (c *networkConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.hold()
	return n, err
}

func (c *networkConn) Write(p []byte) (int, error) {
	c.hold()
	return c.Conn.Write(p)
}

func (n *network) sever() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut = true
	for c := range n.conns {
		_ = c.Close()
	}
}

// silence holds all traffic up until the function is called that it returns.
func (n *network) silence() func() {
	n.mu.Lock()
	defer n.mu.Unlock()
	silent := make(chan struct{})
	n.silent = silent
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.silent = nil
		close(silent)
	}
}

// consumer is a process with a Source.
type consumer struct {
	*process
	src  *Source
	net  *network
	stop context.CancelFunc
	done chan error
}

func (c *consumer) shutdown(t testing.TB) {
	t.Helper()
	c.stop()
	select {
	case err := <-c.done:
		if err != nil {
			t.Errorf("Run: %v", err)
		}
	case <-time.After(2 * time.Minute):
		t.Error("Run does not return")
	}
}

// die ends the consumer without a word to the brokers or the store.
func (c *consumer) die() {
	c.kill()
	c.net.sever()
	c.stop()
}

func testLog(t testing.TB) zerolog.Logger {
	level := zerolog.Disabled
	if os.Getenv("KAFKA_TEST_LOG") != "" {
		level = zerolog.DebugLevel
	}
	return zerolog.New(zerolog.NewTestWriter(t)).Level(level).With().Timestamp().Logger()
}

// quickOptions are for tests: everything that waits waits less.
func quickOptions(brokers []string, group string, topics ...string) Options {
	return Options{
		Cluster: Cluster{Brokers: brokers}, Topics: topics, Group: group,
		SessionTimeout: 3 * time.Second, RebalanceTimeout: 6 * time.Second, CommitEvery: 50 * time.Millisecond,
		MaxWait: 100 * time.Millisecond, Drain: 500 * time.Millisecond, WatchEvery: 300 * time.Millisecond, Patience: 5 * time.Second,
	}
}

func (s *store) consume(t testing.TB, opt Options, delay func() time.Duration) *consumer {
	t.Helper()
	c := &consumer{process: newProcess(t, s, delay), net: &network{}, done: make(chan error, 1)}
	if opt.SASL.Mechanism == "" && !opt.TLS.Enabled {
		opt.dial = c.net.dial
	}
	src, err := New(opt, testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	c.src = src
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		c.done <- src.Run(ctx, c)
	}()
	t.Cleanup(func() {
		stop()
		<-finished
	})
	return c
}

// eventually polls until the condition holds.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// event is an audit event of a node as kube-apiserver writes it.
func event(id string) []byte {
	return fmt.Appendf(nil, `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":%q,"stage":"ResponseComplete",`+
		`"requestURI":"/api/v1/namespaces/shop/secrets/db","verb":"get","user":{"username":"system:node:worker-1","groups":["system:nodes","system:authenticated"]},`+
		`"sourceIPs":["10.0.0.7"],"userAgent":"kubelet/v1.33.0","objectRef":{"resource":"secrets","namespace":"shop","name":"db","apiVersion":"v1"},`+
		`"responseStatus":{"metadata":{},"code":200},"requestReceivedTimestamp":"2026-11-21T06:04:19.448000Z","stageTimestamp":"2026-11-21T06:04:19.449000Z",`+
		`"annotations":{"authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":""}}`, id)
}

// admin is a client for the tests' own ends.
func admin(brokers []string) *kafkago.Client {
	return &kafkago.Client{Addr: kafkago.TCP(brokers...), Transport: &kafkago.Transport{MetadataTTL: 500 * time.Millisecond}, Timeout: 20 * time.Second}
}

func createTopic(t testing.TB, brokers []string, topic string, partitions, copies int, config map[string]string) {
	t.Helper()
	a := admin(brokers)
	defer a.Transport.(*kafkago.Transport).CloseIdleConnections()
	var entries []kafkago.ConfigEntry
	for k, v := range config {
		entries = append(entries, kafkago.ConfigEntry{ConfigName: k, ConfigValue: v})
	}
	eventually(t, "topic "+topic, func() bool {
		res, err := a.CreateTopics(context.Background(), &kafkago.CreateTopicsRequest{Topics: []kafkago.TopicConfig{{
			Topic: topic, NumPartitions: partitions, ReplicationFactor: copies, ConfigEntries: entries,
		}}})
		return err == nil && (res.Errors[topic] == nil || errors.Is(res.Errors[topic], kafkago.TopicAlreadyExists))
	})
}

// produce writes events with these IDs, keyed by them, and returns when all are acknowledged.
func produce(t testing.TB, brokers []string, topic string, ids ...string) {
	t.Helper()
	p, err := NewProducer(ProducerOptions{Cluster: Cluster{Brokers: brokers}, Topic: topic}, testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	records := make([]Record, len(ids))
	for i, id := range ids {
		records[i] = Record{Key: []byte(id), Value: event(id)}
	}
	eventually(t, "writing to "+topic, func() bool { return p.Produce(context.Background(), records...) == nil })
}

func ids(prefix string, from, to int) []string {
	var out []string
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprintf("%s-%06d", prefix, i))
	}
	return out
}

// once is the map of these IDs, each counted once.
func once(all ...[]string) map[string]int {
	m := map[string]int{}
	for _, ids := range all {
		for _, id := range ids {
			m[id]++
		}
	}
	return m
}

// wantCounted waits for the count and compares it.
func wantCounted(t testing.TB, st *store, want map[string]int) {
	t.Helper()
	n := 0
	for _, c := range want {
		n += c
	}
	deadline := time.Now().Add(2 * time.Minute)
	for st.total() < n && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
	if d := cmp.Diff(want, st.got()); d != "" {
		if len(d) > 2000 {
			d = d[:2000]
		}
		t.Fatalf("counted %d of %d; -want +got:\n%s", st.total(), n, d)
	}
}

// contents reads a topic through kafka-go's own Reader, and returns how often each audit ID is in it.
func contents(t testing.TB, brokers []string, topic string, partitions int) map[string]int {
	t.Helper()
	got := map[string]int{}
	a := admin(brokers)
	defer a.Transport.(*kafkago.Transport).CloseIdleConnections()
	for p := range partitions {
		var last int64
		eventually(t, "the end of "+topic, func() bool {
			res, err := a.ListOffsets(context.Background(), &kafkago.ListOffsetsRequest{Topics: map[string][]kafkago.OffsetRequest{topic: {kafkago.LastOffsetOf(p)}}})
			if err != nil || len(res.Topics[topic]) == 0 || res.Topics[topic][0].Error != nil {
				return false
			}
			last = res.Topics[topic][0].LastOffset
			return true
		})
		if last == 0 {
			continue
		}
		r := kafkago.NewReader(kafkago.ReaderConfig{Brokers: brokers, Topic: topic, Partition: p, MinBytes: 1, MaxBytes: 10 << 20, MaxWait: time.Second})
		for {
			m, err := r.ReadMessage(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			_, rest, _ := strings.Cut(string(m.Value), `"auditID":"`)
			id, _, _ := strings.Cut(rest, `"`)
			got[id]++
			if m.Offset+1 >= last {
				break
			}
		}
		_ = r.Close()
	}
	return got
}

func jitter(most time.Duration) func() time.Duration {
	return func() time.Duration { return time.Duration(rand.Int64N(int64(most))) }
}

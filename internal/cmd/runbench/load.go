package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/internal/nodeid"
)

// line is an event of the capture, with the places of what is written anew in each copy of it.
type line struct {
	text                 []byte
	id, received, staged int           // where the values begin
	took                 time.Duration // from receipt to stage
	key                  string        // under which a gateway writes it, "" for its auditID
	serials              []int         // where a number of ten digits begins, that differs in each copy
}

// What the values look like. They have the same length in every event of an API server, so that they can be written in place.
const (
	idLen    = 36
	stampLen = len("2026-01-02T15:04:05.000000Z")
	// longestTook bounds how long before its stage a request of the load has come: a watch of the capture may be older than the load.
	longestTook = 10 * time.Millisecond
)

// readLines reads the events of a capture: those of nodes, which are judged, and those of everybody else. Events of credentials that are
// neither, such as a user in the group of nodes by another name, are left out, so that the shares are exact.
func readLines(path string) (nodes, others []line, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("the capture: %w", err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	all, err := io.ReadAll(z)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	for text := range bytes.Lines(bytes.TrimSpace(all)) {
		l, isNode, isOther, err := parse(bytes.TrimSpace(text))
		switch {
		case err != nil:
			return nil, nil, fmt.Errorf("%s: %w", path, err)
		case isNode:
			nodes = append(nodes, l)
		case isOther:
			others = append(others, l)
		}
	}
	if len(nodes) == 0 || len(others) == 0 {
		return nil, nil, fmt.Errorf("%s: %d events of nodes and %d others are no load", path, len(nodes), len(others))
	}
	return nodes, others, nil
}

func parse(text []byte) (l line, isNode, isOther bool, err error) {
	var ev *audit.Event
	counts := (&audit.Decoder{}).Split(text, func(read *audit.Event, _ []byte) { ev = read.Clone() }, func(m audit.Malformed, _ []byte) {
		err = errors.New(m.Cause)
	})
	if err != nil || ev == nil || counts.Read != 1 {
		return l, false, false, fmt.Errorf("%.100q is not one event: %w", text, err)
	}
	l = line{text: text, took: min(ev.StageTime.Sub(ev.RequestReceived), longestTook)}
	u := ev.Effective()
	name, isNode := nodeid.Of(u.Username, u.Groups)
	if isNode {
		l.key = name
	}
	isNode = isNode && name != ""
	isOther = !isNode && !bytes.Contains(text, []byte(nodeid.UserPrefix)) && !slices.Contains(u.Groups, user.NodesGroup)
	for _, v := range []struct {
		at     *int
		key    string
		length int
	}{{&l.id, `"auditID":"`, idLen}, {&l.received, `"requestReceivedTimestamp":"`, stampLen}, {&l.staged, `"stageTimestamp":"`, stampLen}} {
		i := bytes.Index(text, []byte(v.key))
		if *v.at = i + len(v.key); i < 0 || *v.at+v.length >= len(text) || text[*v.at+v.length] != '"' {
			return l, false, false, fmt.Errorf("%.100q has no %s of %d bytes", text, v.key, v.length)
		}
	}
	return l, isNode, isOther, nil
}

// batch is an EventList that is sent again and again, each time with events of new identities and of now.
type batch struct {
	body  []byte
	lines []line // with places in body, without text
	ends  []int  // of the events in body
	nodes int
}

const (
	listHead = `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[`
	listTail = `]}`
)

func newBatch(lines []line) *batch {
	b := &batch{body: []byte(listHead)}
	for i := range lines {
		l := lines[i]
		if i > 0 {
			b.body = append(b.body, ',')
		}
		at := len(b.body)
		b.body = append(b.body, l.text...)
		l.id, l.received, l.staged, l.text = l.id+at, l.received+at, l.staged+at, nil
		l.serials = slices.Clone(l.serials)
		for k := range l.serials {
			l.serials[k] += at
		}
		if l.key != "" {
			b.nodes++
		}
		b.lines, b.ends = append(b.lines, l), append(b.ends, len(b.body))
	}
	b.body = append(b.body, listTail...)
	return b
}

// event is the i-th event as it stands in the body.
func (b *batch) event(i int) []byte {
	from := len(listHead)
	if i > 0 {
		from = b.ends[i-1] + 1
	}
	return b.body[from:b.ends[i]:b.ends[i]]
}

// renew makes the events new ones, answered just now. serial numbers them all over the load and must be unique within a run of the program.
func (b *batch) renew(now time.Time, run uint32, serial uint64) {
	now = now.UTC()
	for i := range b.lines {
		l := &b.lines[i]
		writeID(b.body[l.id:l.id+idLen], run, serial+uint64(i))
		writeStamp(b.body[l.staged:l.staged+stampLen], now)
		writeStamp(b.body[l.received:l.received+stampLen], now.Add(-l.took))
		for _, at := range l.serials {
			copy(b.body[at:at+10], fmt.Appendf(nil, "%010d", serial+uint64(i)))
		}
	}
}

// writeID writes an ID in the form of an API server's.
func writeID(to []byte, run uint32, serial uint64) {
	const hex = "0123456789abcdef"
	copy(to, "00000000-0000-4000-8000-000000000000")
	for i := 7; i >= 0; i, run = i-1, run>>4 {
		to[i] = hex[run&15]
	}
	for i := idLen - 1; i >= 24; i, serial = i-1, serial>>4 {
		to[i] = hex[serial&15]
	}
}

// writeStamp writes a time of UTC with microseconds, without what the general formatter costs.
func writeStamp(to []byte, t time.Time) {
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	copy(to, "0000-00-00T00:00:00.000000Z")
	for _, p := range [...]struct{ at, n, v int }{
		{0, 4, year}, {5, 2, int(month)}, {8, 2, day}, {11, 2, hour}, {14, 2, minute}, {17, 2, second}, {20, 6, t.Nanosecond() / 1000},
	} {
		v := p.v
		for i := p.at + p.n - 1; i >= p.at; i, v = i-1, v/10 {
			to[i] = byte('0' + v%10)
		}
	}
}

// captureBatches are n batches of which exactly one event in five is a node's.
func captureBatches(nodes, others []line, n, size int) []*batch {
	rng := rand.New(rand.NewPCG(1, 2))
	shuffled := slices.Clone(nodes)
	rng.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	var out []*batch
	next, other := 0, 0
	for range n {
		lines := make([]line, 0, size)
		for i := range size {
			if i%5 == 0 {
				lines = append(lines, shuffled[next%len(shuffled)])
				next++
				continue
			}
			lines = append(lines, others[other%len(others)])
			other++
		}
		out = append(out, newBatch(lines))
	}
	return out
}

// stormNodes is how many nodes were denied in kubernetes/kubernetes#99454.
const stormNodes = 330

// stormBatches are refusals as that issue has them: kubelets that list secrets and configmaps by a field that is not looked at, so that for
// the authorizer the request has no name.
func stormBatches(n, size int) ([]*batch, error) {
	var out []*batch
	for i := range n {
		lines := make([]line, 0, size)
		for k := range size {
			l, isNode, _, err := parse([]byte(refusal((i*size + k) % stormNodes)))
			if err != nil {
				return nil, err
			}
			if !isNode {
				return nil, errors.New("a refusal is not a node's")
			}
			lines = append(lines, l)
		}
		out = append(out, newBatch(lines))
	}
	return out, nil
}

func refusal(node int) string {
	resource := [...]string{"secrets", "configmaps"}[node%2]
	namespace := fmt.Sprintf("team-%d", node%17)
	return fmt.Sprintf(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"00000000-0000-4000-8000-000000000000",`+
		`"stage":"ResponseComplete","requestURI":"/api/v1/namespaces/%[2]s/%[3]s?limit=500&resourceVersion=0","verb":"list",`+
		`"user":{"username":"system:node:storm-%[1]d","groups":["system:nodes","system:authenticated"]},"sourceIPs":["10.1.%[4]d.%[5]d"],`+
		`"userAgent":"kubelet/v1.19.3 (linux/amd64) kubernetes/1e11e4a","objectRef":{"resource":"%[3]s","namespace":"%[2]s","apiVersion":"v1"},`+
		`"responseStatus":{"metadata":{},"status":"Failure","message":"%[3]s is forbidden: User \"system:node:storm-%[1]d\" cannot list resource `+
		`\"%[3]s\" in API group \"\" in the namespace \"%[2]s\": No Object name found","reason":"Forbidden","code":403},`+
		`"requestReceivedTimestamp":"2026-01-02T15:04:05.000000Z","stageTimestamp":"2026-01-02T15:04:05.000900Z",`+
		`"annotations":{"authorization.k8s.io/decision":"forbid","authorization.k8s.io/reason":"No Object name found"}}`,
		node, namespace, resource, node/250, node%250)
}

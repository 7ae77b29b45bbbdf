package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// floodRate is a million refused requests in ten minutes.
	floodRate = 1_000_000.0 / 600
	// floodThefts is how many secrets are read successfully meanwhile by each of the nodes.
	floodThefts = 5
	// floodStore is the bound that the store gets.
	floodStore      = 512 << 20
	askedAlerts     = 50
	askedPage       = time.Second
	askedFloodBytes = 500 << 20
)

// flood has one node refused request after request, each for a name of 200 characters that is new, while it and others read secrets that only RBAC lets them.
func (r *bench) flood(ctx context.Context) (err error) {
	nodes := map[string]struct{}{}
	for _, b := range r.batches {
		for i := range b.lines {
			if key := b.lines[i].key; key != "" {
				nodes[key] = struct{}{}
			}
		}
	}
	names := slices.Sorted(maps.Keys(nodes))
	if len(names) < 2 {
		return errors.New("the capture has one node alone")
	}
	names = names[:min(len(names), 4)]
	inbox, err := newInbox()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, inbox.server.Close()) }()
	c, err := startChild(ctx, r.o, fmt.Sprintf("sources: {webhook: {listen: %%s}}\nstore: {maxBytes: %d}\nsinks: {alertmanager: [{urls: [%q]}]}", floodStore, inbox.url))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	batches, err := floodBatches(names[0], 16)
	if err != nil {
		return err
	}
	post := poster("http://"+c.audit+"/audit", 10)
	var thefts []theft
	out, w, err := r.measured(ctx, "flood", c, func() *outcome {
		flood := make(chan *outcome, 1)
		go func() { flood <- drive(ctx, r.ids, batches, floodRate, r.o.duration, post) }()
		own := &outcome{}
		for i := range floodThefts * len(names) {
			select {
			case <-ctx.Done():
			case <-time.After(r.o.duration / time.Duration(floodThefts*len(names)+1)):
			}
			t := theft{names[i%len(names)], fmt.Sprintf("db-%d", i)}
			thefts = append(thefts, t)
			b, err := t.batch()
			if err != nil {
				own.fail(err)
				break
			}
			r.ids.renew(b)
			own.batches, own.events = own.batches+1, own.events+1
			post(ctx, b, own)
		}
		out := <-flood
		out.add(own)
		return out
	})
	if err != nil {
		return err
	}
	r.rows = append(r.rows, w)
	r.check(w.peak < askedFloodBytes, "flood: %d requests, peak of %d MB, asked for less than %d", out.taken, w.peak>>20, askedFloodBytes>>20)
	if err := r.counted(ctx, "flood", c, out.judged, out.unsure); err != nil {
		return err
	}
	if err := r.named(ctx, c, thefts); err != nil {
		return err
	}
	missing := inbox.alerts(ctx, thefts)
	r.check(missing == "", "flood: alerts that name each of %d successful reads; missing: %q", len(thefts), missing)
	r.check(inbox.count() <= askedAlerts, "flood: %d alerts, asked for at most %d", inbox.count(), askedAlerts)
	size, err := filesBelow(filepath.Join(c.dir, "data"))
	if err != nil {
		return err
	}
	r.check(size <= floodStore, "flood: the store takes %d MB, its bound is %d", size>>20, floodStore>>20)
	return r.pages(ctx, c, names[0])
}

// theft is a successful read of a secret.
type theft struct{ node, secret string }

func (t theft) batch() (*batch, error) {
	l, isNode, _, err := parse([]byte(secretRead(t.node, t.secret, true)))
	if err != nil || !isNode {
		return nil, fmt.Errorf("a read that is not a node's: %w", err)
	}
	return newBatch([]line{l}), nil
}

// floodDigits begins the number in a name.
const floodDigits = "x-0000000000"

// floodBatches are refused reads with names that differ each time.
func floodBatches(node string, n int) ([]*batch, error) {
	name := strings.Repeat("x", 200-len(floodDigits)) + floodDigits
	l, isNode, _, err := parse([]byte(secretRead(node, name, false)))
	if err != nil || !isNode {
		return nil, fmt.Errorf("a read that is not a node's: %w", err)
	}
	for at := 0; ; {
		i := bytes.Index(l.text[at:], []byte(floodDigits))
		if i < 0 {
			break
		}
		at += i + len(floodDigits)
		l.serials = append(l.serials, at-10)
	}
	var out []*batch
	for range n {
		out = append(out, newBatch(slices.Repeat([]line{l}, batchSize)))
	}
	return out, nil
}

// secretRead is an event of a node's read of a secret, allowed by RBAC or refused.
func secretRead(node, name string, allowed bool) string {
	status, decision := fmt.Sprintf(`{"metadata":{},"status":"Failure","message":"secrets \"%[1]s\" is forbidden: User \"system:node:%[2]s\" cannot get resource \"secrets\" in API group `+
		`\"\" in the namespace \"shop\": no relationship found between node '%[2]s' and this object","reason":"Forbidden","code":403}`, name, node),
		fmt.Sprintf(`"authorization.k8s.io/decision":"forbid","authorization.k8s.io/reason":"no relationship found between node '%s' and this object"`, node)
	if allowed {
		status, decision = `{"metadata":{},"code":200}`, `"authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":"RBAC: allowed by ClusterRoleBinding \"nodes\" of `+
			`ClusterRole \"secret-reader\" to Group \"system:nodes\""`
	}
	return fmt.Sprintf(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"00000000-0000-4000-8000-000000000000","stage":"ResponseComplete",`+
		`"requestURI":"/api/v1/namespaces/shop/secrets/%[2]s","verb":"get","user":{"username":"system:node:%[1]s","groups":["system:nodes","system:authenticated"]},`+
		`"sourceIPs":["192.0.2.66"],"userAgent":"curl/8.5.0","objectRef":{"resource":"secrets","namespace":"shop","name":"%[2]s","apiVersion":"v1"},"responseStatus":%[3]s,`+
		`"requestReceivedTimestamp":"2026-01-02T15:04:05.000000Z","stageTimestamp":"2026-01-02T15:04:05.000900Z","annotations":{%[4]s}}`, node, name, status, decision)
}

// named checks that the report has a critical finding of its own for each theft.
func (r *bench) named(ctx context.Context, c *child, thefts []theft) error {
	text, err := exec.CommandContext(ctx, c.program, "report", "--config", c.config, "-o", "json").Output()
	if err != nil {
		return fmt.Errorf("the report: %w", err)
	}
	var report struct {
		Findings []struct {
			Severity, Node, Name string
			Allowed              bool
		}
	}
	if err := json.Unmarshal(text, &report); err != nil {
		return fmt.Errorf("the report: %w", err)
	}
	found := map[theft]bool{}
	for _, f := range report.Findings {
		if f.Severity == "critical" && f.Allowed {
			found[theft{f.Node, f.Name}] = true
		}
	}
	missing := slices.DeleteFunc(slices.Clone(thefts), func(t theft) bool { return found[t] })
	r.check(len(missing) == 0, "flood: %d successful reads, the report names all but %v in critical findings", len(thefts), missing)
	return nil
}

// pages checks how long the pages take, each as the first one who asks.
func (r *bench) pages(ctx context.Context, c *child, node string) error {
	longest, of := time.Duration(0), ""
	for _, path := range []string{"/", "/incidents", "/findings", "/nodes", "/nodes/" + node, "/bindings", "/checks", "/objects"} {
		begin := time.Now()
		if _, err := c.get(ctx, path); err != nil {
			return err
		}
		if took := time.Since(begin); took > longest {
			longest, of = took, path
		}
	}
	r.check(longest <= askedPage, "flood: the slowest page, %s, took %.3f s, asked for at most %.0f", of, longest.Seconds(), askedPage.Seconds())
	return nil
}

// inbox is an Alertmanager that keeps what it is sent.
type inbox struct {
	url    string
	server *http.Server
	mu     sync.Mutex
	got    map[string]string // the latest text of each alert, by its labels
}

func newInbox() (*inbox, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("the receiver of alerts: %w", err)
	}
	in := &inbox{url: "http://" + l.Addr().String(), got: map[string]string{}}
	in.server = &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		var all []struct{ Labels, Annotations map[string]string }
		if json.NewDecoder(req.Body).Decode(&all) != nil {
			return
		}
		in.mu.Lock()
		defer in.mu.Unlock()
		for _, a := range all {
			in.got[fmt.Sprint(a.Labels)] += fmt.Sprint(a.Annotations)
		}
	})}
	go func() { _ = in.server.Serve(l) }() // until it is closed
	return in, nil
}

func (in *inbox) count() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.got)
}

// alerts returns the thefts that no alert about their node names, "" for none. What was found last may be on its way for a while.
func (in *inbox) alerts(ctx context.Context, thefts []theft) string {
	for deadline := time.Now().Add(90 * time.Second); ; {
		in.mu.Lock()
		var missing []string
		for _, t := range thefts {
			is := false
			for labels, text := range in.got {
				is = is || strings.Contains(labels, t.node) && strings.Contains(labels+text, t.secret)
			}
			if !is {
				missing = append(missing, t.node+" "+t.secret)
			}
		}
		in.mu.Unlock()
		if len(missing) == 0 || time.Now().After(deadline) || ctx.Err() != nil {
			return strings.Join(missing, ", ")
		}
		time.Sleep(time.Second)
	}
}

// filesBelow is how many bytes the files of a folder take.
func filesBelow(dir string) (sum int64, err error) {
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	return sum, err
}

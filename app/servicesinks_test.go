package app

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/internal/config"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/sinks"
	"github.com/nodetrail/nodetrail/sinks/metrics"
	"github.com/nodetrail/nodetrail/tally"
)

// posts is what a receiver was sent.
type posts struct {
	mu     sync.Mutex
	bodies []string
	srv    *httptest.Server
}

// receive starts a receiver, which wants the token.
func receive(t *testing.T, token string) *posts {
	p := &posts{}
	p.srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		b, _ := io.ReadAll(req.Body)
		if token != "" && req.Header.Get("Authorization") != "Bearer "+token {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.bodies = append(p.bodies, string(b))
	}))
	t.Cleanup(p.srv.Close)
	return p
}

// has waits until the receiver was sent findings about all of these.
func (p *posts) has(t *testing.T, names ...string) {
	t.Helper()
	waitFor(t, "the receiver has all", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		all := strings.Join(p.bodies, "\n")
		return !slices.ContainsFunc(names, func(n string) bool { return strings.Count(all, `"name":"`+n+`"`) != 1 })
	})
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	const patience = 2 * time.Minute
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never happened: %s", what)
		}
	}
}

// sinkBench is sinks whose configuration a test changes.
type sinkBench struct {
	t   *testing.T
	set *sinkSet
	n   int
}

func (b *sinkBench) use(conf string) error {
	b.t.Helper()
	c, err := config.Parse("c", []byte("cluster: prod\n"+conf), os.LookupEnv)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.set.replace(c, zerolog.Nop())
}

// find gives a finding to the sinks, and returns its name.
func (b *sinkBench) find() string {
	b.n++
	name := fmt.Sprint("secret-", b.n)
	b.set.add(&pipeline.Stored{Entries: []tally.Entry{readAt("worker-3", name, time.Now(), true)}})
	return name
}

func (b *sinkBench) figures(name string) sinks.QueueStats {
	b.t.Helper()
	all := b.set.stats()
	i := slices.IndexFunc(all, func(s metrics.Sink) bool { return s.Name == name })
	if i < 0 {
		b.t.Fatalf("no figures of %s: %+v", name, all)
	}
	return all[i].Stats
}

// A sink that is corrected gets what waited for the one that was down. Others keep their queues, and no counter begins anew.
func TestChangedSinkGetsWhatWaits(t *testing.T) {
	down := httptest.NewServer(nil)
	down.Close()
	up := receive(t, "")
	secret := receive(t, "right")
	b := &sinkBench{t: t, set: &sinkSet{}}
	conf := func(url, token, more string) string {
		return fmt.Sprintf("sinks: {http: [{name: rx, url: '%s/x'}, {name: soc, url: '%s/', bearerToken: %s}]}\n%s", url, secret.srv.URL, token, more)
	}
	use := func(conf string) {
		t.Helper()
		if err := b.use(conf); err != nil {
			t.Fatal(err)
		}
	}
	use(conf(down.URL, "wrong", ""))
	names := []string{b.find(), b.find()}
	waitFor(t, "both have failed", func() bool { return b.figures("rx").Failures > 0 && b.figures("soc").Failures > 0 })
	names = append(names, b.find())
	queues := []*sinks.Queue{b.set.parts[0].queue, b.set.parts[1].queue}

	use(conf(down.URL, "wrong", "exceptions: [{rule: node-identity, owner: a, reason: b, expires: 9999-12-31}]\n"))
	if n := b.figures("rx"); n.Length != 3 || n.Failures == 0 {
		t.Errorf("after an exception: %+v", n)
	}
	if err := b.use("sinks: {jsonl: [{path: " + filepath.Join(t.TempDir(), "none", "f") + "}], http: [{name: rx, url: '" + up.srv.URL + "'}]}\n"); err == nil {
		t.Error("a file in no folder is opened")
	}
	if n := b.figures("rx"); n.Length != 3 || n.Sent != 0 {
		t.Errorf("after an error: %+v", n)
	}
	use(conf(up.srv.URL, "wrong", ""))
	up.has(t, names...)
	if n := b.figures("soc"); n.Length != 3 || n.Sent != 0 || n.Failures == 0 {
		t.Errorf("of the other: %+v", n)
	}
	use(conf(up.srv.URL, "right", ""))
	secret.has(t, names...)
	names = append(names, b.find())
	up.has(t, names...)
	secret.has(t, names...)
	for i, name := range []string{"rx", "soc"} {
		waitFor(t, "it is counted", func() bool { return b.figures(name).Sent == 4 })
		if n := b.figures(name); n.Dropped() != 0 || n.Failures == 0 || b.set.parts[i].queue != queues[i] {
			t.Errorf("%s: %+v", name, n)
		}
	}
	if err := b.set.close(t.Context()); err != nil {
		t.Error(err)
	}
}

// What waits for a sink that is removed is counted as dropped, for as long as the process runs, and when the sink is there again.
func TestRemovedSinkIsCounted(t *testing.T) {
	down := httptest.NewServer(nil)
	down.Close()
	b := &sinkBench{t: t, set: &sinkSet{}}
	sink := "sinks: {http: [{name: rx, url: '" + down.URL + "/x'}]}\n"
	if err := b.use(sink); err != nil {
		t.Fatal(err)
	}
	b.find()
	b.find()
	waitFor(t, "it has failed", func() bool { return b.figures("rx").Failures > 0 })
	b.set.parts[0].queue.Exchange(&refusing{}, sinks.QueueOptions{Timeout: time.Millisecond}, func(*sinks.Finding) bool { return false }) // so that it gives up at once
	if err := b.use(""); err != nil {
		t.Fatal(err)
	}
	b.set.closing.Wait()
	before := b.figures("rx")
	if before.Abandoned != 2 || before.Failures == 0 || before.Length != 0 || before.MaxLength != 0 {
		t.Errorf("%+v", before)
	}
	if err := b.use(sink); err != nil {
		t.Fatal(err)
	}
	if n := b.figures("rx"); n.Abandoned != 2 || n.Failures < before.Failures || n.MaxLength == 0 || len(b.set.stats()) != 1 {
		t.Errorf("when it is there again: %+v", n)
	}
	if err := b.set.close(t.Context()); err != nil {
		t.Error(err)
	}
}

// refusing takes nothing.
type refusing struct{ receiver }

func (*refusing) Name() string { return "rx" }

// A file of verdicts and a file of findings can change places; the lines of one sink stay in their order.
func TestChangedFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.jsonl")
	b := &sinkBench{t: t, set: &sinkSet{}}
	for _, c := range []string{"", ", format: ocsf", ", verdicts: true", ", format: cloudevents", ""} {
		if err := b.use("sinks: {queue: {maxBytes: 1MiB}, jsonl: [{path: " + path + c + "}]}\n"); err != nil {
			t.Fatal(err)
		}
		b.find()
		b.set.add(&pipeline.Stored{Lines: [][]byte{[]byte("{\"verdict\":1}\n")}})
		b.set.closing.Wait()
		waitFor(t, "it is written", func() bool { return b.figures("jsonl:"+path).Length == 0 })
	}
	if err := b.set.close(t.Context()); err != nil {
		t.Error(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(got)), "\n") {
		want := []string{`"rule":`, `"class_uid":`, `"verdict":1`, `"specversion":`, `"rule":`}
		if i >= len(want) || !strings.Contains(line, want[i]) {
			t.Errorf("line %d is %s", i, line)
		}
	}
}

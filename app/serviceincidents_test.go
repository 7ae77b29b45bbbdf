package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/incidents"
	"github.com/nodetrail/nodetrail/internal/config"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/sinks"
	"github.com/nodetrail/nodetrail/store"
	"github.com/nodetrail/nodetrail/tally"
)

// receiver is a sink in memory that outlives the processes that send to it.
type receiver struct {
	mu   sync.Mutex
	down bool
	got  []sinks.IncidentEvent
}

func (r *receiver) Name() string { return "receiver" }

func (r *receiver) Send(_ context.Context, all []sinks.Finding) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down {
		return errors.New("down")
	}
	for i := range all {
		r.got = append(r.got, *all[i].Incident)
	}
	return nil
}

func (r *receiver) fail(down bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = down
}

// take returns what came since, as credential, change and severity, sorted.
func (r *receiver) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := []string{}
	for i := range r.got {
		e := &r.got[i]
		out = append(out, fmt.Sprint(e.Incident.Credential, " ", e.Change, " ", e.Incident.Severity))
	}
	slices.Sort(out)
	return out
}

// ids empties the receiver and returns the IDs of the events, in their order.
func (r *receiver) ids() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := []string{}
	for i := range r.got {
		out = append(out, r.got[i].ID)
	}
	r.got = nil
	return out
}

// looker is a process that watches the incidents of a store, with a clock of its own.
type looker struct {
	t     *testing.T
	now   time.Time
	path  string
	conf  string
	to    *receiver
	how   sinks.Format
	store *store.Store
	watch *incidentWatch
	queue *sinks.Queue
	n     int
}

func (w *looker) start() {
	w.t.Helper()
	ctx := context.Background()
	var err error
	if w.store, err = store.OpenSQLite(ctx, w.path, store.Options{}); err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.store.Acquire(ctx, "lane", 0, 0); err != nil {
		w.t.Fatal(err)
	}
	w.watch = &incidentWatch{store: w.store, log: zerolog.Nop(), clock: func() time.Time { return w.now }, config: func() *config.Config {
		c, err := config.Parse("c", []byte("cluster: prod\n"+w.conf), func(string) (string, bool) { return "", false })
		if err != nil {
			w.t.Error(err)
		}
		return c
	}}
	w.queue = sinks.NewQueue(&announcingSender{w.to, w.watch.delivered}, sinks.QueueOptions{MaxBatch: 1, Backoff: time.Millisecond, MaxBackoff: time.Millisecond})
	w.watch.sinks = func() []incidentSink { return []incidentSink{{w.queue, w.how}} }
}

// kill ends the process without time to send what waits.
func (w *looker) kill() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = w.queue.Close(ctx) // what waits is lost
	if err := w.store.Close(); err != nil {
		w.t.Error(err)
	}
}

func (w *looker) commit(entries ...tally.Entry) {
	w.t.Helper()
	if err := w.store.Commit(context.Background(), &tally.Commit{At: w.now, Lanes: []tally.LaneCommit{{Lane: "lane", Entries: entries}}}); err != nil {
		w.t.Fatal(err)
	}
}

// read is a request for a secret at the clock's time.
func (w *looker) read(node string, succeeded bool) {
	w.t.Helper()
	w.n++
	w.commit(readAt(node, fmt.Sprint("secret-", w.n), w.now, succeeded))
}

func readAt(node, name string, at time.Time, succeeded bool) tally.Entry {
	f := tally.Finding{
		Key:    tally.Key{Rule: "out-of-scope-secret-read", Node: node, Verb: "get", Resource: "secrets", Namespace: "shop", Name: name, Product: "curl"},
		Reason: rules.ReadRefused, Severity: rules.Medium, AuditID: name,
	}
	if succeeded {
		f.Reason, f.Severity, f.Allowed = rules.ReadSucceeded, rules.Critical, true
	}
	return tally.Entry{ID: tally.IDOf(node + name), Time: at, IsNode: true, Node: node, Findings: []tally.Finding{f}}
}

// look lets time pass, looks twice, waits until the receiver has what it can have, and compares what has come by then with what is wanted.
func (w *looker) look(after time.Duration, want ...string) {
	w.t.Helper()
	w.now = w.now.Add(after)
	for range 2 { // the second adds nothing
		if _, err := w.watch.look(context.Background()); err != nil {
			w.t.Fatal(err)
		}
		w.to.mu.Lock()
		down := w.to.down
		w.to.mu.Unlock()
		for !down && w.queue.Stats().Length > 0 {
			time.Sleep(time.Millisecond)
		}
	}
	if got := w.to.take(); !slices.Equal(got, append([]string{}, want...)) {
		w.t.Fatalf("the receiver has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func newLooker(t *testing.T, how sinks.Format) *looker {
	w := &looker{t: t, now: time.Now().UTC().Truncate(time.Hour).Add(-12 * time.Hour), path: filepath.Join(t.TempDir(), "nodetrail.db"), to: &receiver{}, how: how}
	w.start()
	t.Cleanup(func() { w.kill() })
	return w
}

// Two thieves at once, and a kill in the midst: each incident opens once, gets worse once, and closes once.
func TestIncidentsAreAnnounced(t *testing.T) {
	w := newLooker(t, sinks.Slack)
	w.look(0)
	w.read("worker-3", false)
	w.read("worker-5", false)
	w.look(time.Second, "worker-3 opened medium", "worker-5 opened medium")
	opened := w.to.ids()
	if opened[0] == opened[1] || !strings.HasSuffix(opened[0], "-opened") {
		t.Fatalf("%v", opened)
	}
	w.read("worker-3", true)
	w.look(time.Second) // within the minute
	w.kill()
	w.start()
	w.look(30 * time.Second)
	w.look(time.Minute, "worker-3 updated critical")
	w.read("worker-3", true)
	w.look(time.Minute, "worker-3 updated critical") // nothing new for people
	w.to.ids()
	w.read("worker-5", true)
	w.kill()
	w.start()
	w.look(time.Minute, "worker-5 updated critical")
	w.to.ids()
	w.now = w.now.Add(30 * time.Minute)
	w.read("worker-5", false)
	w.look(time.Minute)
	w.now = w.now.Add(40 * time.Minute)
	w.commit(tally.Entry{ID: tally.IDOf("other"), Time: w.now, IsNode: true, Node: "other"})
	w.look(0, "worker-3 closed critical")
	w.kill()
	w.start()
	w.look(time.Hour, "worker-3 closed critical") // the log has not passed on
	w.commit(tally.Entry{ID: tally.IDOf("another"), Time: w.now, IsNode: true, Node: "other"})
	w.look(0, "worker-3 closed critical", "worker-5 closed critical")
	w.to.ids()
	w.kill()
	w.start()
	w.look(time.Hour)
	// The next theft is another incident.
	w.read("worker-3", false)
	w.look(time.Second, "worker-3 opened medium")
	if id := w.to.ids()[0]; slices.Contains(opened, id) {
		t.Errorf("%s again", id)
	}
}

// What the receiver did not have when the process was killed it gets from the next one: the same event, as it was. Then comes what has changed since.
func TestIncidentsAreAnnouncedAtLeastOnce(t *testing.T) {
	w := newLooker(t, sinks.Slack)
	w.look(0)
	w.to.fail(true)
	w.read("worker-3", false)
	w.look(0)
	id := incidents.ID("prod", "worker-3", w.now) + "-opened"
	w.kill()
	w.to.fail(false)
	w.start()
	w.read("worker-3", true)
	w.look(10 * time.Second) // another analyzer may be sending it
	w.look(time.Minute, "worker-3 opened medium")
	if got := w.to.ids(); got[0] != id {
		t.Errorf("%v, want %s", got, id)
	}
	w.look(time.Minute, "worker-3 updated critical")
	// It had the event, but the process was killed before it could store so: the same ID comes again.
	update := w.to.ids()[0]
	w.look(0)
	lost := announcement{Sink: "receiver", At: w.now, first: w.now, last: w.now}
	kept, err := w.watch.kept(context.Background())
	if err != nil || len(kept.of["receiver"]) != 1 {
		t.Fatal(kept, err)
	}
	lost.Event = kept.of["receiver"][0].Event
	a, err := lost.alert()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.store.PutAlerts(context.Background(), []store.Alert{a}, nil); err != nil {
		t.Fatal(err)
	}
	w.look(time.Minute, "worker-3 updated critical")
	if got := w.to.ids(); got[0] != update {
		t.Errorf("%v, want %s", got, update)
	}
}

// A second analyzer of the same store tells nothing again.
func TestTwoAnalyzersTellOnce(t *testing.T) {
	w := newLooker(t, sinks.CloudEvents)
	w.look(0)
	w.read("worker-3", true)
	w.look(time.Second, "worker-3 opened critical")
	second := &incidentWatch{store: w.store, log: zerolog.Nop(), clock: w.watch.clock, config: w.watch.config}
	to := &receiver{}
	q := sinks.NewQueue(&announcingSender{to, second.delivered}, sinks.QueueOptions{})
	second.sinks = func() []incidentSink { return []incidentSink{{q, w.how}} }
	w.now = w.now.Add(2 * time.Minute)
	if _, err := second.look(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := q.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := to.take(); len(got) != 0 {
		t.Errorf("sent again: %v", got)
	}
}

// Requests before the first that come late change the incident's ID, and requests between two make them one: the one is not opened again.
func TestIncidentsThatBeginEarlier(t *testing.T) {
	w := newLooker(t, sinks.CloudEvents)
	w.look(0)
	w.read("worker-3", false)
	w.look(0, "worker-3 opened medium")
	opened := w.to.ids()[0]
	first := w.now
	w.commit(readAt("worker-3", "earlier", first.Add(-30*time.Minute), true))
	w.look(2*time.Minute, "worker-3 updated critical")
	id := strings.TrimSuffix(opened, "-opened")
	if got := w.to.ids()[0]; !strings.HasPrefix(got, id+"-updated-") {
		t.Errorf("%s is not of %s", got, id)
	}
	w.now = first.Add(90 * time.Minute)
	w.read("worker-3", true)
	w.look(0, "worker-3 closed critical", "worker-3 opened critical")
	w.to.ids()
	w.commit(readAt("worker-3", "between", first.Add(45*time.Minute), true))
	w.look(2*time.Minute, "worker-3 closed critical", "worker-3 updated critical") // the first is open again, the second is part of it
	if got := w.to.ids(); !strings.HasPrefix(got[0]+got[1], id+"-updated-") && !strings.HasPrefix(got[1]+got[0], id+"-updated-") {
		t.Errorf("%v: nothing of %s", got, id)
	}
}

// CloudEvents have each address, binding and secret that comes in addition; people hear only of what is worse.
func TestIncidentsGrow(t *testing.T) {
	for _, how := range []sinks.Format{sinks.CloudEvents, sinks.Slack} {
		w := newLooker(t, how)
		w.look(0)
		w.read("worker-3", true)
		w.look(0, "worker-3 opened critical")
		w.to.ids()
		w.read("worker-3", true)
		if how == sinks.Slack {
			w.look(time.Minute)
			continue
		}
		w.look(time.Minute, "worker-3 updated critical")
		w.look(time.Minute, "worker-3 updated critical")
	}
}

// A sink that is new hears of what is open, not of what was over before, nor of a log of last month. What was over while nobody looker it hears.
func TestIncidentsThatAreNoNews(t *testing.T) {
	w := newLooker(t, sinks.Slack)
	w.read("over", true)
	w.commit(readAt("ancient", "a", w.now.Add(-8*24*time.Hour), true))
	w.now = w.now.Add(2 * time.Hour)
	w.read("open", true)
	w.look(0, "open opened critical")
	w.to.ids()
	w.kill()
	w.now = w.now.Add(time.Minute)
	w.start()
	w.read("unseen", true)
	w.kill()
	w.start()
	w.now = w.now.Add(2 * time.Hour)
	w.commit(tally.Entry{ID: tally.IDOf("other"), Time: w.now, IsNode: true, Node: "other"})
	w.look(0, "open closed critical", "unseen opened critical")
	w.look(time.Minute, "open closed critical", "unseen closed critical", "unseen opened critical")
	w.look(time.Hour, "open closed critical", "unseen closed critical", "unseen opened critical")
}

// An exception that covers all of an incident closes it, and opens none.
func TestExceptedIncidentsAreClosed(t *testing.T) {
	w := newLooker(t, sinks.Slack)
	w.look(0)
	w.read("worker-3", true)
	w.look(0, "worker-3 opened critical")
	w.read("worker-5", true)
	w.conf = "exceptions: [{rule: out-of-scope-secret-read, match: 'true', owner: a, reason: b, expires: 9999-12-31}]\n"
	w.look(time.Minute, "worker-3 closed critical", "worker-3 opened critical")
	w.to.mu.Lock()
	state := w.to.got[1].Incident.State
	w.to.mu.Unlock()
	if state != incidents.Closed {
		t.Errorf("closed as %s", state)
	}
	// It does not cover them any more.
	w.conf = ""
	w.look(time.Minute, "worker-3 closed critical", "worker-3 opened critical", "worker-3 updated critical", "worker-5 opened critical")
}

// A theft is heard on a node on which an exception covers a program that reads secrets all the time, whatever else was heard of the node before; the program is not.
func TestTheftBesideExceptedProgram(t *testing.T) {
	const except = `exceptions: [{rule: out-of-scope-secret-read, match: 'finding.userAgent == "agent"', owner: a, reason: b, expires: 9999-12-31}]`
	type step struct {
		what  string
		heard string
	}
	for name, steps := range map[string][]step{
		"no theft":               {{"", ""}, {"", ""}, {"", ""}},
		"a theft":                {{"", ""}, {"", ""}, {"theft", "opened critical"}, {"", ""}, {"", "closed critical"}},
		"hours after a refusal":  {{"refusal", "opened medium"}, {"", ""}, {"", "closed medium"}, {"", ""}, {"theft", "opened critical"}},
		"just after a refusal":   {{"refusal", "opened medium"}, {"theft", "updated critical"}, {"theft", ""}},
		"of what wrote before":   {{"write", "opened critical"}, {"write", ""}, {"theft", "updated critical"}, {"theft", ""}},
		"an exception since":     {{"refusal no exception", "opened critical"}, {"refusal", "updated medium"}, {"refusal", ""}, {"theft", "updated critical"}},
		"an exception from then": {{"no exception", "opened critical"}, {"", "closed critical"}, {"", ""}, {"theft", "opened critical"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newLooker(t, sinks.Slack)
			w.look(0)
			for i, s := range steps {
				w.conf = except + "\n"
				if strings.Contains(s.what, "no exception") {
					w.conf = ""
				}
				act := strings.Split(s.what, " ")[0]
				if act == "refusal" || act == "theft" {
					w.read("worker-3", act == "theft")
				}
				e := readAt("worker-3", fmt.Sprint(act, i), w.now, true)
				if k := &e.Findings[0]; act == "write" {
					k.Key.Rule, k.Key.Verb, k.Key.Resource, k.Reason = rules.ForeignWrite, "patch", "nodes", rules.WriteSucceeded
					w.commit(e)
				}
				e = readAt("worker-3", "tls", w.now.Add(time.Second), true)
				e.Findings[0].Key.Product, e.ID = "agent", tally.IDOf(fmt.Sprint(i))
				w.commit(e)
				var want []string
				if s.heard != "" {
					want = []string{"worker-3 " + s.heard}
				}
				w.look(2*time.Second, want...)
				w.to.ids()
				w.now = w.now.Add(31 * time.Minute)
			}
		})
	}
}

// What is stored of incidents that the store has forgotten is forgotten too, after they were closed.
func TestForgottenIncidents(t *testing.T) {
	at := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	in := sinks.Incident{ID: "1", Credential: "n", State: incidents.Open, Severity: "high", First: at, Last: at}
	decides := announcer{sink: "s", format: sinks.Slack, since: at, now: at, holds: func(string) bool { return false }}
	due, _ := decides.tell(nil, []sinks.Incident{in})
	if len(due) != 1 || !due[0].send {
		t.Fatalf("%+v", due)
	}
	due[0].Delivered, due[0].send = true, false
	decides.now = at.Add(2 * time.Minute)
	closed, over := decides.tell(due, nil)
	if len(closed) != 1 || closed[0].Event.Change != sinks.IncidentClosed || closed[0].Event.Incident.State != incidents.Quiet || len(over) != 0 {
		t.Fatalf("%+v, over: %v", closed, over)
	}
	decides.now = at.Add(4 * time.Minute)
	if again, over := decides.tell(closed, nil); len(again) != 1 || again[0].Event.ID != closed[0].Event.ID || len(over) != 0 {
		t.Fatalf("before it was delivered: %+v, over: %v", again, over)
	}
	closed[0].Delivered, closed[0].send = true, false
	key := closed[0].key()
	if again, over := decides.tell(closed, nil); len(again) != 0 || !slices.Equal(over, []string{key}) {
		t.Errorf("%+v, over: %v", again, over)
	}
}

// What the configuration says reaches the receivers: a webhook of Slack gets incidents alone, CloudEvents have both, JSON has findings alone.
func TestIncidentSinks(t *testing.T) {
	w := newLooker(t, sinks.Slack)
	var mu sync.Mutex
	got := map[string][]string{}
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		b, _ := io.ReadAll(req.Body)
		mu.Lock()
		defer mu.Unlock()
		got[req.URL.Path] = append(got[req.URL.Path], string(b))
	}))
	defer srv.Close()
	w.conf = fmt.Sprintf("sinks: {http: [{name: a, url: '%[1]s/slack', format: slack, externalURL: 'https://nodetrail.example'}, {name: b, url: '%[1]s/events', format: cloudevents}, {name: c, url: '%[1]s/json'}]}\n", srv.URL)
	set := &sinkSet{announced: w.watch.delivered}
	if err := set.replace(w.watch.config(), zerolog.Nop()); err != nil {
		t.Fatal(err)
	}
	w.watch.sinks = set.ofIncidents
	e := readAt("worker-3", "a", w.now, true)
	w.commit(e)
	set.add(&pipeline.Stored{Entries: []tally.Entry{e}})
	if _, err := w.watch.look(context.Background()); err != nil {
		t.Fatal(err)
	}
	if n := len(set.stats()); n != 3 {
		t.Errorf("%d sinks", n)
	}
	if err := set.close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if len(set.ofIncidents()) != 0 {
		t.Error("sinks that are closed have incidents")
	}
	slack, events, plain := strings.Join(got["/slack"], "\n"), strings.Join(got["/events"], "\n"), strings.Join(got["/json"], "\n")
	if len(got["/slack"]) != 1 || !strings.HasPrefix(slack, `{"text":"*Incident opened, severity critical*`) ||
		!strings.Contains(slack, "https://nodetrail.example/incidents?credential=worker-3|") {
		t.Errorf("slack: %s", slack)
	}
	for _, kind := range []string{sinks.EventType, sinks.IncidentOpened.EventType()} {
		if strings.Count(events, `"type":"`+kind+`"`) != 1 {
			t.Errorf("cloudevents: %s is not there once: %s", kind, events)
		}
	}
	if !strings.Contains(plain, `"rule":"out-of-scope-secret-read"`) || strings.Contains(plain, "-opened") {
		t.Errorf("json: %s", plain)
	}
	kept, err := w.watch.kept(context.Background())
	if err != nil || !kept.of["a"][0].Delivered || !kept.of["b"][0].Delivered || len(kept.of) != 2 {
		t.Errorf("%v %+v", err, kept)
	}
}

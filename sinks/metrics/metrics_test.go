package metrics

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/internal/test/golden"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/sinks"
	"github.com/nodetrail/nodetrail/tally"
)

func full() Input {
	return Input{
		Sources: func() []Source {
			return []Source{
				{Name: "file:audit", Up: true, Lanes: []LaneLag{{"file:audit", 1500 * time.Millisecond}}},
				{Name: "kafka:audit", Lanes: []LaneLag{{"kafka:audit/0", 0}, {"kafka:audit/1", time.Minute}}},
			}
		},
		Engine: func() Engine {
			return Engine{Waiting: 3, Held: 4096, MaxHeld: 8192, Early: 2, CommitFailures: 1, Late: 4}
		},
		Webhook: func() *Webhook {
			return &Webhook{Requests: map[string]int64{"stored": 7, "busy": 0}, Handshakes: 3, TooMany: 1, Credentials: Credentials{time.Unix(1_800_000_000, 0), 2}}
		},
		Pages: func() *Pages {
			return &Pages{Refused: map[string]int64{"wrong_token": 6}, Credentials: Credentials{ReloadFailures: 1}} // without TLS nothing expires
		},
		DeadLetters: func() int64 { return 5 },
		State: func() State {
			return State{Watched: true, Lag: 2 * time.Second, Kinds: []Kind{{"Pod", 10, true}, {"Node", 2, false}}}
		},
		StoreBytes: func() int64 { return 1 << 20 },
		Sinks: func() []Sink {
			return []Sink{{"soc", sinks.QueueStats{Length: 1, MaxLength: 10, Bytes: 600, Sent: 9, Overflowed: 1, Refused: 2, Abandoned: 3, Failures: 4, LastSuccess: time.Unix(100, 5e8)}}}
		},
		Alerts: func() []Alerts { return []Alerts{{"pager", 5, 4, 3, 2, 1}} },
		Apiservers: func() []Apiserver {
			return []Apiserver{{Name: "10.0.0.10:6443/metrics", Up: true, LastSuccess: time.Unix(1_700_000_000, 0), Failures: 2, Lost: 7}}
		},
		Checks: func() *Checks {
			results := []checks.Result{{Check: "agreement", State: checks.Failed}, {Check: "rules-on", State: checks.Passed}, {Check: "identities-conform", State: checks.Failed}}
			return &Checks{
				Ready: checks.Conclude(checks.Ready, results, nil), Confined: checks.Conclude(checks.Confined, results, nil), Made: time.Unix(300, 0),
				Lost: func(check string) bool { return check == "agreement" || check == "identities-conform" },
			}
		},
		Config: func() Config {
			return Config{Applied: 1, Refused: 2, NeedRestart: 3, LastSuccess: time.Unix(200, 0), OK: true}
		},
	}
}

func entries() []tally.Entry {
	at := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	binding := rbac.BindingRef{Kind: "ClusterRoleBinding", Name: "legacy:system:node"}
	return []tally.Entry{
		{
			Time: at, IsNode: true, Node: "worker-1", Verdict: nodeauthz.Allow, Observed: nodeauthz.Allow,
			Admission: &tally.AdmissionKey{Outcome: rules.OutcomeUnknown, Missing: "body", Verb: "patch", Resource: "nodes"},
		},
		{Time: at, IsNode: true, Node: "worker-1", Verdict: nodeauthz.Deny, Observed: nodeauthz.Allow, Disagreement: &tally.Disagreement{AuditID: "differs"}},
		{Time: at, IsNode: true, Node: "worker-2", Verdict: nodeauthz.Deny, Observed: nodeauthz.Deny, Race: true, Findings: []tally.Finding{
			{Key: tally.Key{Rule: rules.ExcessAccess, Binding: binding, Product: "calico-node"}, Reason: rules.BindingNeeded, Severity: rules.Critical, Allowed: true, AuditID: "found"},
			{Key: tally.Key{Rule: "a-rule-of-tomorrow"}, Severity: rules.Low, AuditID: strings.Repeat("x", 200)},
		}},
		{
			Time: at, IsNode: true, Node: "worker-2", Verdict: nodeauthz.Deny, Observed: nodeauthz.Allow, Race: true,
			Distance: 120 * time.Millisecond, HasDistance: true,
		},
		{Time: at, IsNode: true, Node: "worker-2", Verdict: nodeauthz.Unknown, Admission: &tally.AdmissionKey{Outcome: rules.OutcomeBypassed}},
		{Time: at, IsNode: true, Node: "worker-2", Verdict: nodeauthz.Deny, Duplicate: true},
		{Time: at, Node: "", Findings: []tally.Finding{{Key: tally.Key{Rule: rules.ExcessAccess, Product: "x"}, Reason: rules.BindingUnknown, Severity: rules.High, AuditID: "no-node"}}},
	}
}

func stored(m *Metrics) {
	at := time.Date(2026, 11, 21, 6, 0, 1, 0, time.UTC)
	m.Stored(&Commit{
		Entries: entries(), Received: []time.Time{at.Add(-100 * time.Millisecond), at.Add(-time.Second), at.Add(-time.Minute), at.Add(time.Second), at, {}},
		Lanes: []Lane{
			{Lane: "kafka:audit/3", Events: tally.Events{Read: 10, Skipped: 4, Malformed: 2, Duplicates: 1}, Envelopes: map[string]int64{"none": 8, "fluent-bit": 2}, Latest: at.Add(-time.Second)},
			{Lane: "kafka:audit/4", Events: tally.Events{Read: 5}},
			{Lane: "file:/var/log/a/audit.log", Events: tally.Events{Read: 1}},
		},
		At: at, Took: 3 * time.Millisecond,
	})
	m.Gap("rotated away")
}

// scraped is what a scrape answers, without what is of the Go runtime.
func scraped(t *testing.T, m *Metrics, accept string) string {
	t.Helper()
	srv := httptest.NewServer(m.Handler())
	defer srv.Close()
	req, err := http.NewRequest(http.MethodGet, srv.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%d, %v: %s", resp.StatusCode, err, body)
	}
	return string(body)
}

// TestScrape: testdata/scrape.txt is the whole answer.
func TestScrape(t *testing.T) {
	m := New(Options{Version: "v1", Revision: "abc", GoVersion: "go", Now: func() time.Time { return time.Unix(1_795_240_802, 0) }})
	m.Watch(full())
	stored(m)
	var got []string
	for line := range strings.Lines(scraped(t, m, "")) {
		if strings.HasPrefix(line, "nodetrail_") && !strings.HasSuffix(line, " 0\n") {
			got = append(got, line)
		}
	}
	slices.Sort(got)
	golden.Check(t, "testdata/scrape.txt", strings.Join(got, ""))
}

// TestFindingsLast: what is found now is news however old the request is, unless it is of before the watch. There are no series of what was not found.
func TestFindingsLast(t *testing.T) {
	since := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	now := since
	m := New(Options{Since: since, Now: func() time.Time { return now }})
	find := func(at time.Time, duplicate bool) {
		m.Stored(&Commit{Entries: []tally.Entry{{Time: at, Duplicate: duplicate, Findings: []tally.Finding{
			{Key: tally.Key{Rule: rules.ExcessAccess}, Reason: rules.BindingNeeded, Severity: rules.Critical, Allowed: true},
		}}}})
	}
	last := func(want time.Time) {
		t.Helper()
		n, sum := series(t, m, findingsLast)
		if want.IsZero() != (n == 0) || n > 1 || !want.IsZero() && sum != float64(want.Unix()) {
			t.Errorf("%d series of %f, want %d", n, sum, want.Unix())
		}
	}
	find(since.Add(-time.Hour), false) // an old log that is read first
	last(time.Time{})
	find(since.Add(-time.Minute), false)
	last(now)
	then := now
	now = since.Add(100 * time.Hour)
	find(since.Add(-time.Hour), false)
	find(since.Add(time.Hour), true)
	last(then)
	find(since, false) // nobody read the log at that time
	last(now)
}

// TestSourceLast: the newest of a source's lanes counts, and no clock that is ahead hides that nothing comes.
func TestSourceLast(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	m := New(Options{Now: func() time.Time { return now }})
	come := func(lane string, at time.Time, want int64) {
		t.Helper()
		m.Stored(&Commit{Lanes: []Lane{{Lane: lane, Events: tally.Events{Read: 1}, Latest: at}}})
		if n, sum := series(t, m, sourceLast); n != 1 || sum != float64(want) {
			t.Errorf("%d series of %f, want %d", n, sum, want)
		}
	}
	come("kafka:audit/0", now.Add(-time.Hour), now.Unix()-3600)
	come("kafka:audit/1", now.Add(-2*time.Hour), now.Unix()-3600)
	come("kafka:audit/1", time.Time{}, now.Unix()-3600)
	come("kafka:audit/1", now.AddDate(73, 0, 0), now.Unix())
}

// Every series has the cluster's label, whatever the name holds, and is the same otherwise.
func TestClusterLabel(t *testing.T) {
	series := func(cluster string) string {
		m := New(Options{Version: "v1", Cluster: cluster})
		m.Watch(full())
		stored(m)
		families, err := m.Gatherer().Gather()
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, f := range families {
			for _, one := range f.GetMetric() {
				var labels []string
				of := ""
				for _, l := range one.GetLabel() {
					if l.GetName() == "cluster" {
						of = l.GetValue()
						continue
					}
					labels = append(labels, l.String())
				}
				if of != cluster {
					t.Errorf("%s %v is of %q, want %q", f.GetName(), labels, of, cluster)
				}
				if strings.HasPrefix(f.GetName(), "nodetrail_") {
					out = append(out, fmt.Sprintln(f.GetName(), labels))
				}
			}
		}
		return strings.Join(out, "")
	}
	want := series("")
	for _, name := range []string{"prod", "a\"b\\c\n{}", "<script>", strings.Repeat("ü", 126), "\u202e"} {
		if diff := cmp.Diff(want, series(name)); diff != "" {
			t.Errorf("%q (-without +with):\n%s", name, diff)
		}
	}
}

func TestExemplars(t *testing.T) {
	m := New(Options{})
	stored(m)
	text := scraped(t, m, "application/openmetrics-text; version=1.0.0")
	for _, want := range []string{
		`(?m)^nodetrail_findings_total\{allowed="true",reason="binding-needed",rule="rbac-excess-access",severity="critical"\} 1\.0 # \{auditID="found"\} 1\.0`,
		`(?m)^nodetrail_agreement_total\{outcome="disagree",race="false"\} 1\.0 # \{auditID="differs"\} 1\.0`,
		`(?m)^nodetrail_findings_total\{allowed="false",reason="other",rule="other",severity="low"\} 1\.0$`, // its auditID is too long for one
		`# EOF\n$`,
	} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("no match for %s", want)
		}
	}
	if plain := scraped(t, m, ""); strings.Contains(plain, "auditID") {
		t.Error("exemplars in the format that has none")
	}
	for _, id := range []string{"", strings.Repeat("x", 101), "a\nb", "\xff", "é"} {
		if exemplar(id) != nil {
			t.Errorf("%q is an exemplar", id)
		}
	}
}

// Every metric is described, linted clean, and there when everything is in use.
func TestAll(t *testing.T) {
	m := New(Options{})
	m.Watch(full())
	stored(m)
	families, err := m.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	got := map[string]string{}
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "nodetrail_") {
			var labels []string
			for _, l := range f.GetMetric()[0].GetLabel() {
				labels = append(labels, l.GetName())
			}
			got[f.GetName()] = fmt.Sprintln(strings.ToLower(f.GetType().String()), labels, f.GetHelp())
		}
	}
	want := map[string]string{}
	for _, d := range All() {
		labels := slices.Clone(d.Labels)
		slices.Sort(labels)
		want[d.Name] = fmt.Sprintln(d.Type, labels, d.Help)
		if d.Bound == "" || !strings.HasSuffix(d.Help, ".") || d.Exemplars && d.Type != Counter {
			t.Errorf("%s is described badly", d.Name)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-described +gathered):\n%s", diff)
	}
}

// Each check has a series for each of its states, of which one is 1, and says of each of its questions whether it is lost; each question has one answer.
func TestChecks(t *testing.T) {
	m := New(Options{})
	m.Watch(full())
	text := scraped(t, m, "")
	one := func(what string, series ...string) {
		t.Helper()
		n := 0
		for _, s := range series {
			if strings.Contains(text, "\n"+s+" 1\n") {
				n++
			} else if !strings.Contains(text, "\n"+s+" 0\n") {
				t.Errorf("no %s", s)
			}
		}
		if n != 1 {
			t.Errorf("%s: %d are 1", what, n)
		}
	}
	for _, c := range checks.All() {
		var states []string
		for _, s := range checks.States() {
			states = append(states, fmt.Sprintf("nodetrail_check{check=%q,state=%q}", c.Name, s))
		}
		one(c.Name, states...)
		for _, q := range []checks.Question{checks.Ready, checks.Confined} {
			lost := fmt.Sprintf("nodetrail_check_lost{check=%q,question=%q} ", c.Name, q)
			if got, want := strings.Contains(text, lost), c.Questions&q != 0; got != want {
				t.Errorf("%s: %t, want %t", lost, got, want)
			}
		}
	}
	for _, q := range []checks.Question{checks.Ready, checks.Confined} {
		var answers []string
		for _, a := range q.Answers() {
			answers = append(answers, fmt.Sprintf("nodetrail_answer{answer=%q,question=%q}", a, q))
		}
		one(q.String(), answers...)
	}
	early := New(Options{})
	in := full()
	in.Checks = func() *Checks { return nil }
	early.Watch(in)
	if text := scraped(t, early, ""); strings.Contains(text, "nodetrail_check") || strings.Contains(text, "nodetrail_answer") {
		t.Error("checks that were not made have metrics")
	}
}

func TestPageIsFresh(t *testing.T) {
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Page(), string(page)); diff != "" {
		t.Errorf("docs/metrics.md is stale: run go generate ./sinks/metrics (-want +got):\n%s", diff)
	}
}

func series(t *testing.T, m *Metrics, name string) (n int, sum float64) {
	t.Helper()
	families, err := m.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			for _, s := range f.GetMetric() {
				n++
				sum += s.GetCounter().GetValue() + s.GetGauge().GetValue()
			}
		}
	}
	return n, sum
}

// A million names, user agents, bindings, lanes and envelopes make no more series than the page says, and nothing goes uncounted.
func TestBounds(t *testing.T) {
	const many = 1000
	n := effort.Of(1_000_000, 20_000)
	m := New(Options{})
	hostile := []string{"node-", "\xff", "UPPER", "a b", "-", strings.Repeat("x", 300), "{}\"\n", "n."}
	c := &Commit{Entries: make([]tally.Entry, many), Lanes: make([]Lane, 1)}
	for i := range c.Entries {
		c.Entries[i] = tally.Entry{IsNode: true, Verdict: nodeauthz.Deny, Findings: []tally.Finding{{Key: tally.Key{Rule: rules.ExcessAccess}, Severity: rules.High}}}
	}
	for i := range n {
		name := hostile[i%len(hostile)] + strconv.Itoa(i)
		e := &c.Entries[i%many]
		k := &e.Findings[0].Key
		e.Node, k.Product, k.Binding.Name = name, name, name
		if i%many == 0 {
			e.Findings[0].AuditID = name
			c.Lanes[0] = Lane{Lane: "file:" + name, Events: tally.Events{Read: many}, Envelopes: map[string]int64{name: many}}
			m.Gap(name)
		}
		if i%many == many-1 {
			m.Stored(c)
		}
	}
	reasons := 0
	for _, r := range rules.All() {
		reasons += len(r.Reasons)
	}
	for name, most := range map[string]int{
		nodeRequests: 3*6000 + 3, excessRequests: 200 + 200 + 1, events: 4*64 + 4, envelopes: 33, coverageGaps: 17, findings: 8 * (reasons + len(rules.All())), requests: 6, nodeExcess: 6000 + 1,
	} {
		got, sum := series(t, m, name)
		if got > most {
			t.Errorf("%s has %d series, at most %d are promised", name, got, most)
		}
		want := float64(n)
		if name == coverageGaps {
			want = float64(n / many)
		}
		if sum != want {
			t.Errorf("%s counts %v, want %v", name, sum, want)
		}
	}
	_ = scraped(t, m, "") // is valid UTF-8, or it would fail
}

// The series of nodes that are gone make room for new ones.
func TestNodesThatAreGone(t *testing.T) {
	now := time.Unix(0, 0)
	m := New(Options{MaxNodes: 3, Now: func() time.Time { return now }})
	see := func(names ...string) {
		for _, n := range names {
			m.Stored(&Commit{Entries: []tally.Entry{{IsNode: true, Node: n}}})
		}
	}
	see("a", "b", Other)
	now = now.Add(5 * time.Hour)
	see("b")
	now = now.Add(5 * time.Hour)
	see("c", "d")
	text := scraped(t, m, "")
	for name, want := range map[string]bool{"a": false, "b": true, "c": true, "d": false, Other: true} {
		if got := strings.Contains(text, `{node="`+name+`"`); got != want {
			t.Errorf("series of node %s: %t, want %t", name, got, want)
		}
	}
}

// What other parts tell cannot break a scrape: the same twice, no UTF-8, too much of it.
func TestScrapeSurvivesInput(t *testing.T) {
	m := New(Options{})
	in := full()
	in.Sources = func() []Source {
		all := []Source{{Name: "\xff"}, {Name: "\xff"}, {Name: "a"}, {Name: "a"}}
		for i := range 1000 {
			all = append(all, Source{Name: fmt.Sprint(i), Lanes: []LaneLag{{fmt.Sprint(i), time.Second}, {fmt.Sprint(i), 0}}})
		}
		return all
	}
	in.Sinks = func() []Sink { return []Sink{{Name: "a"}, {Name: "a"}} }
	in.Alerts = func() []Alerts { return []Alerts{{Name: "a"}, {Name: "a"}} }
	in.Webhook = func() *Webhook {
		all := map[string]int64{Other: 1}
		for i := range 100 {
			all[fmt.Sprint(i)] = 1
		}
		return &Webhook{Requests: all}
	}
	m.Watch(in)
	text := scraped(t, m, "")
	for name, most := range map[string]int{"source_up": 65, "source_lag_seconds": 257, "webhook_requests_total": 33} {
		if n := strings.Count(text, "\nnodetrail_"+name+"{"); n == 0 || n > most {
			t.Errorf("%s has %d series, at most %d are promised", name, n, most)
		}
	}
}

func BenchmarkStored(b *testing.B) {
	m := New(Options{})
	c := &Commit{At: time.Now()}
	for i := range 2000 {
		e := tally.Entry{IsNode: true, Node: fmt.Sprint("worker-", i%330), Verdict: nodeauthz.Deny, Observed: nodeauthz.Deny}
		if i%10 == 0 {
			e.Findings = []tally.Finding{{Key: tally.Key{Rule: rules.ExcessAccess, Product: "calico-node"}, Severity: rules.High, AuditID: "f2c5a5cb-2f3c-4df4-8e7f-1d2c3b4a5968"}}
		}
		c.Entries = append(c.Entries, e)
		c.Received = append(c.Received, c.At)
	}
	b.ReportAllocs()
	for b.Loop() {
		m.Stored(c)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/2000, "ns/request")
}

// Whatever the names are, they make labels and exemplars that Prometheus takes.
func FuzzNames(f *testing.F) {
	for _, s := range []string{"worker-1", "", "\xff", "a\nb\"\\", "\u2028", strings.Repeat("é", 200), "kafka:/", "kafka:a/b/3"} {
		f.Add(s)
	}
	m := New(Options{MaxNodes: 10, MaxBindings: 10})
	f.Fuzz(func(t *testing.T, s string) {
		k := tally.Key{Rule: rules.ExcessAccess, Product: s, Binding: rbac.BindingRef{Kind: s, Namespace: s, Name: s}}
		m.Stored(&Commit{
			Entries: []tally.Entry{{IsNode: true, Node: s, Verdict: nodeauthz.Deny, Observed: nodeauthz.Allow, Disagreement: &tally.Disagreement{AuditID: s},
				Findings: []tally.Finding{{Key: k, Severity: rules.High, AuditID: s}}}},
			Lanes: []Lane{{Lane: s, Events: tally.Events{Read: 1}, Envelopes: map[string]int64{s: 1}}},
		})
		m.Gap(s)
		if _, err := m.Gatherer().Gather(); err != nil {
			t.Errorf("%q: %v", s, err)
		}
	})
}

// TestCauses: an alert asks for an increase, and what is not there before its first time has none.
func TestCauses(t *testing.T) {
	for _, cause := range []codes.Code{
		codes.ApiserverDropped, codes.ApiserverRejected, codes.ApiserverUnaudited, codes.PolicyHidden, codes.PolicyNoBodies,
		codes.PolicyNoDecision, codes.PolicyLateDecision,
	} {
		if !slices.Contains(causes(), string(cause)) {
			t.Errorf("%s is not there from the start", cause)
		}
	}
	if got, sum := series(t, New(Options{}), coverageGaps); got != len(causes()) || sum != 0 {
		t.Errorf("%d series with a sum of %v at the start, want %d with none", got, sum, len(causes()))
	}
}

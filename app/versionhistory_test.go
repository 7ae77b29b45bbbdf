package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/version"
)

// captureBegan is before the first request of the capture of 1.36; stretch has its minute last four and a half hours.
var captureBegan = time.Date(2026, 11, 21, 6, 3, 57, 0, time.UTC)

const stretch = 240

// stretched is the capture of 1.36 with all times, of requests and of the state, as far apart as stretch says; the second is its log.
func stretched(t *testing.T) (AnalyzeOptions, []byte) {
	t.Helper()
	o := captureOptions("capture")
	stamps := regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	apart := func(name string) []byte {
		return stamps.ReplaceAllFunc(gunzipped(t, name), func(stamp []byte) []byte {
			at, err := time.Parse(time.RFC3339Nano, string(stamp))
			if err != nil {
				t.Fatal(err)
			}
			return captureBegan.Add(at.Sub(captureBegan)*stretch).AppendFormat(nil, time.RFC3339Nano)
		})
	}
	state := filepath.Join(t.TempDir(), "journal.jsonl")
	if err := os.WriteFile(state, apart(o.State[0]), 0o600); err != nil {
		t.Fatal(err)
	}
	o.State = []string{state}
	return o, apart(o.Logs[0])
}

// server is an API server of a history: it writes requests from one time until another.
type server struct {
	from, to time.Duration
	features nodeauthz.Features
	// agent is the release that the user agent of its own requests claims, such as v1.36.3; empty if it logs none.
	agent string
}

// history is which API servers wrote a log, with what else is in it.
type history struct {
	servers []server
	// lies are what others claim to be in every minute, by their user names.
	lies map[string]string
	// keep is the share of nodes' requests that are in the log, in thousandths; 0 is all.
	keep int
	seed uint64
}

// of says which server wrote a request: of several that run, one by its audit ID.
func (h *history) of(t *testing.T, id string, at time.Duration) *server {
	t.Helper()
	var all []*server
	for i := range h.servers {
		if s := &h.servers[i]; at >= s.from && at < s.to {
			all = append(all, s)
		}
	}
	if len(all) == 0 {
		t.Fatalf("no API server runs %s after the beginning", at)
	}
	x := fnv.New64()
	_, _ = fmt.Fprint(x, h.seed, id)
	return all[x.Sum64()%uint64(len(all))]
}

// log is the stretched capture as the history has it. Requests are left out whose answer rests on another one's that was rewritten.
func (h *history) log(t *testing.T, o AnalyzeOptions, log []byte) []byte {
	t.Helper()
	truth := func(j *pipeline.Judgement) nodeauthz.Features {
		return h.of(t, j.Event.AuditID, j.Time.Sub(captureBegan)).features
	}
	once := rewritten(t, o, log, truth)
	same := map[string]bool{}
	for text := range bytes.Lines(rewritten(t, o, once, truth)) {
		same[string(text)] = true
	}
	r := rand.New(rand.NewPCG(h.seed, 0))
	type line struct {
		at   time.Time
		text []byte
	}
	var lines []line
	for text := range bytes.Lines(once) {
		var ev struct {
			StageTimestamp time.Time
			User           struct{ Groups []string }
		}
		if err := json.Unmarshal(text, &ev); err != nil {
			t.Fatal(err)
		}
		if !same[string(text)] || h.keep > 0 && slices.Contains(ev.User.Groups, "system:nodes") && r.IntN(1000) >= h.keep {
			continue
		}
		lines = append(lines, line{ev.StageTimestamp, text})
	}
	n := 0
	say := func(at time.Duration, user, agent string) {
		n++
		stamp := captureBegan.Add(at)
		lines = append(lines, line{stamp, fmt.Appendf(nil, `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"say-%d","stage":"ResponseComplete",`+
			`"requestURI":"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/apiserver-%d","verb":"update","user":{"username":%q,"groups":["system:masters"]},`+
			`"sourceIPs":["::1"],"userAgent":%q,"objectRef":{"resource":"leases","namespace":"kube-system","name":"apiserver-%d","apiGroup":"coordination.k8s.io","apiVersion":"v1"},`+
			`"responseStatus":{"metadata":{},"code":200},"requestReceivedTimestamp":%q,"stageTimestamp":%q,"annotations":{"authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":""}}`+"\n",
			n, n%2, user, agent+" (linux/amd64) kubernetes/1", n%2, stamp.Format(time.RFC3339Nano), stamp.Format(time.RFC3339Nano))})
	}
	for i := range h.servers {
		s := &h.servers[i]
		for at := s.from; at < min(s.to, 270*time.Minute) && s.agent != ""; at += 30 * time.Second {
			say(at, "system:apiserver", "kube-apiserver/"+s.agent)
		}
	}
	for _, user := range slices.Sorted(maps.Keys(h.lies)) {
		for at := time.Duration(0); at < 270*time.Minute; at += time.Minute {
			say(at, user, h.lies[user])
		}
	}
	slices.SortStableFunc(lines, func(a, b line) int { return a.at.Compare(b.at) })
	var out bytes.Buffer
	for _, l := range lines {
		out.Write(l.text)
	}
	return out.Bytes()
}

// during are the servers that wrote the log in an hour.
func (h *history) during(from, to time.Time) (out []nodeauthz.Features) {
	for i := range h.servers {
		s := &h.servers[i]
		if captureBegan.Add(s.from).Before(to) && captureBegan.Add(s.to).After(from) && !slices.Contains(out, s.features) {
			out = append(out, s.features)
		}
	}
	return out
}

// Whoever wrote a log in which order: outside of races nothing differs from the API servers' decisions and reasons, but for less than eight requests
// after each change that an API server whose graph lags could have allowed too. Decisions show no other minor than the one that ran, no version is found
// that requests contradict, and no request is a race between versions but about the time of a change.
//
// Seen to fail with user agents that count whoever has them, with user agents that count more than decisions, without two versions in force at once, and
// with a version that stays in force after the hour in which it was.
func TestVersionHistories(t *testing.T) {
	const end = 24 * time.Hour
	f := func(name string) nodeauthz.Features { return featuresOf(t, name, nil) }
	off := featuresOf(t, "1.33", map[string]bool{"AuthorizeNodeWithSelectors": false})
	// The hours of the log begin 3.05 s, 56.05 min, 116.05 min, 176.05 min and 236.05 min after it does.
	o, log := stretched(t)
	cases := map[string]history{
		"lies of nodes and of service accounts": {
			servers: []server{{0, end, f("1.33"), "v1.33.4"}},
			lies: map[string]string{"system:node:worker-1": "kube-apiserver/v1.34.1", "system:serviceaccount:shop:web": "kube-controller-manager/v1.28.1",
				"system:serviceaccount:kube-system:web": "kube-apiserver/v1.32.1"},
		},
		"an API server that claims another minor": {servers: []server{{0, end, f("1.37"), "v1.35.1"}}},
		"controllers that are newer":              {servers: []server{{0, end, f("1.36"), ""}}, lies: map[string]string{"system:kube-controller-manager": "kube-controller-manager/v1.37.1"}},
		"an upgrade in the middle of an hour":     {servers: []server{{0, 90 * time.Minute, f("1.36"), "v1.36.4"}, {90 * time.Minute, end, f("1.37"), "v1.37.1"}}},
		"an upgrade at the hour":                  {servers: []server{{0, 116*time.Minute + 3*time.Second, f("1.36"), "v1.36.4"}, {116*time.Minute + 3*time.Second, end, f("1.37"), "v1.37.1"}}},
		"an upgrade around the hour":              {servers: []server{{0, 126 * time.Minute, f("1.36"), "v1.36.4"}, {106 * time.Minute, end, f("1.37"), "v1.37.1"}}},
		"an upgrade that nobody says":             {servers: []server{{0, 126 * time.Minute, f("1.36"), ""}, {106 * time.Minute, end, f("1.37"), ""}}},
		"a downgrade":                             {servers: []server{{0, 90 * time.Minute, f("1.37"), "v1.37.1"}, {85 * time.Minute, end, f("1.36"), "v1.36.4"}}},
		"a downgrade that nobody says":            {servers: []server{{0, 90 * time.Minute, f("1.37"), ""}, {85 * time.Minute, end, f("1.36"), ""}}},
		"two upgrades":                            {servers: []server{{0, 70 * time.Minute, f("1.35"), "v1.35.4"}, {65 * time.Minute, 190 * time.Minute, f("1.36"), "v1.36.4"}, {180 * time.Minute, end, f("1.37"), "v1.37.1"}}},
		"two upgrades in an hour":                 {servers: []server{{0, 70 * time.Minute, f("1.31"), "v1.31.4"}, {65 * time.Minute, 90 * time.Minute, f("1.32"), "v1.32.4"}, {85 * time.Minute, end, f("1.33"), "v1.33.1"}}},
		"an upgrade, and back":                    {servers: []server{{0, 70 * time.Minute, f("1.36"), "v1.36.4"}, {65 * time.Minute, 100 * time.Minute, f("1.37"), "v1.37.1"}, {95 * time.Minute, end, f("1.36"), "v1.36.4"}}},
		"a gate flipped at a restart":             {servers: []server{{0, 90 * time.Minute, f("1.33"), "v1.33.1"}, {90 * time.Minute, end, off, "v1.33.1"}}},
		"a gate flipped that nobody says":         {servers: []server{{0, 90 * time.Minute, off, ""}, {90 * time.Minute, end, f("1.33"), ""}}},
		"few requests":                            {servers: []server{{0, end, f("1.29"), ""}}, keep: 20},
		"few requests of an upgrade":              {servers: []server{{0, 90 * time.Minute, f("1.36"), ""}, {90 * time.Minute, end, f("1.37"), ""}}, keep: 20},
		"hardly any":                              {servers: []server{{0, end, f("1.32"), ""}}, keep: 3},
	}
	for seed := range effort.Of[uint64](4, 1) {
		cases[fmt.Sprint("random ", seed)] = randomHistory(seed)
	}
	for i, name := range slices.Sorted(maps.Keys(cases)) {
		if h := cases[name]; i%effort.Of(1, 9) == 0 {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				h.hold(t, o, log)
			})
		}
	}
}

// randomHistory has one to three API servers, one after the other with up to half an hour in which two run: each is of the minor before or after the
// one that it replaces, or of the same with other gates.
func randomHistory(seed uint64) history {
	r := rand.New(rand.NewPCG(seed, 1))
	all := version.Hypotheses()
	f := all[r.IntN(len(all))]
	h, at, said := history{seed: seed}, time.Duration(0), r.IntN(3) > 0
	for n := 1 + r.IntN(3); n > 0; n-- {
		s := server{from: at, to: 24 * time.Hour, features: f}
		if said {
			s.agent = fmt.Sprintf("v1.%d.2", f.Minor)
		}
		if n > 1 {
			s.to = at + time.Duration(40+r.IntN(60))*time.Minute
			at = s.to - time.Duration(r.IntN(30))*time.Minute
			next := slices.DeleteFunc(slices.Clone(all), func(x nodeauthz.Features) bool { return x == f || x.Minor-f.Minor > 1 || f.Minor-x.Minor > 1 })
			f = next[r.IntN(len(next))]
		}
		h.servers = append(h.servers, s)
	}
	return h
}

// doubtful reports whether two versions may have been in force at a time: while two servers ran or one had just replaced the other. Their own user agents
// show that to some minutes; without any, or with those of one minor, all of the hour and the first requests of the next are.
func (h *history) doubtful(at time.Duration) bool {
	for i := 1; i < len(h.servers); i++ {
		one, two := &h.servers[i-1], &h.servers[i]
		from, to := captureBegan.Add(min(two.from, one.to)), captureBegan.Add(max(two.from, one.to))
		if one.honest() && two.honest() && one.features.Minor != two.features.Minor {
			from, to = from.Add(-3*time.Minute), to.Add(3*time.Minute)
		} else {
			from, to = from.Truncate(time.Hour), to.Truncate(time.Hour).Add(2*time.Hour)
		}
		if t := captureBegan.Add(at); !t.Before(from) && t.Before(to) {
			return true
		}
	}
	return len(h.servers) == 1 && !h.servers[0].honest()
}

// honest reports whether the server's user agent says which minor it is.
func (s *server) honest() bool {
	return strings.HasPrefix(s.agent, fmt.Sprintf("v1.%d.", s.features.Minor))
}

// hold analyzes the log of a history and holds what is found against it.
func (h *history) hold(t *testing.T, o AnalyzeOptions, log []byte) {
	t.Helper()
	o.Logs, o.Stdin = []string{"-"}, bytes.NewReader(h.log(t, o, log))
	o.Each = func(j *pipeline.Judgement) error {
		if older, newer := j.Between(); older != "" && !h.doubtful(j.Time.Sub(captureBegan)) {
			t.Errorf("%s at %s is a race between %s and %s", j.Event.AuditID, j.Time, older, newer)
		}
		return nil
	}
	a, err := Analyze(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	g, lag := &a.Report.Agreement, int64(0)
	for i := range g.Disagree {
		if d := &g.Disagree[i]; d.Verdict == "deny" && d.Observed == "allow" && strings.HasSuffix(d.Reason, "no relationship found between node '"+d.Node+"' and this object") {
			lag++
		}
	}
	if g.Compared-g.Agree != lag || lag >= 8*int64(len(h.servers)) || g.Reasons.Equal != g.Reasons.Compared || h.keep == 0 && g.Compared < 1000 {
		t.Errorf("agreement %+v", g)
	}
	for _, v := range a.Report.Authorization.Versions {
		var ran []string
		for _, x := range h.during(v.From, v.To) {
			ran = append(ran, version.Name(x))
		}
		t.Logf("%s to %s: %s %v also %q by %s (%s %s), known %t, against %d, fits %q; ran %q", v.From.Format("15:04"), v.To.Format("15:04"), v.Name, v.FeatureGates, v.Also, v.Basis, v.Program, v.Release, v.Known, v.Against, v.Fits, ran)
		if len(ran) == 1 && v.Also != "" {
			t.Errorf("%s is found next to %s in hours of %s", v.Also, v.Name, ran[0])
		}
		if v.Against > 0 {
			t.Errorf("%d requests contradict %s", v.Against, v.Name)
		}
		if name, _, _ := strings.Cut(v.Name, " "); v.Basis == string(version.Decisions) && len(ran) == 1 && !strings.HasPrefix(ran[0]+" ", name+" ") {
			t.Errorf("decisions show %s in hours of %s", v.Name, ran[0])
		}
	}
	if r := versionKnown(t, a); r.State == checks.Failed {
		t.Errorf("%+v", r)
	}
}

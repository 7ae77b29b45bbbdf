package days

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/incidents"
	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/sinks"
	"github.com/nodetrail/nodetrail/sinks/alertmanager"
	"github.com/nodetrail/nodetrail/tally"
)

// still is a clock that stands.
type still time.Time

func (c still) Now() time.Time { return time.Time(c) }

func (still) At(time.Time) (<-chan time.Time, func()) { return nil, func() {} }

// alerted is what an Alertmanager receives of findings, at the given time.
func alerted(t *testing.T, at time.Time, found []sinks.Finding, byIncident bool) []map[string]map[string]string {
	t.Helper()
	var mu sync.Mutex
	var got []map[string]map[string]string
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var all []struct{ Labels, Annotations map[string]string }
		if err := json.NewDecoder(r.Body).Decode(&all); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, a := range all {
			got = append(got, map[string]map[string]string{"labels": a.Labels, "annotations": a.Annotations})
		}
	}))
	defer srv.Close()
	s, err := alertmanager.New(alertmanager.Options{
		URLs: []string{srv.URL}, Incidents: byIncident, Clock: still(at), MinSeverity: rules.Medium, ResolveAfter: time.Hour, Log: zerolog.Nop(),
		Recent: func(context.Context, time.Time) ([]sinks.Finding, error) { return nil, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Add(found)
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	return got
}

// checkAttack wants the secret, the node and the address in a critical finding and in an alert, and few alerts.
func checkAttack(t *testing.T, seed uint64, d *Day, theft *Theft) {
	t.Helper()
	out := analysis(t, d)
	is := slices.ContainsFunc(out.Report.Findings, func(f report.Finding) bool {
		return f.Severity == rules.Critical.String() && f.Node == theft.Node && f.Namespace == theft.Namespace && f.Name == theft.Secret &&
			f.Params.Text(rules.ParamAddress) == theft.Address && f.Allowed
	})
	if !is {
		t.Errorf("seed %d: no critical finding names %+v", seed, *theft)
	}
	checkIncident(t, seed, out.Report.Incidents, theft)
	// What passed authorization is distinguished from what was refused, whatever became of it: the two have bounds of their own.
	single := map[string]bool{} // rules that look at one request
	for _, r := range rules.All() {
		single[r.Name] = r.Check != nil && r.NewDetector == nil
	}
	decisions := map[string]string{}
	for _, e := range d.Events {
		if was, known := decisions[e.AuditID]; known && was != e.Decision {
			decisions[e.AuditID] = "" // an ID for both
		} else {
			decisions[e.AuditID] = e.Decision
		}
	}
	for i := range out.Entries {
		for _, f := range out.Entries[i].Findings {
			if decision := decisions[f.AuditID]; single[f.Key.Rule] && decision != "" && f.Allowed != (decision == "allow") {
				t.Errorf("seed %d: a finding of %s says that the request was allowed: %t; decided was %s, in %+v", seed, f.Key.Rule, f.Allowed, decision, *theft)
			}
		}
	}
	for _, room := range []int{4, 50} {
		checkRoom(t, seed, out.Entries, theft, room)
	}
}

// checkIncident wants one incident of the node's credential at the time of the theft, which names the address and has the secret rotated.
func checkIncident(t *testing.T, seed uint64, all []incidents.Incident, theft *Theft) {
	t.Helper()
	n := 0
	at := theft.At.Truncate(time.Microsecond) // as the log has it
	for i := range all {
		in := &all[i]
		if in.Credential != theft.Node || at.Before(in.First) || at.After(in.Last) {
			continue
		}
		n++
		rotated := slices.Contains(in.Rotate, theft.object())
		from := slices.ContainsFunc(in.Addresses, func(s incidents.Seen) bool { return s.Value == theft.Address })
		succeeded := slices.ContainsFunc(in.Timeline, func(m incidents.Moment) bool { return m.Code == incidents.FirstSuccess && !m.At.After(theft.At) })
		if in.Severity != rules.Critical.String() || !rotated || !from || !succeeded || len(in.Bindings) == 0 && !theft.Unbound {
			t.Errorf("seed %d: the incident is %s, rotates the secret %t, names the address %t, tells the success %t, and has %d bindings: %+v", seed, in.Severity, rotated, from, succeeded, len(in.Bindings), *theft)
		}
	}
	if n != 1 {
		t.Errorf("seed %d: %d incidents at the time of %+v", seed, n, *theft)
	}
}

// object is what is to be rotated.
func (t *Theft) object() incidents.Object {
	o := incidents.Object{Resource: "secrets", Namespace: t.Namespace, Name: t.Secret}
	if t.Token {
		o.Resource, o.Subresource = "serviceaccounts", "token"
	}
	return o
}

// checkRoom wants the same of a store and a queue with little room.
func checkRoom(t *testing.T, seed uint64, entries []tally.Entry, theft *Theft, room int) {
	t.Helper()
	small := tally.New()
	small.Bound(room)
	for i := range entries {
		small.Add(&entries[i])
	}
	named := false
	for k, g := range small.Groups {
		named = named || g.Severity == rules.Critical && g.Allowed && !g.Wide && k.Node == theft.Node && k.Namespace == theft.Namespace && k.Name == theft.Secret
	}
	if !named {
		t.Errorf("seed %d: no group of %d names %+v", seed, room, *theft)
	}
	// What was judged within a minute of the theft, and before it, in the order in which it was found.
	var found []sinks.Finding
	g := sinks.NewGrouper(sinks.GrouperOptions{MaxGroups: room}, func(f []sinks.Finding) { found = append(found, f...) })
	for i := range entries {
		if e := &entries[i]; !e.Time.After(theft.At.Add(time.Minute)) {
			g.Add(entries[i : i+1])
		}
	}
	g.Close()
	for _, byIncident := range []bool{false, true} {
		checkAlerts(t, seed, alerted(t, theft.At.Add(time.Minute), found, byIncident), theft, byIncident)
	}
}

// checkAlerts wants the theft in an alert, and few alerts; by incident one of the node's.
func checkAlerts(t *testing.T, seed uint64, alerts []map[string]map[string]string, theft *Theft, byIncident bool) {
	t.Helper()
	if len(alerts) > 50 {
		t.Errorf("seed %d: %d alerts for %+v", seed, len(alerts), *theft)
	}
	if !slices.ContainsFunc(alerts, func(a map[string]map[string]string) bool {
		l, note := a["labels"], a["annotations"]
		return l["severity"] == rules.Critical.String() && l["node"] == theft.Node && note["address"] == theft.Address &&
			slices.Contains(strings.Split(note["objects"], ", "), strings.TrimPrefix(theft.Namespace+"/"+cmp.Or(theft.Secret, "*"), "/"))
	}) {
		t.Errorf("seed %d: no alert names %+v (by incident: %t): %v", seed, *theft, byIncident, alerts)
	}
}

// Whatever surrounds a theft, it is named with its node and address within a minute of the log's time. NODETRAIL_ATTACKS is how many attacks are
// composed, NODETRAIL_ATTACK_SEED the first one's seed; `make attack` sets both.
func TestAttacks(t *testing.T) {
	cases, first, flood := effort.Of(uint64(100), 6), uint64(1), 200
	for name, to := range map[string]*uint64{"NODETRAIL_ATTACKS": &cases, "NODETRAIL_ATTACK_SEED": &first} {
		if text := os.Getenv(name); text != "" {
			n, err := strconv.ParseUint(text, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			*to = n
		}
	}
	if os.Getenv("NODETRAIL_ATTACKS") != "" {
		flood = 3000
	}
	t.Logf("seeds %d to %d", first, first+cases-1)
	days := []*Day{
		clean(t, 31, Options{Span: leastSpan}), clean(t, 32, Options{Span: leastSpan, Servers: 2, Features: Deployments | DualStack | ControlPlane}),
		clean(t, 33, Options{Span: leastSpan, Servers: 2, Minor: 34, Features: GraphLag | Windows}),
	}
	check := func(seed uint64, flood int) {
		d, theft := Attack(days[seed%uint64(len(days))], seed, flood)
		checkAttack(t, seed, d, theft)
	}
	for seed := first; seed < first+cases; seed++ {
		check(seed, flood)
	}
	for seed := range uint64(6) {
		if d, theft := quietAttack(days[seed%uint64(len(days))], seed); d != nil {
			checkAttack(t, seed, d, theft)
		}
	}
	for _, seed := range effort.Of([]uint64{20261827, 20268763}, nil) { // which were missed in a run for the night
		check(seed, 3000)
	}
}

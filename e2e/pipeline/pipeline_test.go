package pipeline

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/e2e/plane"
	"github.com/nodetrail/nodetrail/e2e/result"
	"github.com/nodetrail/nodetrail/e2e/trail"
)

// Nothing is lost on the way and nothing counts twice, even across crashes: each of hundreds of requests has its alert, and all sums are those of analyze on
// the log. With -short, where Kubernetes is not to be built, the bundled capture is posted.
//
// Seen to fail with a store that does not know duplicates (sums that are too high), with an engine that stores the position of what it has not judged
// yet (sums that are too low, and sometimes an alert missing, when an analyzer was killed), with a store that says it has what was lost with its
// connection (alerts missing when PostgreSQL was killed), with a gateway that answers before the brokers have, and with a producer that waits for no
// acknowledgement (both: alerts missing when a broker was killed); cmd/breaks/breaks.txt has the changes. Not with a store that has no fences: what a
// stalled analyzer stores late are duplicates.
func TestPipeline(t *testing.T) {
	s := startStack(t)
	if testing.Short() {
		testPipeline(t, s, &captured{})
	} else {
		testPipeline(t, s, &apiserver{program: s.program})
	}
}

// steady is how many requests the latency is measured by while nothing is killed.
const steady = 60

func testPipeline(t *testing.T, s *stack, from source) {
	t.Helper()
	state := from.start(t, s.webhook.Kubeconfig)
	res := &result.Pipeline{Source: from.name(), Versions: s.versions(t)}
	s.startAnalyzers(t, state)
	p := startProbes(t, from, s.alerts)
	p.goOn(t, "alerts come", s.alive) // and what waited since the beginning is judged
	s.sees(t, 3, "sum(up)")

	first := p.wait(t, steady)
	plane.Check(t, p.alerted("each request has its alert", first, first+steady, s.alive))
	res.Alerts = result.LatencyOf(p.latencies(first, first+steady))

	disturbed, _ := p.count()
	s.loseBroker(t, p, res)
	s.loseAnalyzer(t, p, res)
	s.stallAnalyzer(t, p, res)
	s.loseStore(t, p, res)
	s.loseGateway(t, p, res)
	made := p.stop(t)
	if err := p.alerted("each request has its alert, whatever was killed", 0, made, s.alive); err != nil {
		t.Error(err) // what else is missing tells more
	}
	res.Disturbed = result.LatencyOf(p.latencies(disturbed, made))

	// By way of Prometheus' rules, too. Of those on nodetrail itself the ones that do not wait for minutes tell of loss: none may fire.
	plane.Check(t, plane.Eventually(work.Context(), "an alert of Prometheus' rules comes", func() error {
		if names := s.rules(); !slices.Contains(names, "OutOfScopeSecretRead") {
			return fmt.Errorf("there are %q", names)
		}
		return s.alive()
	}))

	end := from.stop(t)
	// Fails when a partition stands still, or when an offset is committed that is not the one behind what was stored.
	plane.Check(t, plane.Eventually(work.Context(), "all is stored", func() error { return s.brokers.drained(work.Context()) }))
	s.complete(t, from.log(), end)
	res.Usage = s.usage(t, from)
	for _, a := range s.analyzers {
		plane.Check(t, a.Stop())
	}
	store := plane.Must(s.analyzers[0].Report(work.Context()))(t)
	out := plane.Must(trail.Run(work.Context(), s.program, append([]string{"analyze", from.log(), "--cluster", cluster, "--authorization-mode", "Node,RBAC",
		"--state-from-audit=false", "-o", "json"}, stateFlags(state)...)...))(t)
	analyze := plane.Must(trail.ParseReport(out))(t)
	res.Compared = compare(t, analyze, store)
	res.Events, res.Taken, res.Judged = analyze.Events.Read, store.Events.Read, store.Events.Judged
	for i := range store.Findings {
		res.Findings += store.Findings[i].Count
	}
	if res.Judged < int64(made) || res.Events > res.Taken {
		t.Errorf("%d events in the log, of which %d probes; %d were read from Kafka, and %d judged", res.Events, made, res.Taken, res.Judged)
	}
	for _, name := range s.rules() {
		if strings.HasPrefix(name, "Nodetrail") {
			t.Errorf("Prometheus' rules raised %s", name)
		}
	}
	t.Logf("%+v; rules over time, not compared: %v; Prometheus raised %q", *res, overTimeCounts(analyze, store), s.rules())
	if !t.Failed() {
		plane.Check(t, result.Write("pipeline", res))
	}
}

// complete holds what the topic has against the log, event by event: nodes' or not, nothing is missing and nothing is there that the log does not have. It
// fails when the gateway drops an event, or answers before the brokers have it.
func (s *stack) complete(t *testing.T, log string, end time.Time) {
	t.Helper()
	type event struct {
		AuditID, Stage string
		StageTimestamp time.Time
	}
	parse := func(b []byte) (e event) {
		if err := json.Unmarshal(b, &e); err != nil {
			t.Errorf("%v in %.200s", err, b)
		}
		return e
	}
	topic := map[string]bool{}
	for _, value := range s.brokers.contents(t) {
		e := parse(value)
		topic[e.AuditID+" "+e.Stage] = true
	}
	missing := 0
	for line := range bytes.Lines(plane.Must(os.ReadFile(log))(t)) {
		e := parse(line)
		key := e.AuditID + " " + e.Stage
		if !topic[key] && e.StageTimestamp.Before(end) {
			if missing++; missing <= 5 {
				t.Errorf("the topic lacks %.500s", line)
			}
		}
		delete(topic, key)
	}
	if missing > 5 || len(topic) > 0 {
		t.Errorf("the topic lacks %d events of the log, and has %d others", missing, len(topic))
	}
}

func stateFlags(files []string) []string {
	var flags []string
	for _, f := range files {
		flags = append(flags, "--state", f)
	}
	return flags
}

// loseBroker kills the broker that leads the group, and some of the partitions.
func (s *stack) loseBroker(t *testing.T, p *probes, res *result.Pipeline) {
	t.Helper()
	i := s.brokers.coordinator(t)
	lost := time.Now()
	s.brokers.kill(i)
	p.goOn(t, "alerts come without a broker", s.alive)
	res.Outages = append(res.Outages, result.Outage{What: "one of three brokers killed", Took: time.Since(lost)})
	s.brokers.restart(t, i)
	p.goOn(t, "alerts come with the broker back", s.alive)
}

// loseAnalyzer kills an analyzer. The other one takes over what it had, from where the store says.
func (s *stack) loseAnalyzer(t *testing.T, p *probes, res *result.Pipeline) {
	t.Helper()
	lost := time.Now()
	s.analyzers[0].Process.Kill()
	s.members(t, 1)
	p.goOn(t, "alerts come from one analyzer", s.alive)
	res.Outages = append(res.Outages, result.Outage{What: "one of two analyzers killed", Took: time.Since(lost)})
	s.sees(t, 0, fmt.Sprintf("up{instance=%q}", s.analyzers[0].Listen))
	s.start(t, s.analyzers[0], "analyzer-1")
	s.members(t, 2)
	p.goOn(t, "alerts come from both analyzers", s.alive)
}

// stallAnalyzer stops an analyzer without ending it until the group has given its partitions away, and lets it continue with what it had in hand.
func (s *stack) stallAnalyzer(t *testing.T, p *probes, res *result.Pipeline) {
	t.Helper()
	stalled := time.Now()
	s.analyzers[1].Process.Freeze()
	s.members(t, 1)
	p.goOn(t, "alerts come while an analyzer stands still", s.alive)
	res.Outages = append(res.Outages, result.Outage{What: "one of two analyzers stalled", Took: time.Since(stalled)})
	s.analyzers[1].Process.Thaw()
	s.members(t, 2)
	p.goOn(t, "alerts come from both analyzers again", s.alive)
}

// loseStore ends PostgreSQL as a crash does, and starts it again: of what was under way nobody knows whether it is stored.
func (s *stack) loseStore(t *testing.T, p *probes, res *result.Pipeline) {
	t.Helper()
	lost := time.Now()
	plane.Check(t, s.store.Restart())
	p.goOn(t, "alerts come with the store back", s.alive)
	res.Outages = append(res.Outages, result.Outage{What: "PostgreSQL killed, and started again", Took: time.Since(lost)})
	s.members(t, 2)
}

// loseGateway kills the gateway while it waits for brokers, one of which was killed before. What it has not acknowledged comes again.
func (s *stack) loseGateway(t *testing.T, p *probes, res *result.Pipeline) {
	t.Helper()
	i := (s.brokers.coordinator(t) + 1) % copies
	s.brokers.kill(i)
	p.wait(t, partitions)
	lost := time.Now()
	s.gateway.Process.Kill()
	s.sees(t, 0, fmt.Sprintf("up{instance=%q}", s.gateway.Listen))
	s.start(t, s.gateway, "gateway")
	p.goOn(t, "alerts come by the gateway that was started again", s.alive)
	res.Outages = append(res.Outages, result.Outage{What: "the gateway killed while a broker is away, and started again", Took: time.Since(lost)})
	s.brokers.restart(t, i)
	p.goOn(t, "alerts come with all brokers back", s.alive)
	plane.Check(t, errors.Join(s.gateway.Process.Alive(), s.analyzers[0].Process.Alive(), s.analyzers[1].Process.Alive()))
}

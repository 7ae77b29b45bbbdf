package killtest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/internal/test/days"
	"github.com/nodetrail/nodetrail/internal/test/kafkatest"
	"github.com/nodetrail/nodetrail/rules"
)

// crowd is a log that has to be looked at as a whole, with the state that belongs to it: a clean half hour, in which nobody says anything for five minutes,
// then all nodes look for secrets and are denied far more than usual, from one address, and at last, for ten minutes, they do nothing but renew their Leases
// from there. So whatever is found is found before the log ends.
func crowd(t *testing.T) (log [][]byte, state []byte) {
	t.Helper()
	d, err := days.Clean(22, days.Options{Span: 30 * time.Minute, Nodes: 6})
	if err != nil {
		t.Fatal(err)
	}
	var begin, end time.Time
	nodes := map[string]audit.User{}
	for line := range bytes.Lines(d.Log()) {
		line = bytes.TrimSpace(line)
		(&audit.Decoder{}).Chunk(append(slices.Clone(line), '\n'), 1, func(ev *audit.Event) {
			if begin.IsZero() {
				begin = ev.RequestReceived
			}
			if m := ev.RequestReceived.Sub(begin) / time.Minute; m >= 20 && m < 25 {
				return
			}
			if ev.StageTime.After(end) {
				end = ev.StageTime
			}
			if strings.HasPrefix(ev.UserAgent, "kubelet") && strings.HasPrefix(ev.User.Username, "system:node:") && !ev.IsImpersonated {
				u := ev.Clone()
				nodes[u.User.Username] = u.User
			}
			log = append(log, line)
		}, func(m audit.Malformed) { t.Fatal(m) })
	}
	if len(nodes) < 6 {
		t.Fatalf("%d nodes", len(nodes))
	}
	names := make([]string, 0, len(nodes))
	for name := range nodes {
		names = append(names, name)
	}
	slices.Sort(names)
	add := func(at time.Time, user, verb, uri, ref, decision, reason string, code int) {
		log = append(log, fmt.Appendf(nil, `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"%08x-0000-4000-8000-000000000016","stage":"ResponseComplete",`+
			`"requestURI":%q,"verb":%q,"user":{"username":%q,"groups":["system:nodes","system:authenticated"]},"sourceIPs":["10.9.0.1"],"userAgent":"kubelet/v1.36.0 (linux/amd64) kubernetes/0000000",`+
			`"objectRef":%s,"responseStatus":{"metadata":{},"code":%d},"requestReceivedTimestamp":%q,"stageTimestamp":%q,`+
			`"annotations":{"authorization.k8s.io/decision":%q,"authorization.k8s.io/reason":%q}}`,
			len(log), uri, verb, user, ref, code, at.Format("2006-01-02T15:04:05.000000Z"), at.Add(time.Millisecond).Format("2006-01-02T15:04:05.000000Z"), decision, reason))
	}
	for second := range 12 * 60 {
		at := end.Add(time.Duration(second) * time.Second)
		for i, name := range names {
			node := strings.TrimPrefix(name, "system:node:")
			at := at.Add(time.Duration(i) * time.Millisecond)
			if second < 120 {
				for n := range 3 {
					secret := fmt.Sprintf("storm-%d", (second+n)%6)
					add(at, name, "get", "/api/v1/namespaces/shop/secrets/"+secret, fmt.Sprintf(`{"resource":"secrets","namespace":"shop","name":%q,"apiVersion":"v1"}`, secret), "forbid",
						"no relationship found between node '"+node+"' and this object", 403)
				}
			}
			if (second+i)%10 == 0 {
				add(at, name, "update", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/"+node,
					fmt.Sprintf(`{"resource":"leases","namespace":"kube-node-lease","name":%q,"apiGroup":"coordination.k8s.io","apiVersion":"v1"}`, node), "allow", "", 200)
			}
		}
	}
	return log, d.Journal()
}

// fleetPartitions is how many partitions there are, each with nodes of its own: one without any holds back the others at the end.
const fleetPartitions = 3

// Two and three analyzers of one group and one PostgreSQL find what analyze finds in the whole log, what concerns all nodes together included, while they
// are killed in turn, whichever of them judges that.
func TestFleetFindsWhatAnalyzeFinds(t *testing.T) {
	pg := postgres.Shared(t)
	brokers := kafkatest.Start(t, kafkatest.Options{}).Addresses()
	lines, state := crowd(t)
	dir := t.TempDir()
	journal, log := filepath.Join(dir, "journal.jsonl"), filepath.Join(dir, "audit.log")
	for path, data := range map[string][]byte{journal: state, log: append(bytes.Join(lines, []byte("\n")), '\n')} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command(program, "analyze", "--state", journal, "--state-from-audit=false", "--skew", "1s", "--authorization-mode", "Node,RBAC", "-o", "json", log).Output()
	if err != nil {
		t.Fatal(err)
	}
	want := withoutPhase(parse(t, out))
	rulesFound := map[any]bool{}
	for _, f := range want.Findings {
		rulesFound[f["reason"]] = true
	}
	for _, reason := range []string{"spike-of-cluster", "many-within-minutes"} {
		if !rulesFound[reason] {
			t.Errorf("%s is not in the log: %v", reason, rulesFound)
		}
	}
	dsn, err := url.QueryUnescape(pg.DSN())
	if err != nil {
		t.Fatal(err)
	}
	for n := 2; n <= 3; n++ {
		name := fmt.Sprintf("fleet%d", n)
		topic(t, brokers, name, fleetPartitions)
		var confs []string
		var all []*process
		for range n {
			conf := configOf(t, journal, time.Second, kafkaConfig(brokers, name), fmt.Sprintf("store: {postgres: {dsn: %q, schema: %s}}", strings.ReplaceAll(dsn, "$", "$$"), name))
			confs, all = append(confs, conf), append(all, start(t, "run", "--config", conf))
		}
		sent := background(t, func(ctx context.Context) { produce(ctx, t, brokers, name, lines, 20*time.Second) })
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		rnd := rand.New(rand.NewPCG(seed, 16))
		for i := range n + 1 {
			pause(rnd, 2*time.Second, 5*time.Second)
			all[i%n].kill()
			all[i%n] = start(t, "run", "--config", confs[i%n])
		}
		sent()
		got := withoutPhase(waitFor(t, confs[0], want, all...))
		diff := ""
		for deadline := time.Now().Add(4 * time.Minute); time.Now().Before(deadline); time.Sleep(500 * time.Millisecond) {
			if diff = cmp.Diff(want.Findings, got.Findings); diff == "" {
				break
			}
			got = withoutPhase(report(t, confs[0]))
		}
		if diff != "" {
			t.Errorf("%d analyzers (-analyze +run):\n%s", n, diff)
		}
		compare(t, want, got, false)
		for _, p := range all {
			p.stop()
		}
	}
}

// withoutPhase leaves out whether a spike is over: analyze shows what was found of a group last, run what has the latest requests, and the end of a spike
// has none of its own.
func withoutPhase(r *totals) *totals {
	for _, f := range r.Findings {
		if f["rule"] == rules.DenySpike {
			delete(f, "message")
			delete(f, "params")
		}
	}
	return r
}

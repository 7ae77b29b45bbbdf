package killtest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/rules"
)

// twins are pairs of requests that have audit ID, verb, URI and second in common: a refused one, and a theft. Each pair is in any order, and the second of
// each is by itself in the second half.
func twins(begin time.Time, rnd *rand.Rand, node string) (halves [2][][]byte) {
	for n := range 100 {
		at := begin.Add(time.Duration(n/10) * time.Second).UTC().Format(time.RFC3339)
		line := func(decision, reason string, code int) []byte {
			return fmt.Appendf(nil, `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"chosen","stage":"ResponseComplete",`+
				`"requestURI":"/api/v1/namespaces/shop/secrets/db-%d","verb":"get","user":{"username":"system:node:%s","groups":["system:nodes","system:authenticated"]},`+
				`"sourceIPs":["10.0.0.1"],"userAgent":"curl/8","objectRef":{"resource":"secrets","namespace":"shop","name":"db-%d","apiVersion":"v1"},"responseStatus":{"code":%d},`+
				`"requestReceivedTimestamp":%q,"stageTimestamp":%q,"annotations":{"authorization.k8s.io/decision":%q,"authorization.k8s.io/reason":%q}}`,
				n, node, n, code, at, at, decision, reason)
		}
		pair := [2][]byte{
			line("forbid", fmt.Sprintf("no relationship found between node '%s' and this object", node), 403),
			line("allow", `RBAC: allowed by ClusterRoleBinding "one" of ClusterRole "reader" to Group "system:nodes"`, 200),
		}
		first := rnd.IntN(2)
		halves[0], halves[1] = append(halves[0], pair[first]), append(halves[1], pair[1-first])
	}
	return halves
}

// A harmless request before a restart does not hide a theft after it that has the same audit ID, verb, URI and second, in either order. Copies of both, after
// further restarts and kills, count no more.
func TestOneAuditIDAcrossRestarts(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 29))
	begin := time.Now().Add(-time.Minute).Truncate(time.Second)
	halves := twins(begin, rnd, "worker-3")
	state, dir := theftState(t, begin, "worker-3"), t.TempDir()
	log := filepath.Join(dir, "audit.log")
	conf := configOf(t, state, time.Second, fmt.Sprintf("sources: {files: [{paths: [%q], poll: 50ms}]}", filepath.Join(dir, "*.log")))
	write := func(path string, lines [][]byte) {
		t.Helper()
		if err := os.WriteFile(path, append(bytes.Join(lines, []byte("\n")), '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	analyzed := func() *totals {
		t.Helper()
		out, err := exec.Command(program, "analyze", "--state", state, "--state-from-audit=false", "--skew", "1s", "--authorization-mode", "Node,RBAC", "-o", "json", log).Output()
		if err != nil {
			t.Fatal(err)
		}
		return ofRequests(parse(t, out))
	}
	write(log, halves[0])
	p := start(t, "run", "--config", conf)
	waitFor(t, conf, analyzed(), p)
	p.kill()
	both := append(append([][]byte{}, halves[0]...), halves[1]...)
	write(log, both)
	want := analyzed()
	if want.Events.Judged != 200 || want.found() != 100 {
		t.Fatalf("analyze judged %d requests and found %g, want 200 and 100", want.Events.Judged, want.found())
	}
	p = start(t, "run", "--config", conf)
	waitFor(t, conf, want, p)
	for i := range 4 { // copies of all, in another order, while it is killed
		rnd.Shuffle(len(both), func(i, j int) { both[i], both[j] = both[j], both[i] })
		write(filepath.Join(dir, fmt.Sprintf("copies-%d.log", i)), both)
		pause(rnd, 0, 600*time.Millisecond)
		p.kill()
		p = start(t, "run", "--config", conf)
	}
	for deadline := time.Now().Add(time.Minute); report(t, conf).Events.Read < 200*5 && time.Now().Before(deadline); {
		time.Sleep(100 * time.Millisecond)
	}
	p.stop()
	got := report(t, conf)
	if got.Events.Read != 200*5 {
		t.Errorf("%d events were read, want %d", got.Events.Read, 200*5)
	}
	compare(t, want, ofRequests(got), false)
}

// ofRequests leaves out what several requests show together, which run finds when the log has advanced.
func ofRequests(r *totals) *totals {
	all := r.Findings
	r.Findings = nil
	for _, f := range all {
		if f["rule"] == rules.ExcessAccess {
			r.Findings = append(r.Findings, f)
		}
	}
	return r
}

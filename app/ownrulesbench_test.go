package app

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/ownrules"
)

// hundredRules are rules of the kinds that docs/own-rules.md shows, ten of each.
func hundredRules(tb testing.TB) *ownrules.Set {
	tb.Helper()
	kinds := []string{
		`request.isNode && request.client in ["kubectl", "curl%d", "python-requests"]`,
		`request.isNode && !request.kubelet && has(state.addressOfNode) && !state.addressOfNode && request.namespace == "team-%d"`,
		`request.isNode && request.resource == "secrets" && request.verb in ["list", "watch"] && request.namespace == "vault-%d"`,
		`verdict.needsRBAC && request.client == "fluentd-%d"`,
		`request.isNode && request.resource == "pods" && request.subresource in ["exec", "attach", "portforward"] && request.name != "debug-%d"`,
		`request.isNode && !request.kubelet && request.verb in ["create", "update", "patch", "delete"] && (request.hour < 6 || request.hour >= 20) && request.namespace == "n-%d"`,
		`request.isNode && request.impersonator != "" && request.impersonator != "system:serviceaccount:ops:debugger-%d"`,
		`admission.verdict == "deny" && admission.observed == "deny" && !request.kubelet && request.name.startsWith("worker-%d")`,
		`request.isNode && request.resource == "pods" && request.verb == "get" && has(state.podNode) && state.podNode != request.node && request.name.endsWith("-%d")`,
		`request.isNode && request.kubelet && request.userAgent.matches("^kubelet/v1\\.(1[0-9]|2%d)\\.")`,
	}
	var b strings.Builder
	b.WriteString("rules:\n")
	for i := range 100 {
		fmt.Fprintf(&b, "- name: r%d\n  severity: medium\n  message: '{request.client} of {request.node}'\n  match: '%s'\n", i, fmt.Sprintf(kinds[i%10], i/10))
	}
	set, err := ownrules.Load([]ownrules.Source{{Name: "rules.yaml", Data: []byte(b.String())}})
	if err != nil {
		tb.Fatal(err)
	}
	return set
}

// BenchmarkOwnRules analyzes the same log without own rules and with a hundred, in turn. The ratio is of processor time, which other work on the machine
// disturbs less than the clock's: with a hundred rules, by without.
func BenchmarkOwnRules(b *testing.B) {
	log, journal := gunzipped(b, "../internal/demo/capture/audit.log.gz"), b.TempDir()+"/journal.jsonl"
	if err := os.WriteFile(journal, gunzipped(b, "../internal/demo/capture/journal.jsonl.gz"), 0o600); err != nil {
		b.Fatal(err)
	}
	var copies strings.Builder
	for i := range 10 { // a request that comes again would not be judged again
		copies.WriteString(strings.ReplaceAll(string(log), `"auditID":"`, fmt.Sprintf(`"auditID":"%d-`, i)))
	}
	text := copies.String()
	set := hundredRules(b)
	var took [2]time.Duration
	run := func(i int, own *ownrules.Set) {
		before := processorTime(b)
		_, err := Analyze(b.Context(), AnalyzeOptions{
			Own: own, Input: Input{Logs: []string{"-"}, Stdin: strings.NewReader(text), State: []string{journal}}, Authorization: Authorization{Skew: time.Second}, Now: time.Unix(1<<31, 0),
		})
		if err != nil {
			b.Fatal(err)
		}
		took[i] += processorTime(b) - before
	}
	run(0, nil)
	took[0] = 0
	b.SetBytes(2 * int64(len(text)))
	for b.Loop() {
		run(0, nil)
		run(1, set)
	}
	b.ReportMetric(float64(took[1])/float64(took[0]), "ratio")
	b.ReportMetric(0, "ns/op")
}

func processorTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

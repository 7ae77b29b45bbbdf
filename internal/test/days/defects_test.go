package days

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// defect is an error planted in nodetrail by which an attack would succeed: from, which is once in the file, becomes to.
type defect struct{ name, file, from, to string }

// Each of them makes TestAttacks fail.
var defects = []defect{
	{
		"request ID from audit ID alone", "pipeline/identity.go",
		"	b = appendTexts(b, ev.AuditID, ev.Verb, ev.RequestURI)\n", "	if ev.AuditID != \"\" {\n\t\treturn appendTexts(b, ev.AuditID)\n\t}\n	b = appendTexts(b, ev.AuditID, ev.Verb, ev.RequestURI)\n",
	},
	{"no bound on the address list", "audit/reduce.go", "r.addrs++; r.addrs > reducedList {", "r.addrs++; false {"},
	{"the last address is cut off", "audit/reduce.go", "r.out, r.cut = r.out[:r.addrAt], true", "r.text = skippedText\n\t\t\treturn"},
	{"the first address counts", "audit/event.go", "return ev.SourceIPs[n-1], true", "return ev.SourceIPs[0], true"},
	{"no bound on the query", "audit/reduce.go", "	reducedQuery   = 64 << 10 ", "	reducedQuery   = 0 "},
	{"findings of scope lose Allowed", "rules/scope.go", "Subject: r.Node, Allowed: r.Allowed}", "Subject: r.Node}"},
	{"failed reads lose Allowed", "rules/scope.go", "Subject: r.Node, Allowed: r.Allowed}", "Subject: r.Node, Allowed: r.Succeeded()}"},
	{"refused reads have Allowed", "rules/scope.go", "Subject: r.Node, Allowed: r.Allowed}", "Subject: r.Node, Allowed: true}"},
	{
		"allowed groups on the budget of refused ones", "tally/room.go",
		"	if c.Allowed {\n		return r.used[*c]", "	if false {\n		return r.used[*c]",
	},
	{"allowed groups count as refused ones", "tally/room.go", "if !wide && r.own(&c) {", "if own := c; !wide && r.own(&Class{Rule: own.Rule, Node: own.Node}) {"},
	{"one class for all severities", "tally/room.go", "Reason: f.Reason, Severity: f.Severity, Allowed: f.Allowed}", "Allowed: f.Allowed}"},
	{"another client may read what the node may", "rules/credential.go", "	stolen(r, f)\n	if a", "	if a"},
	{"nothing is taken from a second address", "rules/credentialtaken.go", "if m >= minute {", "if m < minute {\n\t\t\treturn true\n\t\t}\n\t\tif m >= minute {"},
	{"nothing is taken from a silent node", "rules/credentialtaken.go", "if !o.strange || !d.outside(n, &t, s) {", "if d.outside(n, &t, s) || home == \"\" {"},
	{"an address of three nodes is a gateway's", "rules/credentialtaken.go", "d.gateway(n, t.Value, s) && d.livesBehind(n, t, s) {", "d.shared(t.Value) {"},
	{"a renewal of a Lease says where nodes live", "rules/credentiallife.go", "if h.Lived >= livesFor {", "if h.Renews > 0 {"},
	{"nobody is strange in the other family", "rules/credentialorigin.go", "return nobody || strangeOf", "return nobody && false || strangeOf"},
	{"what the credential's holder writes of its addresses counts at once", "cluster/nodes.go", "settles = int64(10 * time.Minute)", "settles = int64(0)"},
	{"alerts cut the names of objects", "sinks/alertmanager/alert.go", "a.name(bounded(name, maxObject), last, w)", "a.name(clean(name), last, w)"},
	{"deleted secrets are not rotated", "incidents/span.go", `"watch", "patch", "delete", "deletecollection"}`, `"watch", "patch", "deletecollection"}`},
	{"alerts name no collections", "sinks/alertmanager/alert.go", `if name == "" && f.Resource != "" {`, "if false {"},
}

// TestDefects sees that TestAttacks can fail. The texts are held against the sources always; with NODETRAIL_ATTACKS, as make attack sets it, each defect is
// planted and has to be caught.
func TestDefects(t *testing.T) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range defects {
		t.Run(d.name, func(t *testing.T) {
			path := filepath.Join(root, d.file)
			source, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(source), d.from); n != 1 {
				t.Fatalf("%s has %q %d times", d.file, d.from, n)
			}
			if os.Getenv("NODETRAIL_ATTACKS") != "" {
				d.caught(t, path, strings.Replace(string(source), d.from, d.to, 1))
			}
		})
	}
}

// caught wants TestAttacks to fail on an assertion while the file has the text.
func (d *defect) caught(t *testing.T, path, text string) {
	t.Helper()
	dir := t.TempDir()
	broken, overlay := filepath.Join(dir, "broken.go"), filepath.Join(dir, "overlay.json")
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{path: broken}})
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string][]byte{broken: []byte(text), overlay: list} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-failfast", "-overlay", overlay, "-run", "^TestAttacks$", ".")
	cmd.Env = append(os.Environ(), "NODETRAIL_ATTACKS=", "NODETRAIL_ATTACK_SEED=")
	out, err := cmd.CombinedOutput()
	switch {
	case err == nil:
		t.Error("TestAttacks passes")
	case !bytes.Contains(out, []byte("attack_test.go:")):
		t.Errorf("TestAttacks does not fail on an assertion: %.2000s", out)
	}
}

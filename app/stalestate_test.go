package app

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/nodetrail/nodetrail/rules"
)

// A journal that ended two days before the log, and has each pod on another node by now, refuses nothing: a pod that it does not have, or has elsewhere, may
// have come since.
func TestStateThatEndedLongBefore(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, b []byte) []string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return []string{path}
	}
	journal := unpacked(t, capture+"/journal.jsonl.gz")
	for _, r := range [][2]string{{"worker-1", "worker-X"}, {"worker-2", "worker-1"}, {"worker-X", "worker-2"}} {
		journal = bytes.ReplaceAll(journal, []byte(`"nodeName":"`+r[0]+`"`), []byte(`"nodeName":"`+r[1]+`"`))
	}
	log := bytes.ReplaceAll(unpacked(t, capture+"/audit.log.gz"), []byte("2026-11-21T"), []byte("2026-11-23T"))
	a, err := Analyze(context.Background(), AnalyzeOptions{
		Authorization: Authorization{KubernetesVersion: "1.36"},
		Input:         Input{State: file("journal.jsonl", journal), Logs: file("audit.log", log), NoBodies: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	taken := 0
	for i := range a.Report.Findings {
		switch f := &a.Report.Findings[i]; {
		case f.Rule == rules.ForeignWrite && f.Reason == rules.WriteSucceeded, f.Rule == rules.RestrictionBypass, f.Rule == "authorizer-lag":
			t.Errorf("found by a state that ended long before: %s", f.Message)
		case f.Reason == rules.SecretTaken:
			taken++
		}
	}
	if taken == 0 {
		t.Error("what the API server's own decisions show of thefts is not found")
	}
	if n := len(a.Report.Agreement.Disagree); n > 0 {
		t.Errorf("%d verdicts of a state that ended long before are held against the API server's", n)
	}
	for _, c := range a.Report.Confinement.Checks {
		if c.Name == "node-restriction-on" && c.State == "failed" {
			t.Errorf("node-restriction-on failed: %s", c.Evidence[0].Message)
		}
	}
}

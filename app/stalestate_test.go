package app

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/internal/test/days"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/rules"
)

// fromJournal has the state read from a file, which ends, and not loaded before.
func fromJournal(t *testing.T, d *days.Day) func(*AnalyzeOptions) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	if err := os.WriteFile(path, d.Journal(), 0o600); err != nil {
		t.Fatal(err)
	}
	return func(o *AnalyzeOptions) { o.Loaded, o.State = nil, []string{path} }
}

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

// A kubelet may watch what a new pod uses before the API server's own graph has the pod, so that the binding lets it through. Where the state covers that, it is a
// race. Where the state begins later or ended before, nobody knows: no alarm, and no proof either. Whoever gets the same by another verb, or from
// where the node never was, is a thief.
func TestEarlyWatchOutsideOfTheState(t *testing.T) {
	for _, c := range []struct {
		how   string
		verb  string
		from  string // "" for the node's own address
		ready string
		worst rules.Severity
	}{
		{"whole", "watch", "", "ready", rules.Low},
		{"late", "watch", "", "not enough evidence", rules.Medium},
		{"ended", "watch", "", "not enough evidence", rules.Medium},
		{"late", "watch", "203.0.113.9", "not ready", rules.Critical},
		{"late", "list", "203.0.113.9", "not ready", rules.Critical},
		{"late", "get", "", "not ready", rules.Critical},
		{"ended", "get", "", "not ready", rules.Critical},
	} {
		d := threeHours(t, 21, days.Options{Servers: 2, Features: days.Join | days.KubeadmJoin | days.Deployments})
		switch c.how {
		case "late":
			d.State = beginningAt(d.State, d.From.Add(135*time.Minute))
		case "ended":
			d.State = slices.DeleteFunc(d.State, func(e *days.Entry) bool { return e.At.After(d.From.Add(45 * time.Minute)) })
		}
		for i, e := range d.Events {
			if e.IsNode() && e.Verb == "watch" && e.Ref.Resource == "secrets" && strings.HasPrefix(e.DecisionReason, "RBAC") {
				changed := *e
				changed.Verb = c.verb
				if c.from != "" {
					changed.SourceIPs = []string{c.from}
				}
				if d.Events[i] = &changed; c.verb == "get" {
					changed.URI = "/api/v1/namespaces/" + e.Ref.Namespace + "/secrets/" + e.Ref.Name
				}
			}
		}
		a := analyzedDay(t, d, fromJournal(t, d))
		worst := rules.None
		for i := range a.Report.Findings {
			severity, err := rules.ParseSeverity(a.Report.Findings[i].Severity)
			if err != nil {
				t.Fatal(err)
			}
			worst = max(worst, severity)
		}
		if ready := checks.Conclude(checks.Ready, a.Facts.Checks, nil).Answer; string(ready) != c.ready || worst != c.worst && (worst > c.worst || c.how != "whole") {
			t.Errorf("%s, %s from %q: %s, the worst finding is %s; want %s, %s", c.how, c.verb, c.from, ready, worst, c.ready, c.worst)
		}
	}
}

// beginningAt is a state that somebody began to record at t.
func beginningAt(all []*days.Entry, t time.Time) (out []*days.Entry) {
	type object struct{ kind, namespace, name string }
	there := map[object]*days.Entry{}
	after := slices.IndexFunc(all, func(e *days.Entry) bool { return e.At.After(t) })
	for _, e := range all[:after] {
		of := object{e.Kind, e.Namespace, e.Name}
		if there[of] = e; e.Type == "DELETED" {
			delete(there, of)
		}
	}
	for _, e := range all[:after] {
		if there[object{e.Kind, e.Namespace, e.Name}] == e {
			listed := *e
			listed.At, listed.Type = t, "ADDED"
			out = append(out, &listed)
		}
	}
	return append(out, all[after:]...)
}

// A node that gets another address after the state has ended is no theft. Who reads a secret next to its kubelet is.
func TestAddressThatCameAfterTheState(t *testing.T) {
	for _, c := range []struct {
		name     string
		before   time.Duration // how long before the change the state ends
		stolen   bool
		critical bool
		want     checks.State // of one-holder
	}{
		{"long before", 10 * time.Minute, false, false, checks.Unproven},
		{"shortly before", time.Minute, false, false, checks.Unproven},
		{"before the Node has it", -time.Second, false, false, checks.Unproven},
		{"and somebody else", 10 * time.Minute, true, true, checks.Failed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := threeHours(t, 21, days.Options{Servers: 2, Features: days.DHCP | days.Deployments, NoBinding: true})
			address := func(e *days.Event) string { return e.SourceIPs[0] }
			first, moved := map[string]string{}, time.Time{}
			var own *days.Event // the first request from the new address
			for _, e := range d.Events {
				if !e.IsNode() || len(e.SourceIPs) == 0 {
					continue
				}
				if was, is := first[e.User.Username]; !is {
					first[e.User.Username] = address(e)
				} else if was != address(e) && own == nil {
					own, moved = e, e.Received
				}
			}
			if own == nil {
				t.Fatal("no node gets another address")
			}
			d.State = slices.DeleteFunc(d.State, func(e *days.Entry) bool { return e.At.After(moved.Add(-c.before)) })
			if c.stolen {
				for i, e := range d.Events {
					if e.IsNode() && e.User.Username == own.User.Username && e.Received.After(moved.Add(30*time.Minute)) && e.Ref != nil && e.Ref.Resource == "secrets" && e.Code == 200 {
						theft := *e
						theft.AuditID, theft.SourceIPs = "cccccccc-0000-4000-8000-000000000000", []string{"203.0.113.9"}
						d.Events = slices.Insert(d.Events, i+1, &theft)
						break
					}
				}
			}
			a := analyzedDay(t, d, fromJournal(t, d))
			critical := slices.ContainsFunc(a.Report.Findings, func(f report.Finding) bool { return f.Severity == rules.Critical.String() })
			if critical != c.critical {
				t.Errorf("critical findings: %t", critical)
			}
			for _, r := range a.Facts.Checks {
				if r.Check == "one-holder" && r.State != c.want {
					t.Errorf("one-holder: %s, want %s: %v", r.State, c.want, r.Evidence)
				}
			}
		})
	}
}

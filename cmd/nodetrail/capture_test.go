package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nodetrail/nodetrail/report"
)

// invoke runs the program in this process.
func invoke(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

// judge analyzes and returns the report, and the verdict lines as they are.
func judge(t *testing.T, args ...string) (*report.Report, []string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "verdicts.jsonl")
	code, out, errs := invoke(t, "", append([]string{"analyze", "-o", "json", "--verdicts", file}, args...)...)
	if code != 0 || errs != "" {
		t.Fatalf("exit status %d, standard error %q", code, errs)
	}
	r := &report.Report{}
	if err := json.Unmarshal([]byte(out), r); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	if int64(len(lines)) != r.Events.Judged {
		t.Fatalf("%d verdict lines for %d judged requests", len(lines), r.Events.Judged)
	}
	return r, lines
}

// unannotated is the log without the API server's own word.
func unannotated(t *testing.T, log string) string {
	t.Helper()
	lines, err := plainLines(log)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for _, line := range lines {
		var ev map[string]json.RawMessage
		if err := json.Unmarshal(line, &ev); err != nil {
			t.Fatal(err)
		}
		delete(ev, "annotations")
		b, err := json.Marshal(ev)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(b)
		out.WriteByte('\n')
	}
	name := filepath.Join(t.TempDir(), "unannotated.log")
	if err := os.WriteFile(name, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestCapture137 is the same of a cluster of Kubernetes 1.37, whose reasons begin with the authorizer's name.
func TestCapture137(t *testing.T) {
	const folder = "../../internal/demo/capture-1.37"
	log := folder + "/audit.log.gz"
	r, lines := judge(t, "--kubernetes-version", "1.37", "--state", folder+"/journal.jsonl.gz", "--skew", "150ms", log)
	a := r.Agreement
	if len(a.Disagree) > 0 || a.DisagreeMore > 0 || a.Compared != a.Agree {
		t.Errorf("outside of races %d of %d agree: %+v", a.Agree, a.Compared, a.Disagree)
	}
	if r.Events.Judged != 1605 || r.Verdicts.Unknown > 0 || r.Authorization.Mode != "Node,RBAC" {
		t.Errorf("judged %d requests, want 1605; %d are unknown; mode %q", r.Events.Judged, r.Verdicts.Unknown, r.Authorization.Mode)
	}
	if a.Reasons.Compared != 495 || a.Reasons.Equal != a.Reasons.Compared {
		t.Errorf("%d of %d reasons are equal, want 495 of 495", a.Reasons.Equal, a.Reasons.Compared)
	}
	for _, line := range lines {
		if v := decodeVerdict(t, line); v.Verdict == "deny" && v.Reason != "" && !strings.HasPrefix(v.Reason, "node: ") {
			t.Fatalf("the reason %q does not name the authorizer", v.Reason)
		}
	}
	_, older := judge(t, "--kubernetes-version", "1.36", "--state", folder+"/journal.jsonl.gz", "--skew", "150ms", log)
	verdicts, reasons := 0, 0
	for i := range lines {
		is, was := decodeVerdict(t, lines[i]), decodeVerdict(t, older[i])
		switch {
		case is.Verdict != was.Verdict:
			verdicts++
			if is.Resource != "podcertificaterequests" || is.Verdict != "allow" {
				t.Errorf("as 1.36 another verdict: %s", lines[i])
			}
		case is.Reason != was.Reason:
			reasons++
		}
	}
	if verdicts == 0 || reasons < 495 {
		t.Errorf("judged as 1.36 %d verdicts and %d reasons are others", verdicts, reasons)
	}
}

// TestCaptureNodeRBAC holds the figures that were set as the goal for a real cluster with --authorization-mode=Node,RBAC.
func TestCaptureNodeRBAC(t *testing.T) {
	log := capture + "/audit.log.gz"
	r, lines := judge(t, "--kubernetes-version", "1.36", "--state", capture+"/journal.jsonl.gz", "--skew", "150ms", log)
	if r.Authorization.Mode != "Node,RBAC" || !r.Authorization.Inferred {
		t.Errorf("authorizers %q, inferred %t", r.Authorization.Mode, r.Authorization.Inferred)
	}
	a := r.Agreement
	if len(a.Disagree) > 0 || a.DisagreeMore > 0 || a.Compared != a.Agree {
		t.Errorf("outside of races %d of %d agree: %+v", a.Agree, a.Compared, a.Disagree)
	}
	if r.Events.Judged != 2247 {
		t.Errorf("judged %d requests, want 2247", r.Events.Judged)
	}
	if r.Verdicts.Unknown*100 > r.Events.Judged {
		t.Errorf("%d of %d are unknown, more than 1 %%", r.Verdicts.Unknown, r.Events.Judged)
	}
	if a.Reasons.Compared == 0 || a.Reasons.Equal != a.Reasons.Compared {
		t.Errorf("%d of %d reasons are equal", a.Reasons.Equal, a.Reasons.Compared)
	}
	all, agree := a.Compared+a.Races.Compared, a.Agree+a.Races.Agree
	if agree*1000 < all*980 || all+r.Verdicts.Unknown < r.Events.Judged {
		t.Errorf("%d of %d agree, races included (%.2f %%), want 98.0 %%", agree, all, 100*float64(agree)/float64(all))
	}
	t.Logf("%d of %d agree, races included (%.2f %%)", agree, all, 100*float64(agree)/float64(all))

	others, races := 0, 0
	for _, line := range lines {
		v := decodeVerdict(t, line)
		if strings.HasPrefix(v.UserAgent, "hollow-kubelet") {
			continue
		}
		others++
		if v.Race {
			races++
		}
	}
	if others == 0 || races*100 > others {
		t.Errorf("%d of %d requests of other user agents than hollow-kubelet are races, more than 1 %%", races, others)
	}

	t.Run("without annotations", func(t *testing.T) {
		r, bare := judge(t, "--kubernetes-version", "1.36", "--state", capture+"/journal.jsonl.gz", "--skew", "150ms", unannotated(t, log))
		if r.Agreement.Compared+r.Agreement.Races.Compared != 0 || r.Authorization.Mode != "" {
			t.Errorf("agreement %+v and mode %q without annotations", r.Agreement, r.Authorization.Mode)
		}
		if n := len(lines); n != len(bare) {
			t.Fatalf("%d lines, want %d", len(bare), n)
		}
		for i := range lines {
			// What is not the API server's word, and the findings that follow from it, is the same byte for byte.
			if got, want := ownPart(t, bare[i]), ownPart(t, lines[i]); got != want {
				t.Fatalf("line %d:\ngot  %s\nwant %s", i+1, got, want)
			}
		}
	})
	t.Run("bodies alone", func(t *testing.T) {
		r, _ := judge(t, "--skew", "150ms", log)
		if a := r.Agreement; len(a.Disagree) > 0 || a.Compared != a.Agree || a.Compared == 0 {
			t.Errorf("outside of races %d of %d agree: %+v", a.Agree, a.Compared, a.Disagree)
		}
		if r.Verdicts.Unknown == 0 || r.Readiness.Ready {
			t.Errorf("unknown %d, readiness %+v", r.Verdicts.Unknown, r.Readiness)
		}
	})
	t.Run("state alone", func(t *testing.T) {
		r, _ := judge(t, "--state", capture+"/journal.jsonl.gz", "--state-from-audit=false", "--skew", "1s", log)
		if a := r.Agreement; len(a.Disagree) > 0 || a.Compared != a.Agree || a.Compared == 0 {
			t.Errorf("outside of races %d of %d agree: %+v", a.Agree, a.Compared, a.Disagree)
		}
	})
}

// ownPart cuts the API server's word and the findings out of a verdict line.
func ownPart(t *testing.T, line string) string {
	t.Helper()
	before, rest, ok := strings.Cut(line, `,"observed":`)
	_, after, ok2 := strings.Cut(rest, `},"code":`)
	after, _, ok3 := strings.Cut(after, `,"findings":`)
	if !ok || !ok2 || !ok3 {
		t.Fatalf("not a verdict line: %s", line)
	}
	return before + after
}

// TestCaptureRBACOnly is a cluster before its migration: RBAC only, and one binding that carries everything.
func TestCaptureRBACOnly(t *testing.T) {
	r, lines := judge(t, "--state", rbacOnly+"/journal.jsonl.gz", "--skew", "150ms", rbacOnly+"/audit.log.gz")
	if r.Authorization.Mode != "RBAC" || !r.Authorization.Inferred {
		t.Errorf("authorizers %q, inferred %t", r.Authorization.Mode, r.Authorization.Inferred)
	}
	if r.Agreement.Compared+r.Agreement.Races.Compared != 0 {
		t.Errorf("RBAC only says nothing about Node, but was compared: %+v", r.Agreement)
	}
	if r.Readiness.Ready || len(r.Readiness.Blockers) == 0 {
		t.Errorf("readiness %+v", r.Readiness)
	}
	named := regexp.MustCompile(`^[0-9]+ requests? of ".+" on [0-9]+ nodes? would break without ClusterRoleBinding legacy:system:node: `)
	if !slices.ContainsFunc(r.Readiness.Blockers, named.MatchString) {
		t.Errorf("no blocker names the binding: %q", r.Readiness.Blockers)
	}
	breaking := 0
	for _, line := range lines {
		v := decodeVerdict(t, line)
		if v.Observed.Binding == nil && v.Observed.Authorizer == "rbac" {
			t.Errorf("RBAC allowed %s, and no binding is named", v.AuditID)
		}
		if slices.Contains(v.Findings, "rbac-excess-access") {
			breaking++
			if v.Verdict != "deny" || v.Race || v.Observed.Binding == nil || v.Observed.Binding.Name != "legacy:system:node" {
				t.Errorf("would not break: %s", line)
			}
		}
	}
	var excess int64
	for _, n := range r.Nodes {
		excess += n.Excess
	}
	if breaking == 0 || int64(breaking) != excess {
		t.Errorf("%d verdict lines and %d requests in the report would break", breaking, excess)
	}
}

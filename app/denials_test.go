package app

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/pipeline/file"
	"github.com/nodetrail/nodetrail/report"
)

// TestApiserverLogOfCaptures matches every NODE DENY line of a real API server with its audit event, but for those that answer access reviews. Each refusal
// in the audit log that upstream writes a line for has one.
func TestApiserverLogOfCaptures(t *testing.T) {
	f := func(name string, lines, matched, unknown, reviews int64) {
		t.Helper()
		o := captureOptions(name)
		o.ApiserverLogs = []string{filepath.Join("../internal/demo", name, "apiserver-deny.log.gz")}
		denied := map[string]string{}
		o.Each = func(j *pipeline.Judgement) error {
			if j.IsNode && j.Observed.NodeVerdict == nodeauthz.Deny {
				denied[strings.Clone(j.Event.AuditID)] = fmt.Sprintf("node '%s' cannot ", j.Node)
			}
			return nil
		}
		a, err := Analyze(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		d := a.Report.ApiserverLog
		if d.Lines != lines || d.Matched != matched || d.Unknown != unknown || d.Reviews != reviews || d.Unmatched != reviews || d.Unreadable+d.Outside+d.Dropped != 0 {
			t.Errorf("%s: %s; %d reviews", name, d.Words(), d.Reviews)
		}
		for i := range d.MatchedLines {
			m := &d.MatchedLines[i]
			if who, ok := denied[m.AuditID]; !ok || !strings.HasPrefix(m.Message, who) {
				t.Errorf("%s: line %d, %q, matches %s, which is denied: %v", name, m.Line, m.Message, m.AuditID, ok)
			}
			delete(denied, m.AuditID)
		}
		if hasGap(a, codes.DenialsUnlogged) {
			t.Errorf("%s: there is a gap", name)
		}
	}
	f("capture", 1067, 1056, 629, 11)
	f("capture-1.37", 715, 708, 438, 7)
	f("capture-writes", 239, 239, 50, 0)
}

func hasGap(a *Analysis, code codes.Code) bool {
	for i := range a.Facts.Lacks {
		if a.Facts.Lacks[i].Code == code {
			return true
		}
	}
	return false
}

// TestDenialsWithoutEvent gives an audit log that lacks what an audit policy could hide: each line of such a request is listed, and the report has a gap.
func TestDenialsWithoutEvent(t *testing.T) {
	o := captureOptions("capture")
	log := filepath.Join(t.TempDir(), "audit.log")
	r, done, err := file.Open(t.Context(), o.Logs[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	all, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for line := range bytes.Lines(all) {
		if !bytes.Contains(line, []byte(`"resource":"secrets"`)) {
			out.Write(line)
		}
	}
	if err := os.WriteFile(log, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	o.Logs = []string{log}
	forged := "I1121 06:04:30.000000       1 node_authorizer.go:1] NODE DENY: node 'a\x1b[2J' cannot get unknown secret a/b\n"
	o.Stdin, o.ApiserverLogs = strings.NewReader(forged), []string{"../internal/demo/capture/apiserver-*.gz", "-"}
	a, err := Analyze(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	d := a.Report.ApiserverLog
	if d.Unlogged() < 100 || d.Matched < 100 || d.Matched+d.Unmatched != d.Lines || !hasGap(a, codes.DenialsUnlogged) {
		t.Errorf("%s", d.Words())
	}
	for i := range d.UnmatchedLines {
		if m := &d.UnmatchedLines[i]; !strings.Contains(m.Message, "secret") && !strings.Contains(m.Message, "access review") {
			t.Errorf("%q is not matched", m.Message)
		}
	}
	for i := range a.Facts.Checks {
		if c := &a.Facts.Checks[i]; c.Check == "state-complete" && c.State == checks.Passed {
			t.Error("the check passes over the gap")
		}
	}
	var text bytes.Buffer
	d.UnmatchedLines = d.UnmatchedLines[len(d.UnmatchedLines)-1:]
	for i := range d.UnmatchedLines {
		d.UnmatchedLines[i].Message += "\x1b[2J"
	}
	if err := (report.Text{All: true}).Write(&text, a.Report); err != nil {
		t.Fatal(err)
	}
	if s := text.String(); strings.Contains(s, "\x1b") || !strings.Contains(s, `\u{1b}[2J`) || !strings.Contains(s, "without an audit event") {
		t.Errorf("the report has %q", s)
	}
}

// TestApiserverLogThatCannotBeRead names the flag's file and the cause.
func TestApiserverLogThatCannotBeRead(t *testing.T) {
	f := func(path, want string) {
		t.Helper()
		o := captureOptions("capture")
		o.ApiserverLogs = []string{path}
		if _, err := Analyze(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	cut := filepath.Join(t.TempDir(), "cut.gz")
	b, err := os.ReadFile("../internal/demo/capture/apiserver-deny.log.gz")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cut, b[:len(b)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	f(cut, cut+": the compressed data is cut off")
	f("nosuch.log", "nosuch.log: no such file")
	f("nosuch-*.log", "nosuch-*.log: no such file")
	f(t.TempDir(), "a folder, not the API server's own log: give one file")
}

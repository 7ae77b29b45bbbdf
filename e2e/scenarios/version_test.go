package scenarios

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nodetrail/nodetrail/e2e/plane"
	"github.com/nodetrail/nodetrail/e2e/trail"
	"github.com/nodetrail/nodetrail/report"
)

// analyzed is the report of analyze on the audit log so far, with the state that run has learned. No API server is asked.
func (w *world) analyzed(t *testing.T, flags ...string) *trail.Report {
	t.Helper()
	args := slices.Concat([]string{"analyze", "-o", "json", "--min-window", "0", "--audit-policy", w.plane.Options.Policy, "--state", filepath.Join(work.Dir, w.name+"-data", "state")},
		flags, []string{w.plane.AuditLogPath()})
	return plane.Must(trail.ParseReport(plane.Must(trail.Run(w.ctx, w.program, args...))(t)))(t)
}

// testVersion holds analyze to it that the audit log alone shows the minor that runs: there is no flag and no API server to ask. A flag with another
// minor is contradicted, and the requests that contradict it are named.
//
// Seen to fail with hypotheses that lack the minor, and with a check that believes the flag.
func testVersion(t *testing.T, w *world) {
	name := fmt.Sprintf("1.%d", w.minor())
	r := w.analyzed(t)
	if len(r.Authorization.Versions) == 0 {
		t.Error("the report has no version")
	}
	for _, v := range r.Authorization.Versions {
		if v.Name != name || v.Against != 0 || !v.Known {
			t.Errorf("the log of %s shows %+v", name, v)
		}
	}
	if c := checkOf(t, r.Readiness.Checks, "version-known"); c.State != "passed" {
		t.Errorf("version-known is %s: %+v", c.State, c.Evidence)
	}
	if a := r.Agreement; a.Compared == 0 || a.Reasons.Compared == 0 || a.Reasons.Equal != a.Reasons.Compared {
		t.Errorf("without a flag: %+v", a)
	}
	t.Logf("%q", r.Authorization.VersionLines())

	wrong := "1.37"
	if name == wrong {
		wrong = "1.36"
	}
	c := checkOf(t, w.analyzed(t, "--kubernetes-version", wrong).Readiness.Checks, "version-known")
	if c.State != "failed" || !slices.ContainsFunc(c.Evidence, func(i report.CheckItem) bool { return i.State == "failed" && len(i.AuditIDs) > 0 }) {
		t.Errorf("with --kubernetes-version %s version-known is %s: %+v", wrong, c.State, c.Evidence)
	}
}

func checkOf(t *testing.T, all []report.Check, name string) report.Check {
	t.Helper()
	i := slices.IndexFunc(all, func(c report.Check) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("the report has no check %s", name)
	}
	return all[i]
}

// testCredentialIDs looks for the certificate that each request of a node was made with, which one-holder needs. Before 1.32 no API server writes it:
// then one-holder must not pass, and says why.
//
// Seen to fail with a decoder that reads no extra fields of the user.
func testCredentialIDs(t *testing.T, w *world) {
	const unnamed = "credential-not-named"
	logged := has(t, "credential IDs of certificates", 32)
	with, without := 0, 0
	plane.Check(t, w.plane.Log.Each(func(e *plane.Event) {
		if e.ImpersonatedUser != nil || !slices.Contains(e.User.Groups, "system:nodes") {
			return
		}
		if len(e.User.Extra["authentication.kubernetes.io/credential-id"]) > 0 {
			with++
		} else {
			without++
		}
	}))
	if logged && without > 0 || !logged && with > 0 || with+without == 0 {
		t.Errorf("%d requests of nodes have a credential ID, %d have none", with, without)
	}
	c := checkOf(t, w.analyzed(t).Confinement.Checks, "one-holder")
	says := slices.ContainsFunc(c.Evidence, func(i report.CheckItem) bool { return i.Code == unnamed })
	if says == logged || !logged && c.State == "passed" {
		t.Errorf("one-holder is %s: %+v", c.State, c.Evidence)
	}
}

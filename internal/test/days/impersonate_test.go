package days

import (
	"slices"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/incidents"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/rules"
)

// What a node reads as somebody else is a theft by the node, whichever binding lets it act so.
func TestTheftAsSomebodyElse(t *testing.T) {
	for _, to := range []string{"system:nodes", "system:authenticated"} {
		t.Run(to, func(t *testing.T) {
			day := clean(t, 31, Options{Span: leastSpan})
			d := day.copyOf()
			m := &mutator{newRand(7, d.Seed), d}
			node, at, old := m.node(), m.moment(), m.From.Add(-time.Hour)
			m.addState(role(m.Rand, "", "impersonators", old, rule("impersonate", "", "users,groups")),
				binding(m.Rand, "", "impersonators", "impersonators", old, subject("Group", "", to)))
			e := *m.like(node, at)
			e.AuditID, e.Stage, e.Verb, e.Code, e.Received, e.Staged = uuid(m.Rand), StageComplete, "get", 200, at, at.Add(milli)
			e.URI, e.Ref = resSecrets.path("vault", "root", ""), &Ref{Version: "v1", Resource: "secrets", Namespace: "vault", Name: "root"}
			e.Impersonated = &User{Username: "admin", Groups: []string{"system:masters", "system:authenticated"}}
			e.Request, e.Decision, e.DecisionReason, e.Message, e.Reason, e.Issued = nil, "allow", "", "", "", ""
			m.add(&e)
			got := analyze(t, d)
			if !slices.ContainsFunc(got.Findings, func(f report.Finding) bool {
				return f.Severity == rules.Critical.String() && f.Node == node && f.Name == "root" && f.Params.Text(rules.ParamAddress) == e.SourceIPs[0] &&
					f.Params.Text(rules.ParamUser) == "admin" && f.Binding.Name == "impersonators" && f.Allowed
			}) {
				t.Errorf("no critical finding: %+v", got.Findings)
			}
			if !slices.ContainsFunc(got.Incidents, func(in incidents.Incident) bool {
				return in.Credential == node && in.Severity == rules.Critical.String() && len(in.Addresses) == 1 && in.Addresses[0].Value == e.SourceIPs[0] &&
					slices.Contains(in.Rotate, incidents.Object{Resource: "secrets", Namespace: "vault", Name: "root"})
			}) {
				t.Errorf("no incident: %+v", got.Incidents)
			}
		})
	}
}

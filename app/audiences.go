package app

import (
	"cmp"
	"slices"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/report"
)

// verbAudience is the verb by which NodeRestriction asks RBAC about an audience: the resource is the audience, the name the service account.
const verbAudience = "request-serviceaccounts-token-audience"

// audiencesOf says which audiences of tokens RBAC lets nodes ask for at t, and which CSI drivers have any.
func audiencesOf(s *cluster.State, t time.Time) *report.Audiences {
	out := &report.Audiences{Known: s.RBAC.Covers(t), Holders: []report.AudienceHolder{}, Drivers: []report.AudienceDriver{}}
	drivers, known := s.Admission.AllDrivers(t)
	out.DriversKnown = known
	for name, audiences := range drivers {
		if len(audiences) > 0 {
			out.Drivers = append(out.Drivers, report.AudienceDriver{Name: name, Audiences: audiences})
		}
	}
	slices.SortFunc(out.Drivers, func(a, b report.AudienceDriver) int { return cmp.Compare(a.Name, b.Name) })
	for b := range s.RBAC.Bindings(t) {
		subjects := nodeSubjects(b.Subjects)
		if len(subjects) == 0 || !b.RoleExists {
			continue
		}
		for i := range b.Rules {
			if r := &b.Rules[i]; givesAudience(r) {
				h := report.AudienceHolder{
					Binding: report.Binding{Kind: b.Binding.Kind, Namespace: b.Binding.Namespace, Name: b.Binding.Name}, Role: b.Role.Name, Subjects: subjects,
					Namespace: b.Binding.Namespace, Audiences: slices.Clone(r.Resources), ServiceAccounts: append([]string{}, r.ResourceNames...),
					Any: slices.Contains(r.Resources, rbacv1.ResourceAll), Drivers: []string{},
				}
				for _, d := range out.Drivers {
					if h.Any || slices.ContainsFunc(d.Audiences, func(a string) bool { return slices.Contains(h.Audiences, a) }) {
						h.Drivers = append(h.Drivers, d.Name)
					}
				}
				out.Holders = append(out.Holders, h)
			}
		}
	}
	slices.SortStableFunc(out.Holders, func(a, b report.AudienceHolder) int { // any audience first
		switch {
		case a.Any == b.Any:
			return 0
		case a.Any:
			return -1
		}
		return 1
	})
	return out
}

// nodeSubjects are the subjects that nodes are, "Group system:nodes" and the like.
func nodeSubjects(all []rbac.SubjectRef) (out []string) {
	for _, s := range all {
		if s.ForNodes() || s.Authenticated() {
			out = append(out, s.Kind+" "+s.Name)
		}
	}
	return out
}

// givesAudience reports whether a rule lets somebody ask for audiences: those of service accounts, which are in the core group.
func givesAudience(r *rbacv1.PolicyRule) bool {
	has := func(all []string, one string) bool { return slices.Contains(all, one) || slices.Contains(all, "*") }
	return has(r.Verbs, verbAudience) && has(r.APIGroups, "") && len(r.Resources) > 0
}

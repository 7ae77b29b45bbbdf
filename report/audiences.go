package report

import (
	"fmt"
	"strings"

	"github.com/nodetrail/nodetrail/wording"
)

// Audiences says which tokens of service accounts nodes may ask for although no volume of a pod needs them, and which CSI drivers have audiences of
// their own. NodeRestriction allows a node the audiences that volumes of its pods use, and asks RBAC about all others (Kubernetes 1.33 and later).
type Audiences struct {
	// Known is false when there may be more holders, as the state does not know all roles and bindings; DriversKnown, when there may be more drivers.
	Known        bool             `json:"known"`
	DriversKnown bool             `json:"driversKnown"`
	Holders      []AudienceHolder `json:"holders"`
	Drivers      []AudienceDriver `json:"drivers"`
}

// AudienceHolder is a rule of a role by which nodes may ask for audiences.
type AudienceHolder struct {
	Binding Binding `json:"binding"`
	Role    string  `json:"role"`
	// Subjects are the groups and users of nodes that it is bound to.
	Subjects []string `json:"subjects"`
	// Audiences are those that it names, "*" for any. ServiceAccounts are those of whose tokens, empty for all; Namespace is that of these, empty for all.
	Audiences       []string `json:"audiences"`
	ServiceAccounts []string `json:"serviceAccounts"`
	Namespace       string   `json:"namespace"`
	// Any is true when it allows any audience.
	Any bool `json:"any"`
	// Drivers are the CSIDrivers that ask for one of the audiences. Their volumes need no such rule.
	Drivers []string `json:"drivers"`
}

// AudienceDriver is a CSIDriver with tokenRequests.
type AudienceDriver struct {
	Name      string   `json:"name"`
	Audiences []string `json:"audiences"`
}

// Lines say it, a sentence for each holder and driver; nil if there are none. The findings come first.
func (a *Audiences) Lines() []string {
	if a == nil || len(a.Holders)+len(a.Drivers) == 0 {
		return nil
	}
	var out []string
	for i := range a.Holders {
		h := &a.Holders[i]
		s := fmt.Sprintf("%s %s lets %s request tokens", h.Binding.Kind, joinName(h.Binding.Namespace, h.Binding.Name), some(h.Subjects))
		if h.Any {
			s = "high: " + s + " for any audience"
		} else {
			s += " for the audience " + some(quoted(h.Audiences))
		}
		if len(h.ServiceAccounts) > 0 {
			s += " of the service account " + some(h.ServiceAccounts)
		}
		if h.Namespace != "" {
			s += " in namespace " + h.Namespace
		}
		if len(h.Drivers) > 0 && !h.Any {
			s += fmt.Sprintf("; the CSI driver %s asks for it, and its volumes do not need this rule", some(h.Drivers))
		}
		out = append(out, s)
	}
	for _, d := range a.Drivers {
		out = append(out, fmt.Sprintf("the CSI driver %s requests tokens for the audience %s: NodeRestriction allows them for pods with its volumes", d.Name, some(quoted(d.Audiences))))
	}
	if !a.Known {
		out = append(out, "more bindings may let nodes request tokens: the state does not know all roles and bindings")
	}
	return out
}

func some(names []string) string { return wording.Some(names, len(names), planNames) }

func (t Text) audiences(b *strings.Builder, r *Report) {
	lines := r.TokenAudiences.Lines()
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n", t.paint(bold, "Audiences of service account tokens"))
	for i, s := range lines {
		sign := t.paint(dim, "-")
		if i < len(r.TokenAudiences.Holders) && r.TokenAudiences.Holders[i].Any {
			sign = t.paint(red, "x")
		}
		fmt.Fprintf(b, "  %s %s\n", sign, wording.Visible(s))
	}
}

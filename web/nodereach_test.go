package web

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/explain"
	"github.com/nodetrail/nodetrail/rules"
)

// TestNodeReach holds that a node's page lists what the explainer says, and has each secret rotated that was read by a binding alone, but none
// for a request that failed anyway.
func TestNodeReach(t *testing.T) {
	for _, name := range []string{"capture", "capture-rbac-only"} {
		s := captureSite(t, name)
		h := s.server()
		read, passed, objects := 0, 0, 0
		for _, node := range s.facts.Nodes {
			p, err := h.data.node(t.Context(), node, "")
			ok(t, err)
			if p.Reach == nil || p.Unreached != "" {
				t.Fatalf("%s: %q", node, p.Unreached)
			}
			objects += len(p.Reach.Objects)
			rotated, could := map[string]bool{}, map[string]bool{}
			for _, r := range p.Reach.Rotate {
				if r.Kind == "secret" && strings.HasPrefix(r.Why, "was read") {
					rotated[r.Namespace+"/"+r.Name] = true
				}
				could[r.Namespace+"/"+r.Name] = true
			}
			for _, o := range p.Reach.Objects {
				if o.Object.Kind == "secret" && !could[o.Object.Namespace+"/"+o.Object.Name] {
					t.Errorf("%s: %v is not to be rotated", node, o.Object)
				}
			}
			want := map[string]bool{}
			for _, f := range s.page(t, h, "limit=1000&rule="+rules.ExcessAccess+"&node="+node).Findings {
				switch {
				case f.Resource != "secrets" || !slices.Contains([]string{"get", "list", "watch"}, f.Verb) || f.Name == "" || !f.Allowed:
				case slices.Contains([]rules.Reason{rules.ObjectMissing, rules.AdmissionRefused, rules.NameImpossible, rules.BindingDuringLag, rules.OwnUntilBefore}, f.Reason):
					passed++
				default:
					read++
					want[f.Namespace+"/"+f.Name] = true
				}
			}
			for name := range want {
				if !rotated[name] {
					t.Errorf("%s read %s, which is not to be rotated", node, name)
				}
			}
			for name := range rotated {
				if !want[name] {
					t.Errorf("%s did not read %s", node, name)
				}
			}
			body := do(h, request("/nodes/"+url.PathEscape(node), "Accept", "text/html")).Body.String()
			for _, part := range []string{"What its credential could reach", "What to rotate if it was stolen", "the credential of node " + node} {
				if !strings.Contains(body, part) {
					t.Errorf("the page of %s lacks %q", node, part)
				}
			}
		}
		if read < 3 || objects < 20 {
			t.Errorf("%s: %d secrets read, %d failed anyway, %d objects", name, read, passed, objects)
		}
	}
}

// Without a state the page says so.
func TestNodeReachWithoutState(t *testing.T) {
	s := captureSite(t, "capture")
	s.o.Live = nil
	p, err := s.server().data.node(t.Context(), "worker-1", "")
	ok(t, err)
	if p.Reach != nil || p.Unreached == "" {
		t.Errorf("%+v %q", p.Reach, p.Unreached)
	}
	u := explain.BeyondOf("n", []explain.Use{{Count: 2, First: time.Unix(5, 0), Last: time.Unix(9, 0)}, {Count: 3, First: time.Unix(2, 0), Last: time.Unix(3, 0)}})
	if u.Requests != 5 || u.From.Unix() != 2 || u.To.Unix() != 9 || u.Uses[0].AuditIDs == nil {
		t.Errorf("%+v", u)
	}
}

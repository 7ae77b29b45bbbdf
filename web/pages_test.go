package web

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/internal/test/effort"
)

// Every page of a real store is one of those that the checks of pages hold good, whatever the names in it are, and under 500 kB.
func TestPagesOfRealStores(t *testing.T) {
	most := effort.Of(60, 4) // findings of each store whose pages are looked at
	for name, s := range map[string]*site{
		"capture": captureSite(t, "capture"), "rbac-only": captureSite(t, "capture-rbac-only"), "hostile": hostileSite(t), "empty": newSite(t, time.Hour), "big": bigSite(t, effort.Of(10_000, 300), 2),
	} {
		h := s.server()
		paths := []string{"/", "/?window=1h", "/findings", "/findings?limit=100", "/findings?group=object", "/nodes", "/bindings", "/checks", "/checks/nothing-depends", "/checks/no-excess-use", "/rules", "/rules/node-identity", "/objects", "/incidents"}
		var findings FindingsPage
		ok(t, json.Unmarshal(do(h, request(fmt.Sprintf("/api/v1/findings?limit=%d", most))).Body.Bytes(), &findings))
		for _, f := range findings.Findings {
			paths = append(paths, "/findings/"+f.ID, "/findings?q="+url.QueryEscape(f.Name))
			if reachable(f.Node) {
				paths = append(paths, "/nodes/"+url.PathEscape(f.Node))
			}
			if reachable(f.Name) && f.Namespace != "" && reachable(f.Namespace) && reachable(f.Resource) {
				paths = append(paths, "/objects/"+url.PathEscape(f.Resource)+"/"+url.PathEscape(f.Namespace)+"/"+url.PathEscape(f.Name))
			}
		}
		var bindings BindingsPage
		ok(t, json.Unmarshal(do(h, request("/api/v1/bindings")).Body.Bytes(), &bindings))
		for _, b := range bindings.Bindings {
			if reachable(b.Binding.Name) && b.Binding.Namespace == "" {
				paths = append(paths, "/bindings/clusterrolebinding/-/"+url.PathEscape(b.Binding.Name))
			}
			if name == "capture" && b.Role == "" {
				t.Errorf("the role of %s is not known", b.Binding.Name)
			}
		}
		for _, path := range paths {
			w := do(h, request(path, "Accept", "text/html"))
			body := w.Body.String()
			if w.Code != 200 || len(body) > maxPage || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
				t.Errorf("%s, %.200s: status %d, %d bytes", name, path, w.Code, len(body))
				continue
			}
			checkPage(t, name+" "+path, body)
		}
	}
}

package web

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/nodetrail/nodetrail/e2e/web/chromium"
)

// maxPage is the largest that a page may be, in bytes.
const maxPage = 500_000

// view is a page and what its first heading says.
type view struct{ path, title string }

// views are all pages of a server, each with what the API knows to be there.
func views(t testing.TB, s *server) []view {
	t.Helper()
	var findings struct {
		Findings []struct{ ID, Node, Resource, Namespace, Name string }
	}
	s.json(t, "/api/v1/findings?rule=rbac-excess-access&limit=1", &findings)
	if len(findings.Findings) != 1 {
		t.Fatal("there is no finding of access that needs RBAC")
	}
	f := findings.Findings[0]
	var incidents struct{ Incidents []struct{ ID string } }
	s.json(t, "/api/v1/incidents", &incidents)
	if len(incidents.Incidents) == 0 {
		t.Fatal("there is no incident")
	}
	return []view{
		{"/", "Not ready"}, {"/?window=1h", "Not ready"}, {"/findings", "Findings"}, {"/findings?group=node", "Findings"},
		{"/findings?severity=high&rule=rbac-excess-access&sort=-last", "Findings"}, {"/findings?q=nothing+is+like+this", "Findings"},
		{"/incidents", "Incidents"}, {"/incidents/" + incidents.Incidents[0].ID, "Incident"}, {"/incidents/nothing", "Not found"},
		{"/findings/" + f.ID, "RBAC allowed a node what the Node authorizer does not"}, {"/nodes", "Nodes"},
		{"/nodes/" + url.PathEscape(f.Node), "Node "}, {"/bindings", "Bindings"},
		{"/bindings/clusterrolebinding/-/legacy:system:node", "ClusterRoleBinding legacy:system:node"}, {"/objects", "Objects"},
		{"/objects?resource=&name=x", "Objects"}, {"/objects/secrets/" + url.PathEscape(f.Namespace) + "/" + url.PathEscape(f.Name), "secrets "}, {"/checks", "Checks"},
		{"/checks/nothing-depends", "No request needs a binding that will be deleted"}, {"/checks/one-holder", "Each credential has one user"}, {"/rules", "Rules"},
		{"/rules/node-identity", "A kubelet has a wrong user or group"}, {"/login", "Sign in"}, {"/nowhere", "Not found"},
		{"/findings/nothing", "Not found"}, {"/findings?severity=loud", "Not understood"},
	}
}

// stage is what tests share: the program, a browser, and two servers of whose stores nothing is changed.
type stage struct {
	program        string
	browser        *chromium.Browser
	capture, crowd *server
}

func TestPages(t *testing.T) {
	p := program(t)
	g := &stage{program: p, browser: browser(t), capture: capture(t, p), crowd: crowd(t, p)}
	for name, test := range map[string]func(*testing.T, *stage){
		"axe": testAxeSees, "finding": testFindingTheOne, "keyboard": testKeyboard, "theme": testTheme, "paint": testFirstPaint, "updates": testUpdates, "login": testLogin, "paper": testPaper, "helps": testSmallHelps,
	} {
		t.Run(name, func(t *testing.T) { test(t, g) })
	}
	for name, s := range map[string]*server{"capture": g.capture, "crowd": g.crowd} {
		for _, v := range views(t, s) {
			t.Run(name+" "+strings.ReplaceAll(v.path[:min(40, len(v.path))], "/", "_"), func(t *testing.T) { testPage(t, g.browser, s, v) })
		}
	}
}

func testPage(t *testing.T, b *chromium.Browser, s *server, v view) {
	if n := len(s.get(t, v.path)); n > maxPage {
		t.Errorf("%d bytes, at most %d", n, maxPage)
	}
	x := open(t, b, s, v.path)
	const title = "document.querySelector('h1').textContent"
	if got := eval[string](x, title); !strings.HasPrefix(got, v.title) {
		t.Errorf("the title is %q, want %q", got, v.title)
	}
	harmless(x)
	x.axe("light")
	x.must(x.Media(x.ctx, "", "dark"))
	want(x, true, "matchMedia('(prefers-color-scheme: dark)').matches")
	want(x, "rgb(20, 23, 26)", "getComputedStyle(document.body).backgroundColor")
	x.axe("dark")

	// As narrow as a telephone, and as wide as 1280 pixels at 200 %.
	for _, width := range []int64{320, 420, 640, 1280, 1400} {
		x.must(x.Size(x.ctx, width, 800))
		if wide := eval[int64](x, "document.documentElement.scrollWidth"); wide > width {
			t.Errorf("at a width of %d the page is %d wide: %s", width, wide,
				eval[string](x, `[...document.querySelectorAll("main *, header *")].filter((e) => e.getBoundingClientRect().right > %d + 1).slice(0, 3).map((e) => e.outerHTML.slice(0, 120)).join("\n")`, width))
		}
	}
	for _, width := range []int64{320, 420, 1400} {
		x.must(x.Size(x.ctx, width, 800))
		x.axe(fmt.Sprint("at a width of ", width))
	}

	// On paper everything is light, and what cannot be pressed is not there.
	x.must(x.Media(x.ctx, "print", "dark"))
	want(x, "rgb(255, 255, 255)", "getComputedStyle(document.body).backgroundColor")
	want(x, true, "[...document.querySelectorAll('header nav, .search, .theme, .commands button, #keys-open')].every((e) => getComputedStyle(e).display === 'none' || e.closest('nav') && getComputedStyle(e.closest('nav')).display === 'none')")
	x.must(x.Media(x.ctx, "", "light"))

	// Without the script the same is there. The page may be made anew meanwhile: it is loaded with the script before and after.
	const rows = "document.querySelectorAll('main a, main tr').length"
	load := func(script bool) (int, string) {
		x.must(x.Script(x.ctx, script))
		x.open(v.path)
		return eval[int](x, rows), eval[string](x, title)
	}
	for tries := 0; ; tries++ {
		before, head := load(true)
		after, _ := load(true)
		bare, bareHead := load(false)
		if again, _ := load(true); (before != after || after != again) && tries < 5 {
			continue
		}
		if bare != after || bareHead != head {
			t.Errorf("without the script %d links and rows under %q, with it %d under %q", bare, bareHead, after, head)
		}
		break
	}
	load(false)
	want(x, true, "[...document.querySelectorAll('.scripted')].every((e) => getComputedStyle(e).display === 'none')")
}

// harmless checks that names are text: no script of theirs ran, and no element is theirs.
func harmless(x *tab) {
	x.t.Helper()
	want(x, true, "window.hostile === undefined")
	want(x, 1, "document.scripts.length")
	want(x, 0, "document.querySelectorAll('img, iframe, object, embed, [onerror]').length")
	// No mark turns the direction of a text: it is written as an escape.
	want(x, false, `/[\u202a-\u202e\u2066-\u2069\u0000-\u0008\u001b]/.test(document.body.innerText + document.title)`)
}

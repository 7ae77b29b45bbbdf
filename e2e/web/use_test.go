package web

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What axe finds where there is something to find: a check that checks nothing would find nothing, too.
func testAxeSees(t *testing.T, g *stage) {
	x := open(t, g.browser, g.capture, "/objects")
	x.must(x.Eval(x.ctx, `document.querySelector("label[for='o-name']").remove(); document.querySelector("main").insertAdjacentHTML("beforeend", "<button></button><p class='faint'>faint</p>"); document.querySelector(".faint").style.color = "#ccc"`, nil))
	r := &recorder{TB: t}
	x.t = r
	x.axe("spoilt")
	x.t = t
	for _, barrier := range []string{"label", "button-name", "color-contrast"} {
		if !strings.Contains(r.said, barrier+" (") {
			t.Errorf("axe does not see %s: %s", barrier, r.said)
		}
	}
}

// recorder keeps errors for itself.
type recorder struct {
	testing.TB
	said string
}

func (r *recorder) Error(args ...any) { r.said += fmt.Sprintln(args...) }
func (r *recorder) Helper()           {}

// The crowd's findings are filtered, sorted, grouped, paged through and exported by what a person sees of a page.
func testFindingTheOne(t *testing.T, g *stage) {
	b, s := g.browser, g.crowd
	x := open(t, b, s, "/findings")
	const rows, sum = "document.querySelectorAll('table.findings tbody tr').length", "document.querySelector('.sum strong').textContent"
	want(x, 50, rows)
	var all struct{ Total int }
	s.json(t, "/api/v1/findings?limit=1", &all)
	if all.Total < 10_000 {
		t.Fatalf("%d findings, want 10,000", all.Total)
	}
	want(x, true, "%s.replace(',', '') === '%d findings'", sum, all.Total)

	// Filled in and sent with the keyboard.
	x.must(x.Eval(x.ctx, "document.getElementById('f-q').focus()", nil))
	x.must(x.Type(x.ctx, "node-17-<script>"))
	x.must(x.Eval(x.ctx, "document.getElementById('f-rule').value = 'rbac-excess-access'; document.getElementById('f-q').focus()", nil))
	x.press("Enter")
	x.until("document.readyState === 'complete' && new URLSearchParams(location.search).get('q') === 'node-17-<script>'")
	want(x, "100 findings", sum)
	want(x, "node-17-<script>", "document.getElementById('f-q').value")
	want(x, "rbac-excess-access", "document.getElementById('f-rule').value")
	want(x, 2, "document.querySelectorAll('.chosen li').length")
	want(x, true, "[...document.querySelectorAll('table.findings tbody tr')].every((r) => r.textContent.includes('node-17-<script>'))")
	harmless(x)

	// The address alone is the same page in another browser.
	here := eval[string](x, "location.pathname + location.search")
	y := open(t, b, s, here)
	const links = "[...document.querySelectorAll('a[data-row]')].map((a) => a.href).join(' ')"
	want(y, eval[string](x, links), links)

	// Page by page each is there once.
	seen := map[string]bool{}
	for {
		for _, link := range strings.Fields(eval[string](y, links)) {
			if seen[link] {
				t.Fatalf("%s is there twice", link)
			}
			seen[link] = true
		}
		if eval[bool](y, "document.querySelector('a[rel=next]') === null") {
			break
		}
		next := eval[string](y, "(() => { const a = document.querySelector('a[rel=next]'); return a.pathname + a.search })()")
		want(y, false, "document.querySelector('a[rel=next]').click()")
		y.arrive(next)
	}
	if len(seen) != 100 {
		t.Errorf("%d findings on all pages, want 100", len(seen))
	}

	// The head of a column sorts, and the other way round when it is pressed again.
	const head, sorted = "[...document.querySelectorAll('thead a')].find((a) => a.textContent.startsWith('Last'))", "document.querySelector('th[aria-sort]').getAttribute('aria-sort') + ' ' + document.querySelector('th[aria-sort]').textContent.slice(0, 4)"
	want(x, "descending Seve", sorted)
	want(x, false, "%s.click()", head)
	x.until("document.readyState === 'complete' && new URLSearchParams(location.search).get('sort') === 'last'")
	want(x, "descending Last", sorted)
	want(x, true, "%s", inOrder("b <= a"))
	want(x, false, "%s.click()", head)
	x.until("document.readyState === 'complete' && new URLSearchParams(location.search).get('sort') === '-last'")
	want(x, "ascending Last", sorted)
	want(x, true, "%s", inOrder("a <= b"))
	want(x, "100 findings", sum)

	// A choice is taken out, and all that is left is exported.
	want(x, false, "document.querySelector('.chosen a').click()")
	x.until("document.readyState === 'complete' && !location.search.includes('q=')")
	want(x, 1, "document.querySelectorAll('.chosen li').length")
	exported(x)

	// By node, and into one of the groups.
	x.open("/findings?group=node&rule=rbac-excess-access")
	want(x, 100, "document.querySelectorAll('main table tbody tr').length")
	name := eval[string](x, "document.querySelector('a[data-row]').textContent")
	want(x, false, "document.querySelector('a[data-row]').click()")
	x.until("document.readyState === 'complete' && !location.search.includes('group=')")
	want(x, "100 findings", sum)
	want(x, true, "document.querySelector('.chosen').textContent.includes(%s)", quote(name))

	// What nobody has.
	x.open("/findings?q=nobody+has+this")
	want(x, true, "document.querySelector('.empty').textContent.startsWith('No finding is like that')")
}

// inOrder compares the times of each two rows that follow each other.
func inOrder(compare string) string {
	return "[...document.querySelectorAll('table.findings td time')].map((e) => Date.parse(e.dateTime)).every((b, i, all) => { const a = all[Math.max(0, i - 1)]; return " + compare + " })"
}

// exported reads both exports of the page and counts what is in them.
func exported(x *tab) {
	x.t.Helper()
	total := strings.ReplaceAll(strings.Fields(eval[string](x, "document.querySelector('.sum strong').textContent"))[0], ",", "")
	link := func(name string) string {
		return eval[string](x, "(() => { const a = [...document.querySelectorAll('.export a')].find((a) => a.textContent === '%s'); return a.pathname + a.search })()", name)
	}
	records, err := csv.NewReader(strings.NewReader(string(x.s.get(x.t, link("CSV"))))).ReadAll()
	if err != nil || fmt.Sprint(len(records)-1) != total {
		x.t.Errorf("%d records in the CSV, %v; want %s", len(records)-1, err, total)
	}
	var all []json.RawMessage
	b := x.s.get(x.t, link("JSON"))
	if err := json.Unmarshal(b, &all); err != nil || fmt.Sprint(len(all)) != total {
		x.t.Errorf("%d findings in the JSON, %v; want %s", len(all), err, total)
	}
}

// With the keyboard alone: from the overview to a finding, to its node, and by search.
func testKeyboard(t *testing.T, g *stage) {
	x := open(t, g.browser, g.capture, "/")
	const focused = "document.activeElement.textContent"
	x.press("Tab")
	want(x, "Skip to the content", focused)
	want(x, true, "document.activeElement.getBoundingClientRect().top >= 0 && getComputedStyle(document.activeElement).outlineStyle !== 'none'")
	x.press("Enter")
	want(x, "main", "document.activeElement.id")

	x.press("g", "f")
	x.arrive("/findings")
	x.press("j", "j", "j", "k")
	second := eval[string](x, "(() => { const a = document.querySelectorAll('a[data-row]')[1]; return a.pathname + a.search })()")
	want(x, second, "document.activeElement.pathname + document.activeElement.search")
	x.press("Enter")
	x.arrive(second)
	want(x, 1, "document.querySelectorAll('svg.nt-drawing').length")

	for key, path := range map[string]string{"n": "/nodes", "b": "/bindings", "i": "/incidents", "j": "/objects", "c": "/checks", "r": "/rules", "o": "/"} {
		x.press("g", key)
		x.arrive(path)
	}
	x.press("/")
	want(x, "search", "document.activeElement.id")
	x.must(x.Type(x.ctx, "j?g/"))
	want(x, "j?g/", "document.activeElement.value")
	x.press("Enter")
	x.arrive("/findings?q=j%3Fg%2F")

	// The list of keys, which also turns them off.
	x.press("?")
	want(x, true, "document.getElementById('keys').open")
	x.axe("keys")
	x.press("Escape")
	want(x, false, "document.getElementById('keys').open")
	x.press("?")
	want(x, false, "document.getElementById('keys-on').click()")
	x.press("Escape", "?", "g", "o")
	want(x, false, "document.getElementById('keys').open")
	x.open("/rules")
	want(x, false, "document.getElementById('keys-on').checked")
	x.press("j", "?")
	want(x, "BODY", "document.activeElement.tagName")
}

// The theme is the system's until one is chosen; that one is kept.
func testTheme(t *testing.T, g *stage) {
	x := open(t, g.browser, g.capture, "/")
	const page = "getComputedStyle(document.body).backgroundColor"
	const light, dark = "rgb(255, 255, 255)", "rgb(20, 23, 26)"
	want(x, light, page)
	press := func(says, colour string) {
		t.Helper()
		want(x, false, "document.getElementById('theme').click()")
		want(x, "Theme: "+says, "document.getElementById('theme').textContent")
		want(x, colour, page)
	}
	press("light", light)
	press("dark", dark)
	x.open("/nodes")
	want(x, dark, page)
	want(x, "Theme: dark", "document.getElementById('theme').textContent")
	x.axe("dark by choice")
	press("system", light)
	x.must(x.Media(x.ctx, "", "dark"))
	want(x, dark, page)
	press("light", light)
}

// The first paint of the largest pages over a store of 10,000 findings, as the browser measures it, on a cold cache of the browser. The
// issue asks for less than a second. Other programs may have the machine at a time, so the best of many counts.
func testFirstPaint(t *testing.T, g *stage) {
	b, s := g.browser, g.crowd
	node := url.PathEscape(hostileName("node", 3))
	for _, path := range []string{"/", "/findings", "/findings?group=object", "/nodes", "/nodes/" + node} {
		best, first := time.Hour, time.Duration(0)
		for range 10 {
			x := open(t, b, s, path)
			x.until("performance.getEntriesByName('first-contentful-paint').length")
			ms := eval[float64](x, "performance.getEntriesByName('first-contentful-paint')[0].startTime")
			took := time.Duration(ms * float64(time.Millisecond))
			if best = min(best, took); first == 0 {
				first = took
			}
			if best < time.Second/2 {
				break
			}
		}
		t.Logf("%s: first paint after %v, at best %v", path[:min(40, len(path))], first.Round(time.Millisecond), best.Round(time.Millisecond))
		if best >= time.Second {
			t.Errorf("%s: first paint after %v, want less than a second", path, best)
		}
	}
}

// The overview follows the log, leaves alone what somebody is in, can be paused, and says when nodetrail is gone.
func testUpdates(t *testing.T, g *stage) {
	path := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(path, crowdEvents(crowdStart(), 1, 20), 0o600); err != nil {
		t.Fatal(err)
	}
	s := run(t, g.program, 20, "--data", t.TempDir(), "--state", journal(), path)
	events := int64(20)
	more := func(nodes, objects int) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.Write(crowdEvents(crowdStart().Add(time.Duration(events)*time.Minute), nodes, objects))
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		events += int64(nodes * objects)
		s.read(t, events)
	}
	x := open(t, g.browser, s, "/")
	const first = "document.querySelector('#tiles strong').textContent"
	const update = "document.dispatchEvent(new Event('visibilitychange'))"
	want(x, "20", first)
	want(x, "Updates by itself.", "document.getElementById('live-state').textContent")
	x.must(x.Eval(x.ctx, "document.querySelector('#clients details').open = true; document.querySelector('#nodes a[data-row]').focus(); document.querySelector('#nodes').mine = true", nil))
	more(3, 10)
	// Updates come by themselves each ten seconds.
	x.until("%s === '50'", first)
	want(x, true, "document.querySelector('#clients details').open")
	want(x, true, "document.querySelector('#nodes').mine")
	want(x, true, "document.activeElement.closest('#nodes') !== null")
	harmless(x)

	want(x, false, "document.getElementById('live-pause').click()")
	want(x, "Updates are paused.", "document.getElementById('live-state').textContent")
	more(1, 10)
	want(x, true, update)
	want(x, "50", first)
	want(x, false, "document.getElementById('live-pause').click()")
	x.until("%s === '60'", first)

	s.stop(t)
	want(x, true, update)
	x.until("document.getElementById('live-state').textContent.startsWith('Not updated')")
	x.forgive("net::ERR_CONNECTION_REFUSED")
}

// Who has no token sees the page for signing in, and then the one that was asked for.
func testLogin(t *testing.T, g *stage) {
	folder := t.TempDir()
	const token = "a-token-of-this-test-alone"
	write := func(name, content string) string {
		t.Helper()
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	log := write("audit.log", string(crowdEvents(crowdStart(), 1, 5)))
	config := write("nodetrail.yaml", "pages:\n  bearerTokenFile: "+write("tokens", token+"\n")+"\n")
	s := serve(t, g.program, "--config", config, "--data", t.TempDir(), log)
	x := open(t, g.browser, s, "/findings?window=7d")
	x.until("document.readyState === 'complete' && location.pathname === '/login'")
	want(x, "Sign in", "document.querySelector('h1').textContent")
	x.axe("login")
	send := func(what string) {
		t.Helper()
		x.must(x.Eval(x.ctx, "document.getElementById('token').focus()", nil))
		x.must(x.Type(x.ctx, what))
		x.press("Enter")
	}
	send("a-token-of-somebody-else")
	x.until("document.readyState === 'complete' && document.getElementById('failed')")
	x.axe("failed login")
	want(x, "failed", "document.getElementById('token').getAttribute('aria-describedby')")
	send(token)
	x.arrive("/findings?window=7d")
	want(x, "Findings", "document.querySelector('h1').textContent")
	x.open("/nodes")
	want(x, "Nodes", "document.querySelector('h1').textContent")
	want(x, "", "document.cookie") // no script sees the session
	want(x, false, "document.querySelector('form[action=\"/logout\"] button').click()")
	x.until("document.readyState === 'complete' && location.pathname === '/login'")
	x.open("/nodes")
	want(x, "/login", "location.pathname")
}

// A time is shown in local time, and what is to be typed can be copied.
func testSmallHelps(t *testing.T, g *stage) {
	x := open(t, g.browser, g.capture, "/")
	want(x, "", "document.querySelector('#clients time').title")
	x.must(x.Eval(x.ctx, "document.querySelector('#clients time').dispatchEvent(new Event('pointerover', {bubbles: true}))", nil))
	want(x, true, "document.querySelector('#clients time').title.includes('2026')")
	want(x, true, "document.querySelectorAll('.commands button').length > 0 && document.querySelectorAll('.commands button').length === document.querySelectorAll('.commands').length")
	want(x, false, "document.querySelector('.commands button').click()")
	x.until("['Copied', 'Selected'].includes(document.getElementById('said').textContent)")
}

package web

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodetrail/nodetrail/e2e/web/chromium"
)

// tab is an open page with the server that it shows.
type tab struct {
	*chromium.Page
	t   testing.TB
	s   *server
	ctx context.Context // of the test that the tab is of
	// forgiven is part of a problem that a test has made itself.
	forgiven string
}

// forgive lets a problem be that a test has made itself.
func (x *tab) forgive(part string) { x.forgiven = part }

// browser starts a Chromium for a test.
func browser(t testing.TB) *chromium.Browser {
	t.Helper()
	b, err := chromium.Start(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// open opens a page in a tab of its own. At the test's end nothing may have gone wrong in it.
func open(t testing.TB, b *chromium.Browser, s *server, path string) *tab {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	p, err := b.NewPage()
	if err != nil {
		stop()
		t.Fatal(err)
	}
	x := &tab{Page: p, t: t, s: s, ctx: ctx}
	t.Cleanup(func() {
		defer stop()
		x.wentWell()
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	x.must(p.Size(ctx, 1400, 800))
	x.must(p.Media(ctx, "", "light"))
	x.open(path)
	return x
}

func (x *tab) must(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
}

func (x *tab) open(path string) {
	x.t.Helper()
	_, err := x.Open(x.ctx, x.s.url+path)
	x.must(err)
}

// wentWell checks that no script failed, nothing was refused by the policy, and nothing was asked of anybody but the server.
func (x *tab) wentWell() {
	x.t.Helper()
	for _, problem := range x.Problems() {
		if x.forgiven == "" || !strings.Contains(problem, x.forgiven) {
			x.t.Errorf("in the browser: %s", problem)
		}
	}
	for _, url := range x.Requests() {
		if !strings.HasPrefix(url, x.s.url+"/") && !strings.HasPrefix(url, "data:") {
			x.t.Errorf("the page asked for %s", url)
		}
	}
}

// eval runs an expression in the page.
func eval[T any](x *tab, expression string, args ...any) T {
	x.t.Helper()
	var out T
	x.must(x.Eval(x.ctx, fmt.Sprintf(expression, args...), &out))
	return out
}

// want compares what an expression in the page says.
func want[T comparable](x *tab, want T, expression string, args ...any) {
	x.t.Helper()
	if got := eval[T](x, expression, args...); got != want {
		x.t.Errorf("%s is %v, want %v", fmt.Sprintf(expression, args...), got, want)
	}
}

// until waits until an expression in the page is true.
func (x *tab) until(expression string, args ...any) {
	x.t.Helper()
	e := fmt.Sprintf(expression, args...)
	eventually(x.t, e, func() error {
		var ok bool
		if err := x.Eval(x.ctx, "!!("+e+")", &ok); err != nil {
			return err // a page that is being left has no answer
		}
		if !ok {
			return fmt.Errorf("is not so at %s", eval[string](x, "location.href"))
		}
		return nil
	})
}

// press presses keys, one after the other.
func (x *tab) press(keys ...string) {
	x.t.Helper()
	for _, key := range keys {
		x.must(x.Press(x.ctx, key))
	}
}

// arrive waits until the page at a path, with its query, is there.
func (x *tab) arrive(path string) {
	x.t.Helper()
	x.until("document.readyState === 'complete' && location.pathname + location.search === %s", quote(path))
}

// quote is a text as a script writes it.
func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a text can be encoded
	}
	return string(b)
}

// axe looks for barriers in the page.
func (x *tab) axe(what string) {
	x.t.Helper()
	code, err := os.ReadFile(filepath.Join("axe", "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		x.t.Fatalf("%v: run e2e/install.sh", err)
	}
	x.must(x.Eval(x.ctx, string(code)+"\n;undefined", nil))
	found := eval[[]struct {
		ID, Impact, Help string
		Nodes            []struct{ HTML, FailureSummary string }
	}](x, `axe.run(document, {resultTypes: ["violations"], runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]})
		.then((r) => r.violations.map((v) => ({id: v.id, impact: v.impact, help: v.help, nodes: v.nodes.slice(0, 3).map((n) => ({html: n.html.slice(0, 200), failureSummary: n.failureSummary}))})))`)
	for _, v := range found {
		x.t.Error(fmt.Sprintf("%s: axe: %s (%s): %s: %+v", what, v.ID, v.Impact, v.Help, v.Nodes))
	}
}

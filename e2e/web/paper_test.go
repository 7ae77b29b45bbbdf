package web

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"testing"
)

// maxSheets is how many sheets of A4 a report as HTML may take when nothing of it is unfolded.
const maxSheets = 6

// The report as HTML: it prints on few sheets, everything folded, has no barriers, and is no wider than the window.
func testPaper(t *testing.T, g *stage) {
	for _, name := range []string{"capture", "capture-rbac-only"} {
		folder := filepath.Join(root, "internal", "demo", name)
		analyze := func(all ...string) []byte {
			t.Helper()
			args := append([]string{"analyze", "-o", "html", "--state", filepath.Join(folder, "journal.jsonl.gz")}, all...)
			out, err := exec.Command(g.program, append(args, filepath.Join(folder, "audit.log.gz"))...).Output()
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		html := analyze()
		served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(html) }))
		defer served.Close()
		x := open(t, g.browser, &server{url: served.URL}, "/")
		x.forgive("favicon")
		want(x, 0, "document.querySelectorAll('details[open]').length")
		sheets := func() int {
			t.Helper()
			n, err := x.Sheets(x.ctx)
			x.must(err)
			return n
		}
		folded := sheets()
		t.Logf("%s: %d sheets", name, folded)
		if folded < 1 || folded > maxSheets {
			t.Errorf("%s: %d sheets, want at most %d", name, folded, maxSheets)
		}
		for _, width := range []int64{420, 1400} {
			x.must(x.Size(x.ctx, width, 800))
			x.axe(name)
			want(x, true, "document.documentElement.scrollWidth <= %d", width)
		}
		// Sheets does count: what is unfolded takes more, and the whole report more still.
		x.must(x.Eval(x.ctx, "document.querySelectorAll('details').forEach((d) => { d.open = true })", nil))
		open := sheets()
		html = analyze("--all")
		x.open("/")
		x.must(x.Eval(x.ctx, "document.querySelectorAll('details').forEach((d) => { d.open = true })", nil))
		if all := sheets(); open <= folded || all <= open {
			t.Errorf("%s: %d sheets folded, %d unfolded, %d of the whole report", name, folded, open, all)
		}
	}
}

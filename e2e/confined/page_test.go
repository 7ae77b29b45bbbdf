package confined

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nodetrail/nodetrail/e2e/plane"
)

// page is docs/confined.md, whose commands are run.
type page struct{ text string }

func readPage(t *testing.T) *page {
	t.Helper()
	root := plane.Must(plane.Root())(t)
	return &page{string(plane.Must(os.ReadFile(filepath.Join(root, "docs", "confined.md")))(t))}
}

// block is the one in that language that begins so.
func (p *page) block(t *testing.T, language, begin string) string {
	t.Helper()
	var found []string
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?\n)```").FindAllStringSubmatch(p.text, -1) {
		if strings.HasPrefix(m[1], begin) {
			found = append(found, m[1])
		}
	}
	if len(found) != 1 {
		t.Fatalf("docs/confined.md has %d blocks of %s that begin with %q", len(found), language, begin)
	}
	return found[0]
}

// probe is what the page has kubectl do: the path and the body of a create, and who acts as whom.
func (p *page) probe(t *testing.T) (path string, body any, user, group string) {
	t.Helper()
	command := p.block(t, "sh", "kubectl create --raw")
	m := regexp.MustCompile(`--raw '([^']+)' -f probe\.json --as=(\S+) --as-group=(\S+)`).FindStringSubmatch(command)
	if m == nil {
		t.Fatalf("docs/confined.md has another probe: %s", command)
	}
	plane.Check(t, json.Unmarshal([]byte(p.block(t, "json", "{")), &body))
	return m[1], body, m[2], m[3]
}

// command are the arguments of nodetrail that the page has, with other paths.
func (p *page) command(t *testing.T, name string, paths map[string]string) []string {
	t.Helper()
	args := strings.Fields(p.block(t, "sh", "nodetrail "+name))[1:]
	for from, to := range paths {
		i := slices.Index(args, from)
		if i < 0 {
			t.Fatalf("docs/confined.md has no %s in %q", from, args)
		}
		args[i] = to
	}
	return args
}

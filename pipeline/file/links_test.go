package file

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Whoever may write into a log's folder does not have another file read: by a link in place of the log, of a rotated file or of a folder.
func TestAttack17LinksOutOfTheFolder(t *testing.T) {
	dir := t.TempDir()
	logs, outside := filepath.Join(dir, "logs"), filepath.Join(dir, "outside")
	for _, d := range []string{filepath.Join(logs, "deep"), outside} {
		check(t, os.MkdirAll(d, 0o700))
	}
	for _, f := range []string{"logs/audit.log", "logs/deep/audit.log", "outside/shadow", "outside/audit.log"} {
		check(t, os.WriteFile(filepath.Join(dir, f), []byte(f+"\n"), 0o600))
	}
	for name, to := range map[string]string{
		"out.log": "../outside/shadow", "in.log": "deep/audit.log", "twice.log": "out.log", "round.log": "../outside/../logs/audit.log", "away": "../outside",
		"none.log": "nothing",
	} {
		check(t, os.Symlink(to, filepath.Join(logs, name)))
	}
	check(t, os.Symlink(logs, filepath.Join(dir, "mounted")))
	if os.Geteuid() == 0 {
		check(t, os.Symlink("audit.log", filepath.Join(logs, "others.log")))
		check(t, os.Lchown(filepath.Join(logs, "others.log"), 12345, -1))
	}
	const outsideOf, owner = "in none of the configured folders", "has another owner"
	for _, c := range []struct{ configured, path, text, fail string }{
		{"logs/*.log", "logs/audit.log", "logs/audit.log", ""},
		{"logs/*.log", "logs/in.log", "logs/deep/audit.log", ""},
		{"logs/*.log", "logs/round.log", "logs/audit.log", ""},
		{"logs/*.log", "logs/out.log", "outside/shadow", outsideOf},
		{"logs/out.log", "logs/out.log", "outside/shadow", outsideOf},
		{"logs/*.log", "logs/twice.log", "outside/shadow", outsideOf},
		{"logs/*/audit.log", "logs/away/audit.log", "outside/audit.log", outsideOf},
		{"logs/deep/*.log", "logs/audit.log", "logs/audit.log", outsideOf},
		{"mounted/*.log", "mounted/audit.log", "logs/audit.log", ""}, // the folder's own link is that of whoever configured it
		{"mounted/*.log", "mounted/out.log", "outside/shadow", outsideOf},
		{"logs/*.log", "logs/none.log", "", "no such file"},
		{"logs/*.log", "logs/others.log", "logs/audit.log", owner},
	} {
		if c.fail == owner && os.Geteuid() != 0 {
			continue // nobody else may make such a link
		}
		path := filepath.Join(dir, c.path)
		for _, links := range []bool{false, true} {
			want := c.fail
			if links && c.text != "" {
				want = ""
			}
			e := newReach([]string{filepath.Join(dir, c.configured)}, links).look(path)
			_, err := openTailed(&e)
			switch {
			case want == "" && (e.err != nil || err != nil || string(e.head) != c.text+"\n"):
				t.Errorf("%s by %s (%t): %q, %v, %v", c.path, c.configured, links, e.head, e.err, err)
			case want != "" && (e.err == nil || err == nil || !strings.Contains(e.err.Error(), want) || len(e.head) > 0):
				t.Errorf("%s by %s (%t): %q, %v, %v", c.path, c.configured, links, e.head, e.err, err)
			}
		}
	}
}

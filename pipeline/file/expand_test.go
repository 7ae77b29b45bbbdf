package file

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// expanded are the paths that arguments stand for, relative to dir.
func expanded(t *testing.T, dir string, args ...string) []string {
	t.Helper()
	t.Chdir(dir)
	inputs, err := Expand(args, strings.NewReader(""))
	if err != nil {
		return []string{"error: " + err.Error()}
	}
	var out []string
	for _, in := range inputs {
		out = append(out, in.Path)
	}
	return out
}

func TestExpandOrder(t *testing.T) {
	dir := files(t,
		"audit.log", event("d", 4000), "audit.log.1", event("c", 3000), "audit.log.2.gz", gz(t, event("b", 2000)),
		"audit-2026-11-21T06-04-03.123.log", event("a", 1000), "kube-audit_7.json", zst(t, event("e", 5000)),
		"kube-apiserver.log", "I1121 not an audit log", "audit-policy.yaml", "rules: []", ".audit.log.swp", "x", "old/audit.log", event("f", 0),
		"other/a.log", event("h", 2000), "other/b.jsonl", event("g", 1000), "other/notes.txt", "x", "none/readme.md", "x")
	rotated := []string{"audit-2026-11-21T06-04-03.123.log", "audit.log.2.gz", "audit.log.1", "audit.log", "kube-audit_7.json"}
	f := func(args, want []string) {
		t.Helper()
		if diff := cmp.Diff(want, expanded(t, dir, args...)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", args, diff)
		}
	}
	f([]string{"."}, rotated)
	f([]string{"audit.log", "audit.log.2.gz", "audit.log.1"}, []string{"audit.log.2.gz", "audit.log.1", "audit.log"})
	f([]string{"audit.log*"}, []string{"audit.log.2.gz", "audit.log.1", "audit.log"})
	f([]string{"other"}, []string{"other/b.jsonl", "other/a.log"})
	f([]string{"*er", "none", "-"}, []string{"error: none: no audit logs in this folder (files named *.log, *.json, *.jsonl or *audit*, also rotated and compressed)"})
	f([]string{"o*"}, []string{"old/audit.log", "other/b.jsonl", "other/a.log"})
	f([]string{"n*e"}, []string{"error: n*e: no audit log matches this pattern"})
	f([]string{"audit.log", "./audit.log", "other/../audit.log"}, []string{"audit.log"})
	f([]string{"-", "audit.log", "-"}, []string{"-", "audit.log"})
	f([]string{"nope"}, []string{"error: cannot read the audit log nope: no such file or directory"})
	f([]string{"audit.log/nope"}, []string{"error: cannot read the audit log audit.log/nope: not a directory"})
	f([]string{"[x"}, []string{"error: [x: not a pattern: syntax error in pattern"})
}

// TestExpandByContent holds that a folder's logs count by what is in them, whatever they are named.
func TestExpandByContent(t *testing.T) {
	ev := event("a", 1000)
	quoted := strings.ReplaceAll(ev, `"`, `\"`)
	dir := files(t, "audit.log", ev,
		"server2.log", event("b", 2000), "server2.log.1.gz", gz(t, event("c", 3000)), "export.json", "[\n"+event("d", 4000)+"\n]", "shipped.jsonl.zst", zst(t, `{"level":"info","time":1,"message":"`+quoted+`"}`),
		"kube-apiserver.log", `I1121 06:03:57.603813 1 wrap.go:54] "Timeout or abort while handling" method="GET" URI="/api" auditID="1"`+"\n"+ev,
		"pod.log", `2026-11-21T06:03:57.6Z stderr F I1121 06:03:57.603813 1 wrap.go:54] "Timeout" requestURI="/api" auditID="1"`,
		"apiserver.json", `{"ts":1,"caller":"wrap.go:54","msg":"Timeout","URI":"/api","auditID":"1"}`,
		"journal.jsonl", `{"type":"ADDED","object":{"kind":"Pod","metadata":{"annotations":{"x":"`+quoted+`"}}}}`,
		"verdicts.jsonl", `{"auditID":"1","verdict":"allow","requestURI":"/api"}`, "kubelet.log", "I1121 06:03:57.603813 1 x.go:1] text", "empty.log", "", "cut.log.gz", "\x1f\x8b\x08",
		"sub/audit.log", ev)
	if err := os.Symlink("nowhere", filepath.Join(dir, "link.log")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"shipped.jsonl.zst", "audit.log", "server2.log", "server2.log.1.gz", "export.json"}, expanded(t, dir, ".")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A name that looks like a pattern is a file first.
func TestExpandLiteralName(t *testing.T) {
	dir := files(t, "audit[1].log", event("a", 0), "audit1.log", event("b", 0))
	if diff := cmp.Diff([]string{"audit[1].log"}, expanded(t, dir, "audit[1].log")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"audit1.log"}, expanded(t, dir, "audit[12].log")); diff != "" {
		t.Error(diff)
	}
}

func TestExpandLinks(t *testing.T) {
	dir := files(t, "real.log", event("a", 0))
	for _, link := range []struct{ to, name string }{{"real.log", "link.log"}, {"loop.log", "loop.log"}} {
		if err := os.Symlink(link.to, filepath.Join(dir, link.name)); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"link.log"}, expanded(t, dir, "link.log", "real.log")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"error: cannot read the audit log loop.log: too many levels of symbolic links"}, expanded(t, dir, "loop.log")); diff != "" {
		t.Error(diff)
	}
}

func TestFirstTime(t *testing.T) {
	at := func(ms int) time.Time { return day.Add(time.Duration(ms) * time.Millisecond) }
	decoy := strings.Replace(event("a", 7), `"verb"`, `"requestObject":{"stageTimestamp":"1999-01-01T00:00:00Z"},"verb"`, 1)
	f := func(name, text string, want time.Time) {
		t.Helper()
		path := filepath.Join(files(t, "x", text), "x")
		in := Input{Path: path}
		err := in.look()
		first, pipe := in.first, in.pipe
		if err != nil || pipe || !first.Equal(want) {
			t.Errorf("%s: first time %s, pipe %t, error %v, want %s", name, first, pipe, err, want)
		}
	}
	f("empty", "", time.Time{})
	f("noise", "\x00\x01{{{\n\xff", time.Time{})
	f("line", event("a", 5)+"\n"+event("b", 1), at(5))
	f("torn first line", event("a", 5)[100:]+"\n"+event("b", 6), at(6))
	f("NUL bytes", strings.Repeat("\x00", 5000)+event("a", 5)+"\n", at(5))
	f("byte-order mark and CRLF", "\ufeff"+event("a", 5)+"\r\n", at(5))
	f("a body with a time of its own", decoy, at(7))
	f("no stage time", strings.Replace(event("a", 5), `"stageTimestamp"`, `"x"`, 1), at(5))
	f("gzip", gz(t, event("a", 5)), at(5))
	f("zstd", zst(t, event("a", 5)), at(5))
	f("cut gzip", gz(t, events("a", 1000, 5, 1, 0))[:2000], at(5))
	f("too short for gzip", "\x1f\x8b", time.Time{})
	f("document", "{\"kind\": \"EventList\",\n\"items\": [\n"+strings.ReplaceAll(event("a", 5), ",", ",\n")+"]}", at(5))
	f("a first event beyond the head", sized("a", 5, headBytes+1000), time.Time{})
}

func TestLastTime(t *testing.T) {
	at := func(ms int) time.Time { return day.Add(time.Duration(ms) * time.Millisecond) }
	f := func(name string, want time.Time, texts ...string) {
		t.Helper()
		var args []string
		for _, text := range texts {
			args = append(args, filepath.Join(files(t, "x", text), "x"))
		}
		inputs, err := Expand(args, nil)
		if err != nil {
			t.Fatal(err)
		}
		if last, err := LastTime(inputs); err != nil || !last.Equal(want) {
			t.Errorf("%s: last time %s, error %v, want %s", name, last, err, want)
		}
	}
	long := events("a", 5000, 0, 1, 1000)
	f("empty", time.Time{}, "")
	f("lines", at(2), event("a", 1)+"\n"+event("b", 2)+"\n")
	f("torn", at(1), event("a", 1)+"\n"+event("b", 2)[:80])
	f("torn in its time", at(2), event("a", 1)+"\n"+event("b", 2)[:len(event("b", 2))-5])
	f("long", at(4999), long)
	f("long, gzipped", at(4999), gz(t, long))
	f("long, zstd", at(4999), zst(t, long))
	f("cut", at(4998), long[:len(long)-900])
	f("several", at(4999), long, event("b", 3), gz(t, event("b", 3)))
	decoy := strings.Replace(event("a", 7), `"verb"`, `"requestObject":{"stageTimestamp":"2999-01-01T00:00:00Z"},"verb"`, 1)
	f("a body with a time of its own", at(7), decoy)

	inputs, err := Expand([]string{"-"}, strings.NewReader(long))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := LastTime(inputs); err == nil || !strings.Contains(err.Error(), "<stdin>") {
		t.Errorf("the end of standard input: error %v", err)
	}
}

func TestFollowable(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "later.log"):                                   "",
		put("empty.log", ""):                                              "",
		put("zeros.log", strings.Repeat("\x00", 4096)):                    "", // as after a crash of the machine
		put("noise.log", "one\ntwo\n"):                                    "",
		put("audit.log", event("a", 1000)):                                "",
		put("torn.log", "\xff\xfe\x00\n"+event("a", 1000)):                "",
		put("cut.gz", "\x1f\x8b\b"):                                       "",
		put("pod.json", `{"apiVersion":"v1","kind":"Pod","metadata":{}}`): "pod.json: cluster state, not an audit log: give it by --state",
		put("utf16.log", "\xff\xfe{\x00\"\x00k\x00"):                      "utf16.log: text in UTF-16, ",
		dir:        "is a folder: name the log in it that is written to, such as " + filepath.Join(dir, "audit.log"),
		os.DevNull: "is no regular file, ",
	} {
		if err := Followable(path); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

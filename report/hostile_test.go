package report

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
	"github.com/nodetrail/nodetrail/wording"
)

// hostileReport has the string wherever a log, a state or a file can put one.
func hostileReport(t *testing.T, s string) *Report {
	l := newLog(t)
	everywhere := func(r *rules.Request) {
		r.Node, r.Event.User.Username, r.Event.UserAgent, r.Event.SourceIPs = s+"n", "system:node:"+s+"n", s+"/1", []string{s}
		a := r.Attrs
		a.Verb, a.Resource, a.Subresource, a.APIGroup, a.Namespace, a.Name = s+"verb", s+"res", s, s, s, s
		r.Event.ObjectRef.Name = s
		r.Grant.Binding.Kind, r.Grant.Binding.Namespace, r.Grant.Binding.Name = s, s, s
		r.Answer.Reason, r.Observed.Reason = s, s
	}
	again := func(verb, resource string) change {
		return func(r *rules.Request) {
			r.Attrs.Verb, r.Attrs.Resource, r.Attrs.APIGroup, r.Attrs.Subresource = verb, resource, "", ""
		}
	}
	l.add("worker-1 get secrets shop/db", byRBAC("legacy"), everywhere)
	l.add("worker-1 get secrets shop/db", byRBAC("legacy"), everywhere, again("get", "secrets"))
	l.add("worker-1 get secrets shop/db", byRBAC("legacy"), everywhere, again("list", "secrets"))
	l.add("worker-1 get pods shop/db", byRBAC("legacy"), everywhere, again("get", "pods"), code(404))
	l.add("worker-1 get secrets shop/db", denied, ours(nodeauthz.Allow), everywhere)
	l.add("worker-1 patch nodes x", everywhere, again("patch", "nodes"), agent("kubelet/1"))
	l.add(" get nodes x", everywhere, stranger(s+"u"))
	l.add("worker-1 get x y", byRBAC("legacy"), everywhere, func(r *rules.Request) { r.Attrs.ResourceRequest, r.Attrs.Path = false, s })
	l.b.AddEntry(&tally.Entry{Findings: []tally.Finding{ // of rules that users wrote
		{Key: tally.Key{Rule: "mine", Node: s, Name: s}, Reason: rules.OwnMatch, Severity: rules.Critical, Params: codes.Params{codes.Text(codes.ParamMessage, s+" by "+s)}},
		{Key: tally.Key{Rule: "mine", Apart: string(rules.OwnFailed)}, Reason: rules.OwnFailed, Severity: rules.Low, Params: codes.Params{codes.Text(rules.ParamTrouble, s)}},
	}})
	f := facts(8)
	f.Cluster = s + "c"
	f.Events.MalformedAt = []Place{{File: s, Line: 1, Cause: s}}
	f.Gaps = []codes.Gap{{Code: codes.EntryUnreadable, Params: codes.Params{codes.Text(codes.ParamTrouble, s)}}}
	f.State.Objects[s] = 1
	f.Authorization.Mode, f.Authorization.KubernetesVersion, f.Authorization.FeatureGates = s+"m", s, map[string]bool{s: true}
	f.Checks, f.Waivers = someChecks(s)
	return l.b.Report(f)
}

func hostileStrings() []string {
	return []string{
		"\x00", "\x1b[2J\x1b[31mREADY", "a\nREADY  b\r\nc", "\u202eevil\u2066", "\xff\xfe", "%s%d%!(EXTRA", "</td><script>alert(1)</script>",
		"javascript:alert(1)", `"onload="x`, "\u2028\u0085", "`'", "\t\t|", "\u009b31m", "<!--", "]]>", "&lt;&amp;", "\v\f", "{{.}}", "\ufeff",
	}
}

// Whatever the names, a terminal is shown no control character but line ends, and no line that a name made.
func TestHostileText(t *testing.T) {
	parts := func(s string) (summary string, lines int) {
		out := text(t, hostileReport(t, s), Text{All: true})
		summary, rest, ok := strings.Cut(out, "\nBlockers and notes in full\n")
		if !ok {
			t.Fatalf("%q: no notes:\n%s", s, out)
		}
		return summary, strings.Count(rest, "\n")
	}
	ours := regexp.MustCompile(`^( |$|nodetrail ·|Can the bindings be deleted\?   (NOT )?(READY|ENOUGH)|Is each credential confined\?   (NOT )?(CONFINED|ENOUGH)|` +
		`(Blockers|Gaps)(: [0-9]+ of the [0-9]+ affect only CONFINED)?$|Next$|If you do not recognize a client, assume its nodes' credentials are stolen\.$|(Checks|Findings) +[0-9]|Agreement   nodetrail and the API server agree on [0-9]|docs/ and deploy/ are in |Denials     the Node authorizer denies [0-9])`)
	_, lines := parts("harmless")
	for _, s := range hostileStrings() {
		got := text(t, hostileReport(t, s), Text{All: true})
		for _, r := range got {
			if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == unicode.ReplacementChar || r == '\u2028') {
				t.Errorf("%q: the text has %q", s, r)
				break
			}
		}
		summary, n := parts(s)
		if n != lines {
			t.Errorf("%q: %d lines, want %d:\n%s", s, n, lines, got)
		}
		for line := range strings.SplitSeq(summary, "\n") {
			if !ours.MatchString(line) {
				t.Errorf("%q: the line %q", s, line)
			}
		}
	}
}

func TestHostileJSON(t *testing.T) {
	for _, s := range hostileStrings() {
		out := asJSON(t, hostileReport(t, s))
		if strings.ContainsFunc(strings.ReplaceAll(string(out), "\n", ""), wording.Hidden) {
			t.Errorf("%q: the JSON holds what is not shown", s)
		}
		var got Report
		if err := json.Unmarshal(out, &got); err != nil {
			t.Errorf("%q: %v", s, err)
			continue
		}
		if want := strings.ToValidUTF8(s, "\ufffd\ufffd") + "c"; strings.ToValidUTF8(s, "") == s && got.Cluster != want {
			t.Errorf("%q: the cluster's name is %q", s, got.Cluster)
		}
	}
}

// elements are the page's tags with their attributes, in order; it fails if the page is not well-formed.
func elements(t *testing.T, page string) (tags []string, content string) {
	t.Helper()
	page, ok := strings.CutPrefix(page, "<!doctype html>\n")
	if !ok {
		t.Error("the page has no doctype")
	}
	page = regexp.MustCompile(`<meta ([^>]*)>`).ReplaceAllString(page, "<meta $1/>")
	d := xml.NewDecoder(strings.NewReader(page))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return tags, content
		}
		if err != nil {
			t.Fatalf("the page is not well-formed: %v", err)
		}
		switch x := token.(type) {
		case xml.StartElement:
			tag := x.Name.Local
			for _, a := range x.Attr {
				tag += " " + a.Name.Local + "=" + a.Value
			}
			tags = append(tags, tag)
		case xml.CharData:
			content += string(x)
		case xml.Comment:
			t.Errorf("the page has a comment: %s", x)
		}
	}
}

// Whatever the names, the page's elements and attributes are those of harmless names: a name is text.
func TestHostileHTML(t *testing.T) {
	want, _ := elements(t, asHTML(t, hostileReport(t, "harmless")))
	for _, s := range hostileStrings() {
		got, content := elements(t, asHTML(t, hostileReport(t, s)))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-harmless +hostile):\n%s", s, diff)
		}
		if !strings.Contains(content, wording.Visible(s)) {
			t.Errorf("%q is not in the page's text", s)
		}
	}
}

// The page asks nobody for anything.
func TestHTMLIsSelfContained(t *testing.T) {
	tags, _ := elements(t, asHTML(t, sample(t)))
	for _, tag := range tags {
		name, attributes, _ := strings.Cut(tag, " ")
		switch name {
		case "script", "link", "img", "iframe", "object", "embed", "form", "base", "svg", "video", "audio":
			t.Errorf("element %s", tag)
		case "a": // into the page itself
			if !strings.HasPrefix(attributes, "href=#") {
				t.Errorf("element %s", tag)
			}
			attributes = strings.TrimPrefix(attributes, "href=#")
		}
		for _, a := range []string{"href", "src", "style=", "on", "url("} {
			if strings.Contains(" "+attributes, " "+a) {
				t.Errorf("element %s", tag)
			}
		}
	}
	page := asHTML(t, sample(t))
	for _, s := range []string{"http://", "https://", "url(", "@import", "//"} {
		if strings.Contains(page, s) {
			t.Errorf("the page holds %s", s)
		}
	}
	if !strings.Contains(page, `content="default-src 'none'; style-src 'unsafe-inline'"`) {
		t.Error("the page's policy is missing")
	}
}

func TestVisible(t *testing.T) {
	for s, want := range map[string]string{
		"": "", "shop/db": "shop/db", "größe 節点": "größe 節点", "\x1b[2J": `\u{1b}[2J`, "a\nb": `a\u{a}b`, "\u202e": `\u{202e}`, "\xff": `\u{fffd}`,
		"\u009b": `\u{9b}`, "\u2028": `\u{2028}`, "\u2029": `\u{2029}`, "\u200b": `\u{200b}`, "\ufeff": `\u{feff}`, "\x7f": `\u{7f}`, "\t": `\u{9}`,
		"\uffff": `\u{ffff}`, "\ufffe": `\u{fffe}`, "\U0010ffff": `\u{10ffff}`, "\ufdd0": `\u{fdd0}`,
	} {
		if got := wording.Visible(s); got != want {
			t.Errorf("wording.Visible(%q) = %q, want %q", s, got, want)
		}
		if got := wording.Visible(wording.Visible(s)); got != want {
			t.Errorf("wording.Visible(%q) changes when applied twice: %q", s, got)
		}
	}
}

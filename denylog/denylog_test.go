package denylog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	kfields "k8s.io/apimachinery/pkg/fields"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/klog/v2"

	"github.com/nodetrail/nodetrail/internal/test/effort"
)

var start = time.Date(2026, 12, 31, 23, 59, 59, 700_000_000, time.UTC) // lines are written in two years

// upstream has klog write what upstream's node authorizer writes for a refusal, at a time.
type upstream struct {
	t   testing.TB
	buf bytes.Buffer
}

func newUpstream(t testing.TB) *upstream {
	u := &upstream{t: t}
	klog.LogToStderr(false)
	klog.SetOutput(&u.buf)
	t.Cleanup(func() { klog.SetOutput(nil); klog.LogToStderr(true) })
	return u
}

// line is the text form, whose time and source klog takes from this process.
func (u *upstream) line(at time.Time, write func()) string {
	u.buf.Reset()
	write()
	klog.Flush()
	head, rest, ok := strings.Cut(u.buf.String(), "] ")
	if !ok || len(head) < 21 {
		u.t.Fatalf("klog wrote %q", u.buf.String())
	}
	return "I" + at.Format("0102 15:04:05.000000") + "    1234 node_authorizer.go:238] " + rest
}

// refusal is a request with how upstream words its refusal.
type refusal struct {
	Request
	form int
}

const (
	byRecord = iota
	byOldRecord
	byUnknown
	byUnknownNode
	byPath
	byServiceAccount // Infof in place of InfoS
	forms
)

func (u *upstream) write(f *refusal, at time.Time, asJSON bool) string {
	vertex := vertices[[2]string{f.APIGroup, f.Resource}]
	attrs := &authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: f.User}, Verb: f.Verb, Namespace: f.Namespace, APIGroup: f.APIGroup, APIVersion: "v1", Resource: f.Resource,
		Subresource: f.Subresource, Name: f.Name, ResourceRequest: true, Path: "/api/v1/" + f.Name,
		FieldSelectorRequirements: kfields.Requirements{{Operator: "=", Field: "metadata.name", Value: f.Name}}, LabelSelectorParsingErr: errors.New("'"),
	}
	var err error
	switch f.form {
	case byUnknown:
		err = fmt.Errorf("node '%s' cannot get unknown %s %s/%s", f.Node, vertex, f.Namespace, f.Name)
	case byUnknownNode:
		err = fmt.Errorf("unknown node '%s' cannot get %s %s/%s", f.Node, vertex, f.Namespace, f.Name)
	case byPath, byServiceAccount:
		err = fmt.Errorf("node '%s' cannot get %s %s/%s, no relationship to this object was found in the node authorizer graph", f.Node, vertex, f.Namespace, f.Name)
	}
	text := ""
	switch {
	case f.Node == "":
		text = fmt.Sprintf("NODE DENY: unknown node for user %q", f.User)
	case f.form == byServiceAccount:
		text = fmt.Sprintf("NODE DENY: %v", err)
	case err == nil:
		text = fmt.Sprintf("NODE DENY: '%s' %#v", f.Node, attrs)
		if f.form == byOldRecord { // before Kubernetes 1.31
			head, _, _ := strings.Cut(text, ", FieldSelectorRequirements")
			text = head + "}"
		}
	}
	if asJSON { // as k8s.io/component-base/logs/json writes it
		line := map[string]any{"ts": json.Number(strconv.FormatFloat(float64(at.UnixNano())/1e6, 'f', -1, 64)), "caller": "node/node_authorizer.go:238", "v": 2, "msg": text}
		if text == "" {
			line["msg"], line["err"] = "NODE DENY", err.Error()
		}
		b, err := json.Marshal(line)
		if err != nil {
			u.t.Fatal(err)
		}
		return string(b) + "\n"
	}
	return u.line(at, func() {
		if text == "" {
			klog.V(0).InfoS("NODE DENY", "err", err)
		} else {
			klog.V(0).Infof("%s", text)
		}
	})
}

var resources = [][2]string{{"", "secrets"}, {"", "pods"}, {"", "serviceaccounts"}, {"storage.k8s.io", "volumeattachments"}, {"resource.k8s.io", "resourceslices"}}

// random makes refusals of which many are alike, at the same time too.
func random(r *rand.Rand, n int) (out []refusal) {
	nodes := []string{"worker-1", "worker-2", "worker-1' cannot get secret a/b", "worker-1' &authorizer.AttributesRecord{User:(*user.DefaultInfo)(0x1), Verb:\"get", "", "\x1b[31mred"}
	names := []string{"a", "b", "b, no relationship to this object was found in the node authorizer graph", `"q"'`, "\x1b]0;x\x07"}
	at := start
	for i := range n {
		at = at.Add(time.Duration(r.IntN(40)) * time.Millisecond)
		res := resources[r.IntN(len(resources))]
		f := refusal{form: r.IntN(forms), Request: Request{
			AuditID: fmt.Sprint("id-", i), Node: nodes[min(r.IntN(12), 11)%len(nodes)], Verb: []string{"get", "list"}[r.IntN(2)], APIGroup: res[0], Resource: res[1],
			Namespace: []string{"", "ns"}[r.IntN(2)], Name: names[r.IntN(len(names))], From: at,
		}}
		f.User = "system:node:" + f.Node
		if r.IntN(5) > 0 {
			f.To = at.Add(time.Duration(r.IntN(60)) * time.Millisecond)
		}
		f.Static = f.form == byRecord || f.form == byOldRecord
		out = append(out, f)
	}
	return out
}

// TestEachLineMatchesOnce writes the lines of random refusals as upstream does, some of them of requests that the audit log lacks, and has some
// requests without a line.
func TestEachLineMatchesOnce(t *testing.T) {
	u := newUpstream(t)
	for seed := range uint64(effort.Of(300, 40)) {
		r := rand.New(rand.NewPCG(seed, 7))
		all := random(r, 1+r.IntN(60))
		l := New()
		var text strings.Builder
		written := 0
		for i := range all {
			f := &all[i]
			at := f.From
			if !f.To.IsZero() {
				at = at.Add(time.Duration(r.Int64N(int64(f.To.Sub(f.From)) + 1)))
			}
			text.WriteString("I1231 23:59:31.000000       1 trace.go:236] noise \"NODE DENY\"\n")
			text.WriteString(u.write(f, at, r.IntN(3) == 0))
			written++
		}
		if err := l.Read("log", strings.NewReader(text.String())); err != nil {
			t.Fatal(err)
		}
		for _, i := range r.Perm(len(all)) {
			l.See(&all[i].Request)
		}
		res := l.Match(start, start.Add(time.Hour))
		seen := map[string]bool{}
		of := map[string]*refusal{}
		for i := range all {
			of[all[i].AuditID] = &all[i]
		}
		for i := range res.Matched {
			m := &res.Matched[i]
			if seen[m.AuditID] {
				t.Fatalf("seed %d: %s is matched twice", seed, m.AuditID)
			}
			seen[m.AuditID] = true
			f := of[m.AuditID]
			if m.Time.Before(f.From.Add(-tolerance)) || !f.To.IsZero() && m.Time.After(f.To.Add(tolerance)) {
				t.Fatalf("seed %d: %s at %s, not within %s to %s", seed, m.AuditID, m.Time, f.From, f.To)
			}
			if got := strings.Contains(m.Text, "' cannot get unknown ") || strings.HasPrefix(m.Text, "unknown node '"); m.Unknown && !got {
				t.Fatalf("seed %d: %q is said to be unknown", seed, m.Text)
			}
		}
		if int(res.Lines) != written || len(seen) != written || len(res.Unmatched) != 0 || res.Unreadable+res.Dropped+res.Outside != 0 {
			t.Fatalf("seed %d: %d lines written, %d read, %d matched, not %+v", seed, written, res.Lines, len(seen), res.Unmatched)
		}

		// Without some of the requests, as many lines as that are left over.
		l = New()
		if err := l.Read("log", strings.NewReader(text.String())); err != nil {
			t.Fatal(err)
		}
		gone := all[r.IntN(len(all))]
		for i := range all {
			if alike(&all[i], &gone) {
				continue
			}
			l.See(&all[i].Request)
		}
		for _, m := range l.Match(start, start.Add(time.Hour)).Matched {
			if alike(of[m.AuditID], &gone) || m.Text == "" {
				t.Fatalf("seed %d: %q matches a request that is not there", seed, m.Text)
			}
		}
	}
}

func alike(a, b *refusal) bool {
	return a.Node == b.Node && a.APIGroup == b.APIGroup && a.Resource == b.Resource && a.Namespace == b.Namespace && a.Name == b.Name
}

// What has no line of klog is no log, and says so. Empty files, and logs without a refusal, are logs.
func TestNoLog(t *testing.T) {
	for text, is := range map[string]bool{
		"": true, "I1122 08:16:23.647978    1303 x.go:1] y": true, "a\n\nW1122 08:16:23.647978    1303 x.go:1] y\n": true,
		`{"ts":1795335383647.978,"caller":"x.go:1","msg":"y","v":2}`: true, `{"log":"a\n","stream":"stderr"}`: true, "2026-11-22T08:16:23.648Z stderr F I1122 08:16:23.647978 1 x.go:1] y": true,
		"a,b,c\n1,2,3\n": false, "\n": false, "x": false, "\x00\xff\x00\n\xfe": false, `{"kind":"Event"}`: false,
	} {
		if err := New().Read("x", strings.NewReader(text)); is != (err == nil) || !is && !errors.Is(err, ErrNoLog) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestForms reads one refusal in the forms in which logs are kept.
func TestForms(t *testing.T) {
	const klogLine = `I1122 08:16:23.647978    1303 node_authorizer.go:238] "NODE DENY" err="node 'worker-3' cannot get unknown pod search/pod-5"`
	asJSON := `{"ts":1795335383647.978,"caller":"node/node_authorizer.go:238","msg":"NODE DENY","v":2,"err":"node 'worker-3' cannot get unknown pod search/pod-5"}`
	at := time.Date(2026, 11, 22, 8, 16, 23, 647978000, time.UTC)
	f := func(line string, matches bool) {
		t.Helper()
		l := New()
		if err := l.Read("x", strings.NewReader("first\n"+line)); err != nil && !errors.Is(err, ErrNoLog) {
			t.Fatal(err)
		}
		l.See(&Request{AuditID: "id", User: "system:node:worker-3", Node: "worker-3", Verb: "get", Resource: "pods", Namespace: "search", Name: "pod-5", From: at, To: at.Add(time.Millisecond)})
		res := l.Match(at.Add(-time.Hour), at.Add(time.Hour))
		if got := len(res.Matched) == 1 && res.Matched[0].Unknown && res.Matched[0].Line == 2; got != matches {
			t.Errorf("%s: %+v", line, res)
		}
	}
	quoted, err := json.Marshal(klogLine + "\n")
	if err != nil {
		t.Fatal(err)
	}
	inner, err := json.Marshal(asJSON + "\n")
	if err != nil {
		t.Fatal(err)
	}
	f(klogLine, true)
	f(klogLine+"\r\n", true)
	f(asJSON, true)
	f("2026-11-22T08:16:23.648Z stderr F "+klogLine, true)
	f("2026-11-22T08:16:23.648+01:00 "+klogLine, true)
	f("Nov 22 08:16:23 control-1 kube-apiserver[1303]: "+klogLine, true)
	f(`{"log":`+string(quoted)+`,"stream":"stderr","time":"2026-11-22T08:16:23.648Z"}`, true)
	f(`{"log":`+string(inner)+`,"stream":"stderr","time":"2026-11-22T08:16:23.648Z"}`, true)
	f("I1122 08:16:23.647978 1 node_authorizer.go:238] \"NODE DENY\" err=<\n\tnode 'worker-3' cannot get unknown pod search/pod-5\n >\n", true)

	f("I1122 08:16:23.647978 1 node_authorizer.go:238] \"NODE DENY\" err=<\n\tnode 'worker-3' cannot get unknown pod search/pod-5\nI1122", false)
	f("user wrote "+klogLine, false)
	f(`I1122 08:16:23.647978 1 httplog.go:10] "HTTP" userAgent="`+klogLine+`"`, false)
	f(strings.Replace(klogLine, "node_authorizer.go", "rbac.go", 1), false)
	f(strings.Replace(asJSON, "node/node_authorizer.go", "webhook.go", 1), false)
	f(strings.Replace(klogLine, "1122", "1340", 1), false)
	f(klogLine[:len(klogLine)-1], false)
	f(strings.Replace(klogLine, "08:16:23", "08:16:25", 1), false)
	f(strings.Replace(klogLine, "pod-5", "pod-6", 1), false)
	f(strings.Replace(klogLine, strings.Repeat(" ", 4), strings.Repeat(" ", 2*maxLine), 1), false)
}

// TestStaticRefusalHasNoGraphLine has a write at the time of a read of the same object, which the audit policy hides.
func TestStaticRefusalHasNoGraphLine(t *testing.T) {
	u := newUpstream(t)
	read := refusal{Request: Request{Node: "a", User: "system:node:a", Verb: "get", Resource: "secrets", Namespace: "ns", Name: "s"}, form: byPath}
	l := New()
	if err := l.Read("x", strings.NewReader(u.write(&read, start, false))); err != nil {
		t.Fatal(err)
	}
	l.See(&Request{AuditID: "id", Node: "a", User: "system:node:a", Verb: "update", Resource: "secrets", Namespace: "ns", Name: "s", From: start, Static: true})
	if res := l.Match(start, start); len(res.Matched) != 0 || len(res.Unmatched) != 1 {
		t.Errorf("%+v", res)
	}
}

// TestForgedRecord has a node whose name looks like the refusal of another node.
func TestForgedRecord(t *testing.T) {
	u := newUpstream(t)
	genuine := refusal{Request: Request{User: "system:node:a", Node: "a", Verb: "get", Resource: "secrets", Namespace: "ns", Name: "s", From: start}, form: byOldRecord}
	line := u.write(&genuine, start, false)
	_, record, _ := strings.Cut(strings.TrimSpace(line), "NODE DENY: '")
	for _, cut := range []string{record, strings.TrimSuffix(record, "}"), strings.TrimSuffix(record, `"}`), record + `, X:"`} {
		forger := genuine
		forger.Node = cut
		forger.User = "system:node:" + cut
		l := New()
		if err := l.Read("x", strings.NewReader(u.write(&forger, start, false))); err != nil {
			t.Fatal(err)
		}
		l.See(&genuine.Request)
		if res := l.Match(start, start); len(res.Matched) != 0 || res.Lines != 1 {
			t.Errorf("node %q: %+v", cut, res)
		}
	}
}

// TestReview reads what an access review makes the authorizer write, at the time of a request that asks for the same.
func TestReview(t *testing.T) {
	u := newUpstream(t)
	attrs := authorizer.AttributesRecord{User: &user.DefaultInfo{}, Verb: "list", APIVersion: "*", Resource: "pods", ResourceRequest: true}
	line := u.line(start, func() { klog.V(0).Infof("NODE DENY: '%s' %#v", "worker-1", attrs) })
	l := New()
	if err := l.Read("x", strings.NewReader(line)); err != nil {
		t.Fatal(err)
	}
	l.See(&Request{AuditID: "id", User: "system:node:worker-1", Node: "worker-1", Verb: "list", Resource: "pods", From: start})
	if res := l.Match(start, start); res.Reviews != 1 || len(res.Unmatched) != 1 || res.Unmatched[0].Text != "node 'worker-1' cannot list pods (access review)" {
		t.Errorf("%+v", res)
	}
}

// TestMemoryIsBounded fills a log beyond its bounds.
func TestMemoryIsBounded(t *testing.T) {
	u := newUpstream(t)
	l := New()
	l.mostHeld, l.mostAsked = 4096, 3
	var text strings.Builder
	all := random(rand.New(rand.NewPCG(1, 1)), 200)
	for i := range all {
		text.WriteString(u.write(&all[i], all[i].From, false))
	}
	if err := l.Read("x", strings.NewReader(text.String())); err != nil {
		t.Fatal(err)
	}
	for i := range all {
		l.See(&all[i].Request)
	}
	res := l.Match(start, start.Add(time.Hour))
	if l.held > 4096 || res.Lines != 200 || res.Dropped == 0 || len(res.Matched) != 3 || int(res.Dropped)+len(res.Matched)+len(res.Unmatched) != 200 {
		t.Errorf("%d bytes, %d lines: %d dropped, %d matched, %d not", l.held, res.Lines, res.Dropped, len(res.Matched), len(res.Unmatched))
	}
}

// FuzzApiserverLog reads hostile lines: nothing panics, each line is in one list, what matches says what upstream would say, and memory is bounded.
func FuzzApiserverLog(f *testing.F) {
	u := newUpstream(f)
	all := random(rand.New(rand.NewPCG(3, 3)), 40)
	for i := range all {
		f.Add([]byte(u.write(&all[i], all[i].From, i%2 == 0)))
	}
	f.Add([]byte("I1231 23:59:31.000000 1 node_authorizer.go:1] \"NODE DENY\" err=<\n\tnode 'a' cannot get unknown secret a/b\n\t\x1b[2J\n >\n"))
	f.Add([]byte(`{"log":"{\"log\":\"{}\"} NODE DENY"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		l := New()
		l.mostHeld = 1 << 20
		if err := l.Read("x", bytes.NewReader(b)); err != nil {
			t.Fatal(err)
		}
		byID := map[string]*refusal{}
		for i := range all {
			l.See(&all[i].Request)
			byID[all[i].AuditID] = &all[i]
		}
		res := l.Match(start, start.Add(time.Hour))
		if int(res.Lines) != len(res.Matched)+len(res.Unmatched)+int(res.Dropped) || int(res.Unreadable) > len(res.Unmatched)+int(res.Dropped) || l.held > l.mostHeld {
			t.Fatalf("%d lines, %d matched, %d not, %d dropped, %d bytes", res.Lines, len(res.Matched), len(res.Unmatched), res.Dropped, l.held)
		}
		seen := map[string]bool{}
		for i := range res.Matched {
			m := &res.Matched[i]
			r := byID[m.AuditID]
			if seen[m.AuditID] || !strings.Contains(m.Text, r.Node) || r.Node != "" && !strings.Contains(m.Text, r.Name[:min(1, len(r.Name))]) || len(m.Text) > MaxText {
				t.Fatalf("%+v matches %+v", m, r)
			}
			seen[m.AuditID] = true
		}
	})
}

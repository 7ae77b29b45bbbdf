package audit

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// pieces is what a test looks at of a body that was split.
type pieces struct {
	Events    []string // line:auditID
	Raw       []string
	Malformed []string // cause: bytes
	Counts    Counts
}

func split(t *testing.T, text string, maxBytes int) pieces {
	t.Helper()
	var p pieces
	d := Decoder{MaxEventBytes: maxBytes}
	body := []byte(text)
	p.Counts = d.Split(body, func(ev *Event, raw []byte) {
		p.Events = append(p.Events, fmt.Sprintf("%d:%s", ev.Line, ev.AuditID))
		p.Raw = append(p.Raw, string(raw))
	}, func(m Malformed, raw []byte) {
		if m.Offset < 0 || m.Offset > len(body) || m.Line < 1 || len(m.Cause) > 400 {
			t.Errorf("%+v", m)
		}
		p.Malformed = append(p.Malformed, m.Cause+": "+string(raw))
	})
	if string(body) != text {
		t.Error("the body was changed")
	}
	if int64(len(p.Events)) != p.Counts.Read || int64(len(p.Malformed)) != p.Counts.Malformed {
		t.Errorf("%d events and %d malformed, but %+v", len(p.Events), len(p.Malformed), p.Counts)
	}
	return p
}

func TestSplit(t *testing.T) {
	f := func(name, text string, want pieces) {
		t.Helper()
		want.Counts = Counts{Read: int64(len(want.Events)), Malformed: int64(len(want.Malformed))}
		if d := cmp.Diff(want, split(t, text, 300)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	const list = `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[`
	f("nothing", "", pieces{})
	f("list", list+node("a")+" ,\n "+node("b")+"]}\n", pieces{Events: []string{"1:a", "2:b"}, Raw: []string{node("a"), node("b")}})
	f("not needed", list+other+"]}", pieces{Events: []string{"1:1"}, Raw: []string{other}})
	f("array", "["+node("a")+"]", pieces{Events: []string{"1:a"}, Raw: []string{node("a")}})
	f("events", node("a")+"\n"+node("b"), pieces{Events: []string{"1:a", "2:b"}, Raw: []string{node("a"), node("b")}})
	f("bad items", list+`{"verb":1},null,7,{"kind":"Pod"},`+node("b")+"]}", pieces{Events: []string{"1:b"}, Raw: []string{node("b")}, Malformed: []string{
		`value is not a string: {"verb":1}`, "value is not an object: null", "value is not an object: 7", `kind "Pod" is not an audit event: {"kind":"Pod"}`}})
	f("empty items", list+`{},{"foo":"bar"},`+node("b")+"]}", pieces{Events: []string{"1:b"}, Raw: []string{node("b")}, Malformed: []string{
		"object is not an audit event: {}", `object is not an audit event: {"foo":"bar"}`}})
	long := strings.Replace(node(strings.Repeat("x", 300)), `"kind":"Event",`, "", 1) // not as kube-apiserver begins an event
	f("too long", list+long+","+node("b")+"]}", pieces{Events: []string{"1:b"}, Raw: []string{node("b")},
		Malformed: []string{fmt.Sprintf("event of %d bytes exceeds the bound of 300: %s", len(long), long)}})
	f("torn in an item", list+node("a")+`,{"verb":"ge`, pieces{Events: []string{"1:a"}, Raw: []string{node("a")}, Malformed: []string{`unexpected end in a string: {"verb":"ge`}})
	f("torn behind an item", list+node("a"), pieces{Events: []string{"1:a"}, Raw: []string{node("a")}, Malformed: []string{"unexpected end: "}})
	f("torn behind the items", list+node("a")+"]", pieces{Events: []string{"1:a"}, Raw: []string{node("a")}, Malformed: []string{"unexpected end: "}})
	f("wrong type and torn", list+`{"verb":1,"x`, pieces{Malformed: []string{`value is not a string: {"verb":1,"x`}})
	f("items no array", `{"kind":"EventList","items":{}}`+node("b"), pieces{Events: []string{"1:b"}, Raw: []string{node("b")}, Malformed: []string{"value is not an array: {}}"}})
	f("of another group", `{"kind":"EventList","apiVersion":"v1","items":[{}]} `, pieces{Malformed: []string{`apiVersion "v1" is not of audit.k8s.io: {"kind":"EventList","apiVersion":"v1","items":[{}]}`}})
	f("noise", "\x1f\x8b noise", pieces{Malformed: []string{`not a JSON object but "\x1f\x8b noise": ` + "\x1f\x8b noise"}})
	f("no items", `{"kind":"EventList"}`, pieces{})
}

// otherwise writes a list that begins as kube-apiserver sends it in a way that means the same, and that is read in two passes.
func otherwise(text string) (string, bool) {
	rest, is := strings.CutPrefix(text, "{")
	return "{ " + rest, is && strings.HasPrefix(text, listStart)
}

// inTwoPasses holds what is read of a list in one pass to what is read of it in two.
func inTwoPasses(t *testing.T, text string, maxBytes int) {
	t.Helper()
	if other, is := otherwise(text); is {
		want := split(t, other, maxBytes)
		for i, m := range want.Malformed { // which may be of the list as a whole
			want.Malformed[i] = strings.Replace(m, "{ "+listStart[1:], listStart, 1)
		}
		if d := cmp.Diff(want, split(t, text, maxBytes)); d != "" {
			t.Fatalf("%q (-two passes +one):\n%s", text, d)
		}
	}
}

// readOnce reports whether a list is read in one pass.
func readOnce(body []byte) bool {
	var d Decoder
	sp := splitter{d: &d, s: &d.reader.s, body: body, limit: len(body), emit: func(*Event, []byte) {}, malformed: func(Malformed, []byte) {}}
	d.begin(body, 1, nil, nil)
	sp.s.Reset(body)
	return sp.sentList(0) && sp.s.Pos() == len(body)
}

// TestSentLists spoils a list as kube-apiserver sends it, in each place in several ways, and reads lists of more events than are held.
func TestSentLists(t *testing.T) {
	const bound = 400
	long := strings.Repeat("x", bound)
	list := listStart + "[" + node("a") + ",\n" + other + `,{"auditID":"b","annotations":{"x":"}}"}} ,` + node("c") + "]}\n"
	for i := range len(list) {
		inTwoPasses(t, list[:i], bound)
		for _, with := range []string{
			"", "{", "}", "[", "]", ",", ":", `"`, "\\", "0", "null,", "\n", "\x00", "\xff", `{"verb":1},`, `{"kind":"Pod"},`, `,"items":[` + other + `]`, `"kind":"Event",`,
			`"` + long + `",`, `{"auditID":"` + long + `"},`, strings.Repeat("[", 10_000), list,
		} {
			inTwoPasses(t, list[:i]+with+list[i:], bound)
			inTwoPasses(t, list[:i]+with+list[i+1:], bound)
		}
	}
	for _, n := range []int{0, 1, 63, 64, 65, 129, maxHeld - 1, maxHeld, maxHeld + 1, 3 * maxHeld} {
		one := strings.Repeat(","+other, n)
		plain := listStart + "[" + strings.TrimPrefix(one, ",") + "]}"
		inTwoPasses(t, plain+list, bound)
		bare := strings.ReplaceAll(plain, `{"kind":"Event","apiVersion":"audit.k8s.io/v1",`, "{") // as kube-apiserver sends the items of lists
		for _, text := range []string{plain, bare} {
			inTwoPasses(t, text, bound)
			if !readOnce([]byte(text)) {
				t.Errorf("a list of %d events is read in two passes: %.200s", n, text)
			}
		}
		inTwoPasses(t, listStart+"["+node("a")+",{}]}", bound)
		inTwoPasses(t, listStart+"["+strings.TrimPrefix(one+`,{"verb":1}`, ",")+"]}", bound)
	}
	var d Decoder
	d.Split([]byte(list), func(*Event, []byte) {}, func(Malformed, []byte) {})
	for _, h := range d.held {
		if h.ev.AuditID != "" || h.ev.User.Username != "" {
			t.Error("the Decoder holds on to the body")
		}
	}
	deep := func(n int) string {
		return listStart + `[{"auditID":"a","requestObject":` + strings.Repeat("[", n) + strings.Repeat("]", n) + "}]}"
	}
	for n := 9_990; n < 10_005; n++ {
		inTwoPasses(t, deep(n), 1<<20)
	}
}

func TestPartitionKey(t *testing.T) {
	f := func(name, want string, ev Event) {
		t.Helper()
		if got := PartitionKey(&ev); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	nodes := []string{"system:nodes", "system:authenticated"}
	f("node", "worker-1", Event{AuditID: "a", User: User{Username: "system:node:worker-1", Groups: nodes}})
	f("without the group", "a", Event{AuditID: "a", User: User{Username: "system:node:worker-1"}})
	f("without a name", "a", Event{AuditID: "a", User: User{Username: "system:node:", Groups: nodes}})
	f("person", "a", Event{AuditID: "a", User: User{Username: "jane"}})
	f("person as node", "worker-2", Event{AuditID: "a", User: User{Username: "jane"}, IsImpersonated: true, Impersonated: User{Username: "system:node:worker-2", Groups: nodes}})
	f("node as person", "a", Event{AuditID: "a", User: User{Username: "system:node:worker-1", Groups: nodes}, IsImpersonated: true, Impersonated: User{Username: "jane"}})
	f("nothing", "", Event{})
}

// unwrapped reports whether Document may have found what Split does not look for: envelopes, texts that hold JSON,
// records of other logs, and arrays in arrays.
func unwrapped(document *Counts, malformed []string) bool {
	plain := document.Envelopes[EnvelopeNone] + document.Envelopes[EnvelopeEventList]
	return document.Foreign > 0 || plain != document.Read ||
		slices.ContainsFunc(malformed, func(m string) bool { return strings.Contains(m, ": [") || strings.Contains(m, `: "`) })
}

// FuzzSplit holds Split to Document: the same events, each of them readable again from its bytes, and malformed where that is.
func FuzzSplit(f *testing.F) {
	for _, line := range nastyCorpus(f)[:20] {
		f.Add(line)
	}
	f.Add([]byte(`{"kind":"EventList","items":[` + node("a") + `,{"verb":1},null,` + node("b") + `,{"verb":1,}]}` + other))
	f.Add([]byte(`{"items":[` + node("a") + `,{"verb":1}],"kind":"EventList"}[{},` + node("c")))
	f.Add([]byte(listStart + "[" + node("a") + "," + other + "]}\n" + node("b")))
	f.Fuzz(func(t *testing.T, body []byte) {
		if bytes.IndexByte(body, 0) >= 0 || bytes.HasPrefix(body, byteOrderMark) {
			return
		}
		const bound = 500
		inTwoPasses(t, string(body), bound)
		p := split(t, string(body), bound)
		var needed []string
		var d Decoder
		d.MaxEventBytes = bound
		counts := d.Document(body, func(ev *Event) { needed = append(needed, fmt.Sprintf("%d:%s", ev.Line, ev.AuditID)) }, func(Malformed) {})
		if unwrapped(&counts, p.Malformed) {
			return
		}
		if p.Counts.Read != counts.Read || p.Counts.Malformed > counts.Malformed || p.Counts.Malformed == 0 && counts.Malformed != 0 {
			t.Errorf("%+v, Document has %+v", p.Counts, counts)
		}
		var kept []string
		d.Split(body, func(ev *Event, _ []byte) {
			if Needed(ev, Want{}) {
				kept = append(kept, fmt.Sprintf("%d:%s", ev.Line, ev.AuditID))
			}
		}, func(Malformed, []byte) {})
		for i, raw := range p.Raw {
			before := ""
			one := d.Split([]byte(raw), func(ev *Event, again []byte) {
				before = ev.AuditID
				if !bytes.Equal(again, []byte(raw)) {
					t.Errorf("%q was read again as %q", raw, again)
				}
			}, func(Malformed, []byte) {})
			// An item of a list may do without what shows on its own that it is an event.
			if one.Read == 1 && !strings.HasSuffix(p.Events[i], ":"+before) {
				t.Errorf("%s is read from %q as %s", p.Events[i], raw, before)
			}
		}
		if d := cmp.Diff(needed, kept); d != "" {
			t.Errorf("(-Document +Split):\n%s", d)
		}
	})
}

package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// outcome is what a test looks at of a buffer taken apart.
type outcome struct {
	Events    []string // line:auditID
	Malformed []string // line:cause
	Counts    Counts
}

// take runs decode and checks on the way what must hold of any input.
func take(t *testing.T, buf []byte, decode func(emit func(*Event), malformed func(Malformed)) Counts) outcome {
	t.Helper()
	before := bytes.Clone(buf)
	var o outcome
	var kept []Event
	o.Counts = decode(func(ev *Event) {
		o.Events = append(o.Events, fmt.Sprintf("%d:%s", ev.Line, ev.AuditID))
		kept = append(kept, *ev)
	}, func(m Malformed) {
		if m.Offset < 0 || m.Offset > len(buf) || m.Line < 1 || len(m.Cause) > 400 {
			t.Errorf("%+v", m)
		}
		o.Malformed = append(o.Malformed, fmt.Sprintf("%d:%s", m.Line, m.Cause))
	})
	if !bytes.Equal(before, buf) {
		t.Error("the buffer was changed")
	}
	var enveloped int64
	for _, n := range o.Counts.Envelopes {
		enveloped += n
	}
	if enveloped != o.Counts.Read {
		t.Errorf("%d events in envelopes: %+v", enveloped, o.Counts)
	}
	o.Counts.Envelopes = [NumEnvelopes]int64{}
	if int64(len(o.Events)) != o.Counts.Read-o.Counts.Skipped || int64(len(o.Malformed)) != o.Counts.Malformed {
		t.Errorf("%d events and %d malformed, but %+v", len(o.Events), len(o.Malformed), o.Counts)
	}
	for i := range kept {
		if !strings.HasSuffix(o.Events[i], ":"+kept[i].AuditID) {
			t.Errorf("copy %d of an event has auditID %q, it was %s", i, kept[i].AuditID, o.Events[i])
		}
	}
	return o
}

func chunk(t *testing.T, text string, maxBytes int) outcome {
	t.Helper()
	d := Decoder{MaxEventBytes: maxBytes}
	buf := []byte(text)
	return take(t, buf, func(emit func(*Event), malformed func(Malformed)) Counts { return d.Chunk(buf, 1, emit, malformed) })
}

func document(t *testing.T, text string) outcome {
	t.Helper()
	var d Decoder
	buf := []byte(text)
	return take(t, buf, func(emit func(*Event), malformed func(Malformed)) Counts { return d.Document(buf, emit, malformed) })
}

// node is an event that is needed, as an object of JSON; other is one that is not.
func node(id string) string {
	return `{"kind":"Event","apiVersion":"audit.k8s.io/v1","auditID":"` + id + `","verb":"get","user":{"username":"system:node:a"}}`
}

const other = `{` + nativeStart + `"verb":"get","user":{"username":"admin"}}`

func TestChunk(t *testing.T) {
	f := func(name, text string, want outcome) {
		t.Helper()
		if d := cmp.Diff(want, chunk(t, text, 0)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	f("nothing", "", outcome{})
	f("blank lines", "\n\r\n  \n", outcome{})
	f("two lines", node("a")+"\n"+node("b")+"\n", outcome{Events: []string{"1:a", "2:b"}, Counts: Counts{Read: 2}})
	f("skipped", other+"\n"+node("b")+"\n"+other, outcome{Events: []string{"2:b"}, Counts: Counts{Read: 3, Skipped: 2}})
	f("skipped, with white space", " "+strings.ReplaceAll(other, ":", ": ")+"\n", outcome{Counts: Counts{Read: 1, Skipped: 1}})
	f("carriage returns", node("a")+"\r\n"+other+"\r\n", outcome{Events: []string{"1:a"}, Counts: Counts{Read: 2, Skipped: 1}})
	f("byte-order mark", "\xef\xbb\xbf"+node("a")+"\n", outcome{Events: []string{"1:a"}, Counts: Counts{Read: 1}})
	f("two on a line", node("a")+node("b")+"\n"+node("c")+" \t"+node("d"), outcome{Events: []string{"1:a", "1:b", "2:c", "2:d"}, Counts: Counts{Read: 4}})
	f("two skipped on a line", other+other, outcome{Counts: Counts{Read: 2, Skipped: 2}})
	f("no line break at the end", node("a"), outcome{Events: []string{"1:a"}, Counts: Counts{Read: 1}})
	f("torn last line", node("a")+"\n"+node("b")[:60], outcome{Events: []string{"1:a"}, Malformed: []string{"2:unexpected end"}, Counts: Counts{Read: 1, Malformed: 1}})
	f("torn line and another behind it", other[:100]+other+"\n"+node("b"), outcome{Events: []string{"2:b"}, Malformed: []string{"1:unexpected end in a string"}, Counts: Counts{Read: 2, Skipped: 1, Malformed: 1}})
	f("NUL run in front", "\x00\x00\x00"+node("a")+"\n", outcome{Events: []string{"1:a"}, Counts: Counts{Read: 1, NULBytes: 3}})
	f("NUL run between", node("a")+"\x00\x00"+node("b")+"\n\x00\x00\n"+node("c"), outcome{
		Events: []string{"1:a", "1:b", "3:c"}, Malformed: []string{"1:NUL bytes in the place of events", "2:NUL bytes in the place of events"},
		Counts: Counts{Read: 3, Malformed: 2, NULBytes: 4}})
	f("NUL run at the end", node("a")+"\n\x00\x00", outcome{
		Events: []string{"1:a"}, Malformed: []string{"2:NUL bytes in the place of events"}, Counts: Counts{Read: 1, Malformed: 1, NULBytes: 2}})
	f("NUL run in an event", node("a")[:60]+"\x00"+node("b")+"\n", outcome{Events: []string{"1:b"}, Malformed: []string{"1:unexpected end"}, Counts: Counts{Read: 1, Malformed: 1, NULBytes: 1}})
	f("noise", "\x01\x02\xff\n", outcome{Malformed: []string{`1:not a JSON object but "\x01\x02\xff"`}, Counts: Counts{Malformed: 1}})
	f("klog", "I0101 12:00:00 1 x.go:1] "+strings.Repeat("text ", 20), outcome{Malformed: []string{`1:not a JSON object but "I0101 12:00:00 1 x.go:1] text text text "…`}, Counts: Counts{Malformed: 1}})
	f("rest behind an event", node("a")+"]\n", outcome{Events: []string{"1:a"}, Malformed: []string{`1:not a JSON object but "]"`}, Counts: Counts{Read: 1, Malformed: 1}})
	f("wrong type, then another", `{"verb":1}`+node("b"), outcome{Events: []string{"1:b"}, Malformed: []string{"1:value is not a string"}, Counts: Counts{Read: 1, Malformed: 1}})
	f("other objects", `{"kind":"Pod"}`+"\n"+`{"a":1}`+"\n"+`{"kind":"Event","apiVersion":"v1","metadata":{}}`+"\n"+`"text"`, outcome{
		Malformed: []string{`1:kind "Pod" is not an audit event`, "2:object is not an audit event", `3:apiVersion "v1" is not of audit.k8s.io`, `4:not a JSON object but "\"text\""`}, Counts: Counts{Malformed: 4}})
	of := func(id, version string) string {
		return strings.Replace(node(id), "audit.k8s.io/v1", "audit.k8s.io/"+version, 1) + "\n"
	}
	f("versions", of("a", "v1")+of("b", "v1beta1")+of("c", "v1alpha1")+of("d", "v2")+of("e", "v1"), outcome{
		Events: []string{"1:a", "2:b", "3:c", "5:e"}, Malformed: []string{`4:apiVersion "audit.k8s.io/v2" is not known: audit.k8s.io/v1 is`}, Counts: Counts{Read: 4, Malformed: 1}})
	f("a list of another version", `{"kind":"EventList","apiVersion":"audit.k8s.io/v2","items":[`+node("a")+`]}`, outcome{
		Malformed: []string{`1:apiVersion "audit.k8s.io/v2" is not known: audit.k8s.io/v1 is`}, Counts: Counts{Malformed: 1}})
	f("list", `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[`+node("a")+","+other+`]}`+node("c")+"\n"+node("d"), outcome{Events: []string{"1:a", "1:c", "2:d"}, Counts: Counts{Read: 4, Skipped: 1}})
	f("lists without items", `{"kind":"EventList"}`+"\n"+`{"kind":"EventList","apiVersion":"audit.k8s.io/v1","Items":[`+node("a")+`]}`+"\n"+strings.Replace(node("a"), `"Event"`, `"EventList"`, 1)+node("b"), outcome{
		Events: []string{"3:b"}, Malformed: []string{"1:EventList has no items", "2:EventList has no items", "3:EventList has no items"}, Counts: Counts{Read: 1, Malformed: 3}})
	f("lists of nothing", `{"kind":"EventList","items":[]}`+"\n"+`{"kind":"EventList","items":null}`+"\n"+`{"items":[]}`+"\n[]", outcome{})
	f("list with a bad item", `{"items":[`+node("a")+`,{"verb":1},null,`+node("b")+`],"kind":"EventList"}`, outcome{
		Events: []string{"1:a", "1:b"}, Malformed: []string{"1:value is not a string", "1:value is not an object"}, Counts: Counts{Read: 2, Malformed: 2}})
	f("list of something else", `{"kind":"EventList","apiVersion":"v1","items":[{}]}`, outcome{Malformed: []string{`1:apiVersion "v1" is not of audit.k8s.io`}, Counts: Counts{Malformed: 1}})
	f("list that is no array", `{"kind":"EventList","items":{}}`+"\n"+node("b"), outcome{Events: []string{"2:b"}, Malformed: []string{"1:value is not an array"}, Counts: Counts{Read: 1, Malformed: 1}})
	f("array", `[`+node("a")+`, `+node("b")+`]`+"\n", outcome{Events: []string{"1:a", "1:b"}, Counts: Counts{Read: 2}})
	f("torn array", `[`+node("a")+`, `+node("b"), outcome{Events: []string{"1:a", "1:b"}, Malformed: []string{"1:unexpected end"}, Counts: Counts{Read: 2, Malformed: 1}})
}

// TestLostUser holds that an event whose user is missing is malformed, unless kube-apiserver writes none.
func TestLostUser(t *testing.T) {
	f := func(members, envelope string, lost bool) {
		t.Helper()
		want := outcome{Counts: Counts{Read: 1, Skipped: 1}}
		if lost {
			want = outcome{Malformed: []string{"1:event has no user"}, Counts: Counts{Malformed: 1}}
		}
		ev := strings.TrimSuffix(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","auditID":"1","verb":"get",`+members, ",") + "}"
		if d := cmp.Diff(want, chunk(t, fmt.Sprintf(envelope, ev), 0)); d != "" {
			t.Errorf("%s (-want +got):\n%s", ev, d)
		}
	}
	f(`"stage":"ResponseComplete","responseStatus":{"code":200}`, "%s", true)
	f(`"stage":"ResponseStarted","user":{},"k8s_audit_level":"Metadata"`, "%s", true)
	f(`"stage":"ResponseComplete","user":{"groups":["system:authenticated"]}`, `{"items":[%s]}`, true)
	f(`"stage":"ResponseComplete"`, `{"kubernetes":{"audit":%s}}`, true)
	f(`"stage":"ResponseComplete","user":{"username":"system:anonymous"}`, "%s", false)
	f(`"stage":"ResponseStarted","user":{},"responseStatus":{"code":401}`, "%s", false)
	f(`"stage":"ResponseStarted","user":{},"responseStatus":{"code":400}`, "%s", false)
	f(`"stage":"RequestReceived","user":{}`, "%s", false)
	f(`"stage":"Panic","user":{},"responseStatus":{"code":500}`, "%s", false)
	f(``, "%s", false)
	f(``, `{"protoPayload":{"serviceName":"k8s.io","methodName":"io.k8s.core.v1.pods.get","request":%s}}`, false)
}

func TestChunkBound(t *testing.T) {
	long := strings.Replace(node(strings.Repeat("x", 200)), `"kind":"Event",`, "", 1) // not as kube-apiserver begins an event
	got := chunk(t, node("a")+"\n"+long+"\n"+node("c"), 250)
	want := outcome{Events: []string{"1:a", "3:c"}, Malformed: []string{fmt.Sprintf("2:event of %d bytes exceeds the bound of 250", len(long))}, Counts: Counts{Read: 2, Malformed: 1}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestChunkOfCapture(t *testing.T) {
	lines := captureLines(t)
	for _, want := range []Want{{}, {State: true}} {
		var expect, got []string
		for i, line := range lines {
			ev, err := full(line)
			if err != nil {
				t.Fatal(err)
			}
			if Needed(ev, want) {
				expect = append(expect, fmt.Sprintf("%d:%s", i+7, ev.AuditID))
			}
		}
		d := Decoder{Want: want}
		counts := d.Chunk(bytes.Join(lines, []byte("\n")), 7, func(ev *Event) {
			got = append(got, fmt.Sprintf("%d:%s", ev.Line, ev.AuditID))
		}, func(m Malformed) { t.Error(m) })
		if d := cmp.Diff(expect, got); d != "" || counts.Read != int64(len(lines)) {
			t.Errorf("%+v, %+v (-full decoding +chunk):\n%s", want, counts, d)
		}
	}
}

func TestDocument(t *testing.T) {
	pretty := func(text string) string {
		var b bytes.Buffer
		if err := json.Indent(&b, []byte(text), "", "  "); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	f := func(name, text string, want outcome) {
		t.Helper()
		if !IsDocument([]byte(text)) || !IsDocument([]byte(text[:20])) {
			t.Errorf("%s is not taken for a document", name)
		}
		if d := cmp.Diff(want, document(t, text)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	list := `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":[` + node("a") + "," + other + "," + node("c") + `]}`
	f("list", pretty(list), outcome{Events: []string{"5:a", "26:c"}, Counts: Counts{Read: 3, Skipped: 1}})
	f("array", "\xef\xbb\xbf"+pretty("["+node("a")+"]")+"\r\n\x00\x00", outcome{Events: []string{"2:a"}, Counts: Counts{Read: 1, NULBytes: 2}})
	f("events", pretty(node("a"))+"\n"+pretty(node("b")), outcome{Events: []string{"1:a", "10:b"}, Counts: Counts{Read: 2}})
	torn := pretty(list)
	f("torn in an item", torn[:strings.LastIndex(torn, `"verb"`)], outcome{Events: []string{"5:a"}, Malformed: []string{"30:unexpected end"}, Counts: Counts{Read: 2, Skipped: 1, Malformed: 1}})
	f("torn behind its items", strings.TrimSuffix(torn, "}"), outcome{Events: []string{"5:a", "26:c"}, Malformed: []string{"36:unexpected end"}, Counts: Counts{Read: 3, Skipped: 1, Malformed: 1}})
	f("torn", pretty("["+node("a")+"]")+"\n[\n{\"verb\":\n", outcome{Events: []string{"2:a"}, Malformed: []string{"14:unexpected end"}, Counts: Counts{Read: 1, Malformed: 1}})
}

func TestIsDocument(t *testing.T) {
	f := func(want bool, head string) {
		t.Helper()
		if got := IsDocument([]byte(head)); got != want {
			t.Errorf("%q: %v", head, got)
		}
	}
	f(false, "")
	f(false, "text")
	f(false, other+"\n"+other)
	f(false, other)
	f(false, other[:50])
	f(false, other[:50]+"\n"+other)
	f(false, "["+other+"]\n["+other+"]\n")
	f(true, "["+other)
	f(true, "\x00\xef\xbb\xbf[\n"+other)
	f(true, "{\n  \"kind\": \"Event")
	f(true, `{"kind":"EventList","items":[`+other)
	f(true, `{"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "items": [`+other)
	f(true, `{ "apiVersion":"audit.k8s.io/v1","metadata":{"a":[1]},"kind":"EventList","items":[`+other)
	f(true, `{"apiVersion":"audit.k8s.io/v1", "items": [`+other)
	f(true, `{"records": [`+other)
	f(false, `{"kind": "Event", "items": [`+other)
	f(false, `{"apiVersion":"audit.k8s.io/v1","level":"Metadata","items":[`+other)
	f(false, `{"apiVersion":"audit.k8s.io/v1","kind":"Eve`)
	f(false, `{"apiVersion":"audit.k8s.io/v1","events":[`+other)
}

func FuzzChunk(f *testing.F) {
	for _, line := range nastyCorpus(f)[:40] {
		f.Add(line, uint8(100))
	}
	f.Add([]byte(node("a")+node("b")+"\n\x00\x00"+other+"\r\n["+node("c")+",{}]"), uint8(30))
	f.Add([]byte("{\n\"items\":\n["+node("a")+",{\"verb\":1}]}"), uint8(3))
	f.Fuzz(func(t *testing.T, buf []byte, cut uint8) {
		text := string(buf)
		document(t, text)
		IsDocument(buf)
		whole := chunk(t, text, 500)
		// A buffer cut at any line's end yields the same.
		at := min(int(cut), len(text))
		at += strings.IndexByte(text[at:], '\n') + 1
		d := Decoder{MaxEventBytes: 500}
		parts := outcome{}
		first := bytes.Count(buf[:at], []byte("\n")) + 1
		for _, part := range []struct {
			text string
			line int
		}{{text[:at], 1}, {text[at:], first}} {
			if part.text != "" && (at == 0 || text[at-1] == '\n') {
				o := take(t, []byte(part.text), func(emit func(*Event), malformed func(Malformed)) Counts {
					return d.Chunk([]byte(part.text), part.line, emit, malformed)
				})
				parts.Events, parts.Malformed = append(parts.Events, o.Events...), append(parts.Malformed, o.Malformed...)
				parts.Counts.Add(o.Counts)
			} else if part.text != "" {
				return
			}
		}
		if d := cmp.Diff(whole, parts); d != "" {
			t.Fatalf("%q cut at %d (-whole +parts):\n%s", buf, at, d)
		}
	})
}

package audit

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/nodetrail/nodetrail/internal/test/effort"
)

// someLines are lines of captures, one of each kind of user, verb, resource and answer, and events that matter by one field alone.
func someLines(t *testing.T) [][]byte {
	t.Helper()
	var lines [][]byte
	seen := map[string]bool{}
	for _, path := range []string{"../internal/demo/capture/audit.log.gz", "../internal/demo/capture-writes/audit.log.gz"} {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = f.Close() }()
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		in := bufio.NewScanner(z)
		in.Buffer(nil, 1<<20)
		for in.Scan() {
			ev := decoded(t, in.Bytes())
			kind := fmt.Sprint(ev.User.nodeLike(), ev.IsImpersonated, ev.Verb, ev.ObjectRef.Resource, ev.ObjectRef.Subresource, ev.Code)
			if len(in.Bytes()) < 2500 && !seen[kind] {
				seen[kind] = true
				lines = append(lines, bytes.Clone(in.Bytes()))
			}
		}
		if err := in.Err(); err != nil {
			t.Fatal(err)
		}
	}
	const head, tail = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"a","stage":"ResponseComplete","requestURI":"/x",`,
		`"requestReceivedTimestamp":"2026-11-21T06:00:00.000000Z","stageTimestamp":"2026-11-21T06:00:00.100000Z","annotations":{"authorization.k8s.io/decision":"allow"}}`
	ok := `"responseStatus":{"metadata":{},"code":200},`
	for _, body := range []string{
		`"verb":"get","user":{"username":"admin","groups":["system:nodes"]},` + ok,
		`"verb":"get","user":{"username":"admin"},"impersonatedUser":{"username":"system:node:a","groups":["system:nodes"]},` + ok,
		`"verb":"get","user":{"username":"admin"},"impersonatedUser":{"username":"x","groups":["of-interest"]},` + ok,
		`"verb":"get","user":{"username":"admin"},"userAgent":"kubelet/v1.36.3",` + ok,
		`"verb":"get","user":{"username":"wanted"},` + ok,
		`"verb":"patch","user":{"username":"admin"},"objectRef":{"resource":"certificatesigningrequests","apiGroup":"certificates.k8s.io"},` + ok,
		`"verb":"create","user":{"username":"admin"},"objectRef":{"resource":"secrets","namespace":"kube-system","name":"bootstrap-token-abc"},` + ok,
		`"verb":"get","user":{"username":"mallory"},"responseStatus":{"metadata":{},"status":"Failure","message":"users \"system:node:a\" is forbidden: User \"mallory\" cannot impersonate resource \"users\" in API group \"\" at the cluster scope","code":403},`,
	} {
		lines = append(lines, []byte(head+body+tail))
	}
	return lines
}

func decoded(t *testing.T, line []byte) *Event {
	t.Helper()
	var ev *Event
	d := Decoder{Want: Want{All: true}}
	d.Chunk(line, 1, func(e *Event) { ev = e.Clone() }, func(m Malformed) { t.Fatalf("%s: %s", m.Cause, line) })
	return ev
}

// severalWants are what callers may want.
func severalWants() []Want {
	others := &Subjects{}
	others.Wants([]string{"wanted"}, []string{"of-interest"})
	return []Want{{}, {State: true}, {Others: others}, {State: true, Others: others}}
}

// TestTornOfNoNode cuts events at every byte. What is left of an event that somebody needs is reported, and never shows that nobody does; and at half
// of the others' last bytes it does show that, or the answer would always be no.
func TestTornOfNoNode(t *testing.T) {
	cuts, shown, needed := 0, 0, 0
	for _, line := range someLines(t) {
		whole := decoded(t, line)
		for _, want := range severalWants() {
			d := Decoder{Want: want}
			isNeeded := Needed(whole, want)
			if isNeeded {
				needed++
			}
			for cut := 1; cut < len(line); cut += effort.Of(1, 23) {
				var of []bool
				d.Chunk(line[:cut], 1, func(*Event) { t.Fatalf("an event of %s", line[:cut]) }, func(m Malformed) { of = append(of, m.OfNoNode) })
				if len(of) > 1 || isNeeded && (len(of) == 0 || of[0]) {
					t.Fatalf("%v, needed %v by %+v: %s", of, isNeeded, want, line[:cut])
				}
				if !isNeeded && cut > len(line)-len(line)/4 {
					cuts++
					if len(of) == 0 || of[0] {
						shown++
					}
				}
			}
		}
	}
	if needed < 100 || shown < cuts/2 {
		t.Errorf("%d needed; shown of %d of %d", needed, shown, cuts)
	}
}

// TestTornDoesNotShow holds what never shows that an event is nobody's: damage of other kinds.
func TestTornDoesNotShow(t *testing.T) {
	const whole = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"a","verb":"get","user":{"username":"admin"},"responseStatus":{"code":200},"stageTimestamp":"2026-`
	d := Decoder{}
	f := func(name, text string, want ...bool) {
		t.Helper()
		var got []bool
		d.Chunk([]byte(text), 1, func(*Event) {}, func(m Malformed) { got = append(got, m.OfNoNode) })
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	f("torn", whole, true)
	f("torn, and another line", whole+"\n"+node("a"), true)
	f("NUL bytes behind it, in the place of other events", whole+"\x00\x00\x00\n", false)
	f("NUL bytes behind a space", whole+` x" \x00`+"\x00\n", false)
	f("two torn ones", whole+whole, false)
	f("two torn ones and a whole one", whole+whole+node("a"), false)
	f("torn in an envelope", `{"log":`+fmt.Sprintf("%q", whole)+`}`, false)
	f("a key twice", strings.Replace(whole, `"verb":"get"`, `"verb":"get","user":{"username":"system:node:a"}`, 1), false)
	f("not as kube-apiserver writes it", strings.Replace(whole, `"kind":"Event",`, "", 1), false)
	f("in an array", "["+whole, false)
	d.Want.All = true
	f("everything is wanted", whole, false)
}

// TestGlued writes a whole event behind a torn one, as an API server does that is started again. The whole one is read, wherever the other was
// cut, and the torn one is reported.
func TestGlued(t *testing.T) {
	lines := someLines(t)
	behind := []string{node("behind"), `{"kind":"Event","apiVersion":"audit.k8s.io/v1","auditID":"behind","verb":"create","user":{"username":"system:node:a"},"requestObject":` + node("body") + `,"responseObject":{"a":` + node("body") + `}}`}
	ambiguous, cuts := 0, 0
	for i, line := range lines {
		for cut := 1; cut < len(line); cut += effort.Of(1, 23) {
			cuts++
			var ids []string
			var bad int
			var d Decoder
			text := string(line[:cut]) + behind[(i+cut)%2] + "\n" + node("next")
			counts := d.Chunk([]byte(text), 1, func(ev *Event) { ids = append(ids, fmt.Sprint(ev.Line, ":", ev.AuditID)) }, func(m Malformed) {
				if bad++; m.Line != 1 || m.OfNoNode && Needed(decoded(t, line), Want{}) {
					t.Fatalf("%+v: %s", m, text)
				}
			})
			head := string(line[:cut])
			if _, after, in := strings.Cut(head, `"responseStatus":`); in && len(ids) == 1 && strings.ContainsAny(head[cut-1:], ":[,") && !strings.Contains(after, `"requestReceivedTimestamp"`) {
				ambiguous++ // the body may continue with an object that looks like an event
				ids, counts.Read = append([]string{"1:behind"}, ids...), counts.Read+1
			}
			if !slices.Equal(ids, []string{"1:behind", "2:next"}) || bad != 1 || counts.Malformed != 1 || counts.Read != 2 {
				t.Fatalf("read %v, %d malformed, %+v: %s", ids, bad, counts, text)
			}
		}
	}
	if ambiguous*20 > cuts {
		t.Errorf("%d of %d cuts are ambiguous", ambiguous, cuts)
	}
	// What looks like an event within the body of a torn one is none.
	body := strings.TrimSuffix(behind[1], "}")
	for _, text := range []string{body, body[:len(body)-1], strings.TrimSuffix(body, "}}") + ","} {
		var d Decoder
		d.Chunk([]byte(text), 1, func(ev *Event) { t.Errorf("event %s of %s", ev.AuditID, text) }, func(Malformed) {})
	}
}

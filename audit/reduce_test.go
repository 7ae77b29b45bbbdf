package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/internal/test/effort"
)

// padded makes an event as kube-apiserver would log a request whose client made it long in some ways at once.
func padded(r *rand.Rand) (line []byte, cut bool) {
	pick := func(words ...string) string { return words[r.IntN(len(words))] }
	name := pick("db", "web-1", "")
	if r.IntN(4) == 0 {
		name, cut = pick("%41", "a", "x%2F", "%2f", "x/")+strings.Repeat(pick("n", "%20", "é"), 500+r.IntN(3000)), true
	}
	path := strings.Repeat("/", 1+r.IntN(3)*r.IntN(40)) + pick("api/v1/namespaces/shop/secrets/"+name, "api/v1/namespaces/shop/pods/"+name+"/exec", "api/v1/nodes/"+name+"/proxy/a/b",
		"apis/apps/v1/deployments", "api/v1/pods", "healthz/"+name, "api/v1/namespaces/shop/serviceaccounts/"+name+"/token") + strings.Repeat("/", r.IntN(2)*r.IntN(200))
	var params []string
	for range r.IntN(4) {
		params = append(params, pick("fieldSelector=spec.nodeName%3Dworker-1", "fieldSelector=metadata.name%3Ddb", "field%53elector=metadata.name%3Dx", "labelSelector=a%3Db", "dryRun=All",
			"fieldSelector=", "fieldSelector", "fieldSelector=%zz", "fieldSelectors=x", "watch=true", "fieldSelector=a;b=c", "+fieldSelector=x"))
	}
	for range r.IntN(3) {
		params = append(params, strings.Repeat(pick("&", "pad=%41&", "a&"), r.IntN(7000)), "p="+strings.Repeat(pick("x", "%26", "=", "é"), r.IntN(30000)), strings.Repeat("k", r.IntN(3000))+"=1")
	}
	r.Shuffle(len(params), func(i, j int) { params[i], params[j] = params[j], params[i] })
	uri := path
	if len(params) > 0 {
		uri += "?" + strings.Join(params, "&")
	}
	addresses := []string{}
	for range r.IntN(2) * r.IntN(3000) {
		addresses = append(addresses, fmt.Sprintf("10.%d.%d.%d", r.IntN(256), r.IntN(256), r.IntN(256)))
	}
	addresses = append(addresses, "192.0.2.7")
	event := map[string]any{
		"level": "Request", "auditID": "id", "stage": "ResponseComplete", "requestURI": uri, "verb": pick("get", "list", "watch", "create", "deletecollection"),
		"user":      map[string]any{"username": "system:node:w1", "groups": []string{"system:nodes"}, "extra": map[string]any{credentialIDKey: []string{"X509SHA256=1"}}},
		"sourceIPs": addresses, "userAgent": "kubelet/" + strings.Repeat(pick("a", `"`, "\u2028"), r.IntN(20000)),
		"objectRef":      map[string]any{"resource": "secrets", "namespace": "shop", "name": name, "apiVersion": "v1"},
		"responseStatus": map[string]any{"code": 200 + r.IntN(300), "message": strings.Repeat("m", r.IntN(20000))}, "requestObject": map[string]any{"a": []any{1, `"}]`, nil}, "b": strings.Repeat(`\"`, r.IntN(10000))},
		"requestReceivedTimestamp": "2026-11-21T06:03:57.619376Z", "stageTimestamp": "2026-11-21T06:03:57.719376Z",
		"responseObject": map[string]any{"items": []any{strings.Repeat(pick("y", `"}],{[`, "é"), r.IntN(2)*r.IntN(30000))}}, "annotations": map[string]any{decisionKey: pick("allow", "forbid"), reasonKey: pick("", "RBAC: allowed by x")},
	}
	rest, err := json.Marshal(event)
	if err != nil {
		panic(err)
	}
	return append([]byte(`{"kind":"Event","apiVersion":"audit.k8s.io/v1",`), rest[1:]...), cut
}

// TestReducedIsJudgedAlike holds that what is left of a long event asks the authorizer the same as the whole, but for the rest of a name that no
// object can have.
func TestReducedIsJudgedAlike(t *testing.T) {
	cuts, longest, seeds := 0, 0, effort.Of(1500, 150)
	for seed := range uint64(seeds) {
		r := rand.New(rand.NewPCG(4, seed))
		line, cut := padded(r)
		var whole, short Event
		d := Decoder{MaxEventBytes: 1 << 30, Want: Want{State: true}}
		if c := d.Chunk(line, 1, func(ev *Event) { whole = *ev.Clone() }, func(m Malformed) { t.Fatalf("seed %d: %+v", seed, m) }); c.Read != 1 {
			t.Fatalf("seed %d: %+v", seed, c)
		}
		var red Reducer
		for rest := line; len(rest) > 0; {
			n := min(1+r.IntN(5000), len(rest))
			_, _ = red.Write(rest[:n])
			rest = rest[n:]
		}
		reduced, ok := red.Event()
		if !ok || red.Size() != int64(len(line)) || len(reduced) > reducedEvent {
			t.Fatalf("seed %d: not reduced: %v, %d bytes of %d\n%.3000s", seed, ok, len(reduced), red.Size(), line)
		}
		longest = max(longest, len(reduced))
		if c := d.Chunk(reduced, 1, func(ev *Event) { short = *ev.Clone() }, func(m Malformed) { t.Fatalf("seed %d: %+v\n%s", seed, m, reduced) }); c.Read != 1 {
			t.Fatalf("seed %d: %+v", seed, c)
		}
		if body := whole.RequestObject; len(body) > reducedString {
			whole.RequestObject = nil
		}
		if short.ReducedFrom != int64(len(line)) || !bytes.Equal(short.RequestObject, whole.RequestObject) || short.ResponseObject != nil {
			t.Fatalf("seed %d: reduced from %d with bodies %.40q, %.40q", seed, short.ReducedFrom, short.RequestObject, short.ResponseObject)
		}
		ask := func(ev *Event) authorizer.AttributesRecord {
			var a Attributes
			rec := *a.Of(ev, true)
			if cut {
				for _, part := range []*string{&rec.Name, &rec.Subresource, &rec.Namespace} {
					*part = (*part)[:min(len(*part), 20)]
				}
				rec.Path = ""
				cuts++
			} else if !rec.ResourceRequest {
				rec.Path = strings.Trim(rec.Path, "/")
			} else {
				rec.Path = ""
			}
			return rec
		}
		a, b := ask(&whole), ask(&short)
		text := func(rec *authorizer.AttributesRecord) string {
			return fmt.Sprintf("%+v %v %v %v %v", rec.User, rec.FieldSelectorRequirements, rec.FieldSelectorParsingErr, rec.LabelSelectorRequirements, rec.LabelSelectorParsingErr) +
				strings.Join([]string{rec.Verb, rec.Namespace, rec.APIGroup, rec.APIVersion, rec.Resource, rec.Subresource, rec.Name, rec.Path}, "|")
		}
		if d := cmp.Diff(text(&a), text(&b)); d != "" {
			t.Fatalf("seed %d (-whole +reduced):\n%s\n%.2000s", seed, d, reduced)
		}
		for _, ev := range []*Event{&whole, &short} {
			ev.SourceIPs = ev.SourceIPs[len(ev.SourceIPs)-1:]
			ev.RequestURI, ev.UserAgent, ev.StatusMessage, ev.ObjectRef.Name, ev.RequestObject, ev.ResponseObject, ev.ReducedFrom, ev.Line = "", Product(ev.UserAgent), "", "", nil, nil, 0, 0
		}
		if d := cmp.Diff(whole, short); d != "" {
			t.Fatalf("seed %d (-whole +reduced):\n%s", seed, d)
		}
	}
	if cuts < seeds/15 || longest > 100<<10 {
		t.Errorf("%d with a name cut, the longest is reduced to %d bytes", cuts, longest)
	}
}

// Product is the first word of a user agent.
func Product(agent string) string {
	product, _, _ := strings.Cut(agent, "/")
	return product
}

func TestReducerRefuses(t *testing.T) {
	for _, text := range []string{
		"", "{", "[]", "7", `{"kind":"Event"`, `{"kind":"Pod","a":1}`, `{"kind":"Event","a":[}`, `{"kind":"Event","a":1}}`, `{"kind":"Event","requestURI":"x"}`,
		`{"kind":"Event","requestURI":"/a?fieldSelector=` + strings.Repeat("x", reducedQuery) + `"}`, `{"kind":"Event","requestURI":"/a\u0000"}`, `{"kind":"Event","\u0061":1}`,
		`{"kind":"Event","a":` + strings.Repeat("[", reducedDepth) + `}`, `{"kind":"Event","groups":[` + strings.Repeat(`"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",`, 20_000) + `"b"]}`, `{"log":"x"}`,
	} {
		var r Reducer
		_, _ = r.Write([]byte(text))
		if event, ok := r.Event(); ok {
			t.Errorf("%.100q is reduced to %.100q", text, event)
		}
	}
}

// FuzzReducer holds that what is reduced is JSON again, whatever it was, and bounded.
func FuzzReducer(f *testing.F) {
	for seed := range uint64(6) {
		line, _ := padded(rand.New(rand.NewPCG(5, seed)))
		f.Add(line, 7)
	}
	for _, line := range nastyLines {
		f.Add([]byte(strings.ReplaceAll(line, "NATIVE", nativeStart)), 3)
	}
	f.Fuzz(func(t *testing.T, line []byte, at int) {
		var r Reducer
		at = min(max(at, 0), len(line))
		_, _ = r.Write(line[:at])
		_, _ = r.Write(line[at:])
		event, ok := r.Event()
		if !ok {
			return
		}
		if json.Valid(line) && !json.Valid(event) || len(event) > reducedEvent {
			t.Fatalf("%q became %q", line, event)
		}
		first := string(event)
		r.Reset()
		_, _ = r.Write(line)
		if again, ok := r.Event(); !ok || string(again) != first {
			t.Fatalf("%q, then %q", first, again)
		}
	})
}

func BenchmarkReducer(b *testing.B) {
	line := []byte(`{"kind":"Event","level":"Metadata","requestURI":"/api/v1/pods?` + strings.Repeat(`\u0026`, 1<<20) + `","verb":"list"}`)
	var r Reducer
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		r.Reset()
		if _, _ = r.Write(line); r.failed {
			b.Fatal("refused")
		}
	}
}

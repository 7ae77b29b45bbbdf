package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// answered is the event of a request with a response whose body has so many bytes, or more; change makes it another one.
func answered(tb testing.TB, response int, change func(event map[string]any)) []byte {
	tb.Helper()
	event := map[string]any{
		"level": "RequestResponse", "auditID": "id", "stage": "ResponseComplete", "requestURI": "/api/v1/services?limit=500&resourceVersion=0", "verb": "list",
		"user": map[string]any{"username": "system:node:w1", "groups": []string{"system:nodes"}}, "sourceIPs": []string{"10.0.0.1"}, "userAgent": "kubelet/v1.36.3",
		"objectRef": map[string]any{"resource": "services", "apiVersion": "v1"}, "responseStatus": map[string]any{"code": 200},
		"responseObject":           map[string]any{"kind": "ServiceList", "items": []any{map[string]any{"metadata": map[string]any{"name": `"}],{` + strings.Repeat("s", response)}}}},
		"requestReceivedTimestamp": "2026-11-21T06:03:57.619376Z", "stageTimestamp": "2026-11-21T06:03:57.719376Z",
	}
	change(event)
	rest, err := json.Marshal(event)
	if err != nil {
		tb.Fatal(err)
	}
	return append([]byte(`{"kind":"Event","apiVersion":"audit.k8s.io/v1",`), rest[1:]...)
}

// An event that is too long for its response alone says so, however it is read. One of which anything else is too long, or left out, does not: the client chose that.
func TestResponseAloneIsTooLong(t *testing.T) {
	const bound = 64 << 10
	set := func(key string, value any) func(map[string]any) {
		return func(event map[string]any) { event[key] = value }
	}
	pad := strings.Repeat("x", reducedString)
	addresses := func(n int) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprintf("10.1.%d.%d", i/256, i%256))
		}
		return out
	}
	body := func(n int) any { return map[string]any{"a": `"}]{[` + strings.Repeat("b", n)} }
	for _, c := range []struct {
		name     string
		response int
		change   func(map[string]any)
		alone    bool
	}{
		{"a long list", 90_000, func(map[string]any) {}, true},
		{"a very long list", 3_000_000, func(map[string]any) {}, true},
		{"a short body of the request", 90_000, set("requestObject", body(1000)), true},
		{"no body of the request", 90_000, set("requestObject", nil), true},
		{"some addresses", 90_000, set("sourceIPs", addresses(reducedList)), true},
		{"members behind the response", 90_000, set("zzz", []any{1, "a", nil}), true},

		{"a long URI", 90_000, set("requestURI", "/api/v1/services?a="+pad), false},
		{"a long URI of escapes", 90_000, set("requestURI", "/api/v1/services?"+strings.Repeat("&", reducedString)), false},
		{"a long name", 90_000, set("requestURI", "/api/v1/namespaces/a/services/"+pad), false},
		{"a very long URI", 10, set("requestURI", "/api/v1/services?a="+strings.Repeat(pad, 20)), false},
		{"a very long URI, and a long list", 90_000, set("requestURI", "/api/v1/services?a="+strings.Repeat(pad, 20)), false},
		{"a long user agent", 90_000, set("userAgent", "kubelet/"+pad), false},
		{"a long member", 90_000, set("zzz", pad+"x"), false},
		{"many members", 90_000, set("zzz", strings.Split(strings.Repeat("x,", 30_000), ",")), false},
		{"many addresses", 90_000, set("sourceIPs", addresses(reducedList+1)), false},
		{"a long body of the request", 90_000, set("requestObject", body(reducedString)), false},
		{"a long body of the request, and no response", 90_000, func(event map[string]any) { event["requestObject"], event["responseObject"] = body(bound), nil }, false},
		{"an empty response", 90_000, func(event map[string]any) { event["zzz"], event["responseObject"] = pad[:100], nil }, false},
	} {
		line := answered(t, c.response, c.change)
		if c.name == "an empty response" {
			line = bytes.Replace(line, []byte(`"zzz":"`), []byte(`"zzz":"`+strings.Repeat(pad, 9)), 1)
		}
		list := []byte(`{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":[` + string(line) + `]}`)
		shrunk := func(in []byte, whole bool) []byte {
			var r io.Reader = bytes.NewReader(in)
			if !whole {
				r = iotest.OneByteReader(r)
			}
			out, err := io.ReadAll(&Shrinker{R: r, MaxEvent: bound})
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		direct, _ := Reduced(line, bound)
		read := map[string]func(d *Decoder, emit func(*Event), bad func(Malformed)){
			"line":         func(d *Decoder, emit func(*Event), bad func(Malformed)) { d.Chunk(line, 1, emit, bad) },
			"reduced line": func(d *Decoder, emit func(*Event), bad func(Malformed)) { d.Chunk(direct, 1, emit, bad) },
			"document":     func(d *Decoder, emit func(*Event), bad func(Malformed)) { d.Document(list, emit, bad) },
			"array": func(d *Decoder, emit func(*Event), bad func(Malformed)) {
				d.Document([]byte("["+string(line)+"]"), emit, bad)
			},
			"message":         func(d *Decoder, emit func(*Event), bad func(Malformed)) { d.Message(list, emit, bad) },
			"webhook":         func(d *Decoder, emit func(*Event), bad func(Malformed)) { splitAgain(d, list, emit, bad) },
			"webhook, shrunk": func(d *Decoder, emit func(*Event), bad func(Malformed)) { splitAgain(d, shrunk(list, true), emit, bad) },
			"webhook, by byte": func(d *Decoder, emit func(*Event), bad func(Malformed)) {
				splitAgain(d, shrunk(list, false), emit, bad)
			},
		}
		for how, with := range read {
			if len(line) > 1<<20 && how == "webhook, by byte" {
				continue
			}
			n := 0
			with(&Decoder{MaxEventBytes: bound}, func(ev *Event) {
				n++
				if ev.ReducedFrom == 0 || (ev.ResponseBytes > 0) != c.alone || c.alone && ev.ResponseBytes < int64(c.response) {
					t.Errorf("%s, %s: %d bytes, of which the response has %d; alone %t", c.name, how, ev.ReducedFrom, ev.ResponseBytes, c.alone)
				}
				if ev.User.Username != "system:node:w1" || ev.Code != 200 || ev.ResponseObject != nil || c.alone && string(ev.RequestObject) == "" && strings.HasPrefix(c.name, "a short body") {
					t.Errorf("%s, %s: %+v", c.name, how, ev)
				}
			}, func(m Malformed) { t.Errorf("%s, %s: %+v", c.name, how, m) })
			if n != 1 {
				t.Errorf("%s, %s: %d events", c.name, how, n)
			}
		}
	}
}

// splitAgain reads a webhook's body, and what it hands on as the service that takes it.
func splitAgain(d *Decoder, body []byte, emit func(*Event), bad func(Malformed)) {
	d.Split(body, func(ev *Event, raw []byte) {
		(&Decoder{MaxEventBytes: d.MaxEventBytes}).Chunk(bytes.Clone(raw), 1, emit, bad)
	}, func(m Malformed, _ []byte) { bad(m) })
}

// Where the bound is not known, nothing says that the request was short.
func TestReducerWithoutABound(t *testing.T) {
	line := answered(t, 10_000, func(map[string]any) {})
	for bound, alone := range map[int64]bool{0: false, 200: false, 5000: true} {
		r := Reducer{Bound: bound}
		for range 2 {
			r.Reset()
			_, _ = r.Write(line)
			event, ok := r.Event()
			if !ok || bytes.Contains(event, []byte(responseMark)) != alone {
				t.Errorf("bound %d: %t, %s", bound, ok, event)
			}
		}
	}
}

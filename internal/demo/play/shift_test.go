package play

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		panic(err)
	}
	return t
}

func TestShiftAppend(t *testing.T) {
	day := Shift{From: at("2026-01-01T00:00:00Z"), To: at("2026-01-02T00:00:00Z")}
	fast := Shift{From: at("2026-01-01T00:00:00Z"), To: at("2026-01-02T00:00:00Z"), Speed: 4}
	renew := Shift{Renew: "x"}
	id := renew.ID("a")
	f := func(name string, s Shift, in, want string) {
		t.Helper()
		if diff := cmp.Diff(want, string(s.Append(nil, []byte(in)))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	f("microseconds", day, `{"stageTimestamp":"2026-01-01T00:00:01.000100Z"}`, `{"stageTimestamp":"2026-01-02T00:00:01.000100Z"}`)
	f("nanoseconds", day, `{"observedAt":"2026-01-01T00:00:01.999999999Z"}`, `{"observedAt":"2026-01-02T00:00:01.999999999Z"}`)
	f("an object's own time, and blanks", day, `{ "metadata" : {"creationTimestamp" :  "2026-01-01T00:00:01Z" } }`,
		`{ "metadata" : {"creationTimestamp" :  "2026-01-02T00:00:01Z" } }`)
	f("another zone", day, `{"time":"2026-01-01T02:00:01+02:00"}`, `{"time":"2026-01-02T00:00:01Z"}`)
	f("before the first", fast, `{"creationTimestamp":"2025-12-31T23:59:56Z"}`, `{"creationTimestamp":"2026-01-01T23:59:59Z"}`)
	f("whole seconds are cut off", fast, `{"creationTimestamp":"2026-01-01T00:00:07Z"}`, `{"creationTimestamp":"2026-01-02T00:00:01Z"}`)
	f("faster", fast, `{"stageTimestamp":"2026-01-01T00:00:07.000000Z"}`, `{"stageTimestamp":"2026-01-02T00:00:01.750000Z"}`)
	for name, in := range map[string]string{
		"a member that names no time": `{"name":"2026-01-01T00:00:01Z"}`,
		"a key":                       `{"2026-01-01T00:00:01Z":"time"}`,
		"an element of a list":        `{"time":["2026-01-01T00:00:01Z"]}`,
		"after an object":             `{"time":{"a":1},"b":["2026-01-01T00:00:01Z"]}`,
		"JSON in a string":            `{"annotations":{"a":"{\"time\":\"2026-01-01T00:00:01Z\"}"}}`,
		"no time":                     `{"time":"2026-01-01","startTime":"2026-13-01T00:00:01Z","At":null,"endTime":""}`,
		"beyond the years":            `{"notAfter":"9999-12-31T23:59:59Z"}`,
		"an unfinished string":        `{"time":"2026-01-01T00:00:01Z`,
		"IDs":                         `{"auditID":"a","uid":"b"}`,
	} {
		f(name, day, in, in)
	}
	f("IDs are renewed", renew, `{"auditID":"a","user":{"uid":"a"},"name":"a","uid":""}`,
		`{"auditID":"`+id+`","user":{"uid":"`+id+`"},"name":"a","uid":""}`)
	if other := (&Shift{Renew: "y"}).ID("a"); other == id || len(id) != 36 {
		t.Errorf("IDs %q and %q", id, other)
	}
	f("no times without a mapping", renew, `{"time":"2026-01-01T00:00:01Z"}`, `{"time":"2026-01-01T00:00:01Z"}`)
}

// FuzzShift: what comes out is JSON if what went in was, of the same length but for zones and IDs, and moving back undoes it.
func FuzzShift(f *testing.F) {
	f.Add([]byte(`{"auditID":"a","stageTimestamp":"2026-01-01T00:00:01.000100Z","responseObject":{"metadata":{"uid":"u","creationTimestamp":"2026-01-01T00:00:01Z"}}}`), int64(3600))
	f.Add([]byte(`{"time":"2026-01-01T00:00:01,5Z","a\"b":"\\","At":"x"}`), int64(-1))
	f.Fuzz(func(t *testing.T, in []byte, seconds int64) {
		if seconds < -1e9 || seconds > 1e9 {
			return
		}
		from := at("2026-01-01T00:00:00Z")
		to := from.Add(time.Duration(seconds) * time.Second)
		there := Shift{From: from, To: to}
		back := Shift{From: to, To: from}
		moved := there.Append(nil, in)
		if got := (&Shift{}).Append(nil, in); !bytes.Equal(got, in) {
			t.Fatalf("the zero value made %q of %q", got, in)
		}
		renewed := (&Shift{Renew: "r"}).Append(nil, in)
		if !json.Valid(in) {
			return
		}
		if !json.Valid(moved) || !json.Valid(renewed) {
			t.Fatalf("no JSON any more: %q, %q", moved, renewed)
		}
		again := back.Append(nil, moved)
		if once := back.Append(nil, there.Append(nil, again)); !bytes.Equal(once, again) {
			t.Fatalf("moved there and back: %q, then %q", again, once)
		}
	})
}

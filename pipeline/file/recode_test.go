package file

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/internal/test/effort"
)

// table is an export as CSV, with the event in the last column.
func table(events []string, columns ...string) string {
	var b strings.Builder
	w := csv.NewWriter(&b)
	_ = w.Write(columns)
	for _, ev := range events {
		row := make([]string, len(columns))
		for i := range row {
			row[i] = "2026-11-21 06:03:57.603"
		}
		row[len(row)-1] = ev
		_ = w.Write(row)
	}
	w.Flush()
	return b.String()
}

// entries is what `gcloud logging read` writes.
func entries(events []string) string {
	var b strings.Builder
	for _, ev := range events {
		var o struct {
			AuditID        string
			StageTimestamp string
		}
		if err := json.Unmarshal([]byte(ev), &o); err != nil {
			panic(err)
		}
		out, err := yaml.Marshal(map[string]any{
			"insertId": o.AuditID, "logName": "projects/p/logs/cloudaudit.googleapis.com%2Factivity", "timestamp": o.StageTimestamp,
			"operation": map[string]any{"id": o.AuditID, "first": true, "last": true},
			"protoPayload": map[string]any{"@type": "type.googleapis.com/google.cloud.audit.AuditLog", "serviceName": "k8s.io", "methodName": "io.k8s.core.v1.nodes.get",
				"resourceName": "core/v1/nodes/a", "authenticationInfo": map[string]any{"principalEmail": "system:node:a"}},
		})
		if err != nil {
			panic(err)
		}
		b.WriteString("---\n" + string(out))
	}
	return b.String()
}

func asJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// exports are forms in which log stores give events away, each a file as a whole.
var exports = map[string]func(events []string) string{
	"CloudWatch Logs Insights, CSV": func(evs []string) string { return table(evs, "@timestamp", "@message") },
	"CloudWatch Logs Insights, JSON": func(evs []string) string {
		rows := []any{}
		for _, ev := range evs {
			rows = append(rows, []any{map[string]any{"field": "@message", "value": ev}, map[string]any{"field": "@ptr", "value": "x"}})
		}
		return asJSON(map[string]any{"results": rows, "status": "Complete"})
	},
	"Kibana, CSV":  func(evs []string) string { return "\ufeff" + table(evs, "@timestamp", "host.name", "message") },
	"Splunk, CSV":  func(evs []string) string { return table(evs, "_time", "_raw") },
	"Grafana, CSV": func(evs []string) string { return strings.ReplaceAll(table(evs, "Date", "Line"), "\n", "\r\n") },
	"gcloud, YAML": entries,
	"gcloud, JSON": func(evs []string) string {
		var list []any
		for doc := range strings.SplitSeq(strings.TrimPrefix(entries(evs), "---\n"), "---\n") {
			var o any
			if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
				panic(err)
			}
			list = append(list, o)
		}
		b, _ := json.MarshalIndent(list, "", "  ")
		return string(b)
	},
	"Elasticsearch": func(evs []string) string {
		hits := []any{}
		for _, ev := range evs {
			hits = append(hits, map[string]any{"_source": map[string]any{"message": ev, "agent": map[string]any{}}})
		}
		return `{"took":1,"hits":` + asJSON(map[string]any{"total": map[string]any{"value": len(evs)}, "hits": hits}) + "}\n"
	},
	"Loki": func(evs []string) string {
		values := []any{}
		for i, ev := range evs {
			values = append(values, []any{fmt.Sprint(i), ev})
		}
		return `{"status":"success","data":{"resultType":"streams","result":[{"stream":{},"values":` + asJSON(values) + `}]}}`
	},
	"EventList": func(evs []string) string {
		return `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":[` + "\n" + strings.Join(evs, ",\n") + "]}"
	},
}

// Of an export every event is read, in the order of time, in whatever order the export has them, and next to a log of lines.
func TestExports(t *testing.T) {
	for name, export := range exports {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			for _, n := range effort.Of([]int{1, 2, 100, 3000}, []int{1, 100}) {
				evs := strings.Split(strings.TrimSpace(events("e", n, 0, 2, 0)), "\n")
				want := idsOf(strings.Join(evs, "\n"))
				newest := slices.Clone(evs)
				slices.Reverse(newest)
				mixed := slices.Clone(evs)
				rng.Shuffle(n, func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
				for order, evs := range map[string][]string{"oldest first": evs, "newest first": newest, "in no order": mixed} {
					g := one(t, Options{}, export(evs))
					if diff := cmp.Diff(want, g.ids); diff != "" || g.res.Counts.Read != int64(n) || g.res.Counts.Malformed != 0 || len(g.res.Errors) > 0 {
						t.Fatalf("%d, %s: %+v (-want +got):\n%.2000s", n, order, g.res, diff)
					}
					if g := one(t, Options{}, gz(t, export(evs))); !slices.Equal(g.ids, want) {
						t.Fatalf("%d, %s, gzip: %d events", n, order, len(g.ids))
					}
				}
				lines := events("l", n, 1, 2, 0)
				dir := files(t, "a.log", lines, "b.export", export(newest))
				g := readAll(t, Options{}, dir+"/a.log", dir+"/b.export")
				both := idsOf(mergeLines(evs, strings.Split(strings.TrimSpace(lines), "\n")))
				if diff := cmp.Diff(both, g.ids); diff != "" {
					t.Fatalf("%d, with a log (-want +got):\n%.2000s", n, diff)
				}
			}
		})
	}
}

// mergeLines takes a line of each in turn.
func mergeLines(a, b []string) string {
	var out strings.Builder
	for i := range a {
		fmt.Fprintf(&out, "%s\n%s\n", a[i], b[i])
	}
	return out.String()
}

// Events of an instant keep their order, or have it back.
func TestExportsOfAnInstant(t *testing.T) {
	evs := strings.Split(strings.TrimSpace(events("a", 50, 0, 0, 0)+events("b", 50, 7, 0, 0)+events("c", 50, 8, 0, 0)), "\n")
	want := idsOf(strings.Join(evs, "\n"))
	newest := slices.Clone(evs)
	slices.Reverse(newest)
	for _, evs := range [][]string{evs, newest} {
		if diff := cmp.Diff(want, one(t, Options{}, exports["EventList"](evs)).ids); diff != "" {
			t.Errorf("(-want +got):\n%.2000s", diff)
		}
	}
}

// A log on lines is streamed and cannot be put in order: that it goes backward is an error, and some disorder is none.
func TestBackward(t *testing.T) {
	evs := strings.Split(strings.TrimSpace(events("e", 3000, 0, 2, 0)), "\n")
	newest := slices.Clone(evs)
	slices.Reverse(newest)
	for _, n := range []int{3, 100, 3000} {
		g := one(t, Options{}, strings.Join(newest[:n], "\n"))
		if len(g.ids) != n || len(g.res.Errors) != 1 || !strings.Contains(g.res.Errors[0].Error(), "from the newest event to the oldest") {
			t.Errorf("%d backward: %d events, %v", n, len(g.ids), g.res.Errors)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		some := slices.Clone(evs[:200])
		for range 60 { // an event up to five places too late
			i := rng.IntN(190)
			ev := some[i]
			some = slices.Insert(slices.Delete(some, i, i+1), i+1+rng.IntN(5), ev)
		}
		if g := one(t, Options{}, strings.Join(some, "\n")); len(g.res.Errors) > 0 {
			t.Fatal(g.res.Errors)
		}
	}
	rng.Shuffle(len(evs), func(i, j int) { evs[i], evs[j] = evs[j], evs[i] })
	if g := one(t, Options{}, strings.Join(evs, "\n")); len(g.res.Errors) > 0 {
		t.Error(g.res.Errors)
	}
}

// The farthest way back of an input is found, wherever it lies and however many chunks the input has.
func TestReversals(t *testing.T) {
	evs := strings.Split(strings.TrimSpace(events("e", 3000, 0, 1000, 0)), "\n")
	rng := rand.New(rand.NewPCG(3, 4))
	for range effort.Of(40, 10) {
		some := slices.Clone(evs)
		for range rng.IntN(4) { // a part of the log somewhere else
			from := rng.IntN(len(some) - 100)
			part := slices.Clone(some[from : from+rng.IntN(100)])
			some = slices.Delete(some, from, from+len(part))
			some = slices.Insert(some, rng.IntN(len(some)), part...)
		}
		var most, back time.Duration
		for _, ev := range some {
			i, _ := strings.CutPrefix(idsOf(ev)[0], "e")
			n, err := strconv.Atoi(i)
			if err != nil {
				t.Fatal(err)
			}
			at := time.Duration(n) * time.Second
			most, back = max(most, at), max(back, most-at)
		}
		g := one(t, Options{}, strings.Join(some, "\n"))
		var got time.Duration
		for _, r := range g.res.Reversals {
			got = r.From.Sub(r.To)
		}
		if got != back || len(g.res.Errors) > 0 {
			t.Fatalf("%s back, want %s; %v", got, back, g.res.Errors)
		}
	}
}

// What is wrong with an export is said with the line on which its record begins; what came before it counts.
func TestDamagedExports(t *testing.T) {
	evs := strings.Split(strings.TrimSpace(events("e", 4, 0, 1, 0)), "\n")
	f := func(name, text string, read int, malformed, problem string) {
		t.Helper()
		g := one(t, Options{MaxEventBytes: 5000}, text)
		var got, errs string
		for _, m := range g.res.Malformed {
			got += fmt.Sprintf("%d: %s\n", m.Line, m.Cause)
		}
		for _, err := range g.res.Errors {
			_, after, _ := strings.Cut(err.Error(), "x.log")
			errs += after
		}
		if len(g.ids) != read || got != malformed || errs != problem {
			t.Errorf("%s: %d events, %q, %q", name, len(g.ids), got, errs)
		}
	}
	quoted := table(evs, "@message")
	f("a row that is cut off", quoted[:len(quoted)-30], 3, "", `:5: reading stopped: the table is damaged or cut off: extraneous or missing " in quoted-field`)
	f("a row too few fields", table(evs, "@timestamp", "@message")+"only one\n", 4, "", ":6: reading stopped: the table is damaged or cut off: wrong number of fields")
	f("cells over lines", table([]string{evs[0], strings.ReplaceAll(evs[1], ",", ",\n"), "text", evs[2]}, "@message"), 3,
		fmt.Sprintf("%d: record of a shipper holds no JSON but \"text\"\n", 4+strings.Count(evs[1], ",")), "")
	f("a row without its message", table([]string{evs[0], "", evs[1]}, "x", "@message"), 2, "3: object is not an audit event\n", "")
	f("a row that never ends", quoted+`"`+strings.Repeat("x\n", 100_000), 4, "", ":6: reading stopped: a record is longer than 26384 bytes")
	f("an empty table", "@timestamp,@message\n", 0, "", "")
	yamls := entries(evs)
	per := strings.Count(entries(evs[:1]), "\n")
	f("an entry that is cut off", yamls[:strings.LastIndex(yamls, "serviceName")]+"\"", 3, "",
		fmt.Sprintf(":%d: reading stopped: the entry that begins there is damaged or cut off: found unexpected end of stream", 3*per+2))
	f("an entry of another service", entries(evs[:1])+strings.ReplaceAll(entries(evs[1:2]), "k8s.io\n", "compute.googleapis.com\n")+entries(evs[2:]), 3, "", "")
	f("an entry that never ends", yamls+strings.Repeat("  x: y\n", 10_000), 3, "", fmt.Sprintf(":%d: reading stopped: an entry is longer than 10000 bytes", 3*per+2))
	f("no head", "---\n\n---\n"+yamls, 4, "", "")
}

// Exports are recoded as they are read, and no more than a record is held.
func TestRecodeStreams(t *testing.T) {
	evs := strings.Split(strings.TrimSpace(events("e", 200, 0, 1, 0)), "\n")
	for name, text := range map[string]string{"csv": table(evs, "@message"), "yaml": entries(evs)} {
		fed := 0
		r, recoded := recode(readerFunc(func(p []byte) (int, error) {
			n := copy(p[:min(len(p), 512)], text[fed:])
			fed += n
			if n == 0 {
				return 0, io.EOF
			}
			return n, nil
		}), audit.DefaultMaxEventBytes)
		if !recoded {
			t.Fatalf("%s is not recoded", name)
		}
		buf := make([]byte, 300)
		if _, err := r.Read(buf); err != nil || fed > len(text)/2 {
			t.Errorf("%s: %d of %d bytes were read for the first record, %v", name, fed, len(text), err)
		}
	}
	for _, text := range []string{"", "message", "{\"a\":1}\n", "the log says message\n", "apiVersion: v1\n", "insertId: a\n", strings.Repeat("x", 1<<20)} {
		r, recoded := recode(strings.NewReader(text), 1000)
		got, err := io.ReadAll(r)
		if recoded || err != nil || string(got) != text {
			t.Errorf("%.30q is recoded to %.30q, %v", text, got, err)
		}
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// FuzzRecode holds that nothing panics, that lines are not lost from the count, and that what is recoded is JSON.
func FuzzRecode(f *testing.F) {
	evs := strings.Split(strings.TrimSpace(events("e", 3, 0, 1, 0)), "\n")
	for _, export := range exports {
		f.Add([]byte(export(evs)))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, recoded := recode(strings.NewReader(string(text)), 1000)
		got, err := io.ReadAll(r)
		if !recoded {
			if string(got) != string(text) || err != nil {
				t.Fatal("what is no export is changed")
			}
			return
		}
		if a, b := strings.Count(string(got), "\n"), strings.Count(string(text), "\n")+strings.Count(string(text), "\r"); a > b {
			t.Fatalf("%d lines of %d", a, b)
		}
		for line := range strings.Lines(string(got)) {
			if line = strings.TrimSpace(line); line != "" && !json.Valid([]byte(line)) {
				t.Fatalf("%q is no JSON", line)
			}
		}
	})
}

package app

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/internal/test/days"
	"github.com/nodetrail/nodetrail/internal/test/effort"
)

// decoded are the events of a day as JSON objects.
func decoded(t *testing.T, d *days.Day) []map[string]any {
	t.Helper()
	var out []map[string]any
	for line := range bytes.Lines(d.Log()) {
		var e map[string]any
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

// encoded writes one value on each line; encoding/json sorts their keys.
func encoded[T any](t *testing.T, all []T) []byte {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	for _, v := range all {
		if err := e.Encode(v); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// The answer does not depend on how the log is written, shipped and cut: by whom events were encoded, in lists or lines, with which stages, in one file or
// many, packed, twice, and by which distribution's programs.
func TestReadyInAnyForm(t *testing.T) {
	one := func(write func(*days.Day) []byte) func(*testing.T, *days.Day) []string {
		return func(t *testing.T, d *days.Day) []string { return []string{written(t, "audit.log", write(d))} }
	}
	agents := func(from, to string) func(*testing.T, *days.Day) []string {
		return one(func(d *days.Day) []byte { return bytes.ReplaceAll(d.Log(), []byte(from), []byte(to)) })
	}
	forms := map[string]func(*testing.T, *days.Day) []string{
		"sorted keys": one(func(d *days.Day) []byte { return encoded(t, decoded(t, d)) }),
		"lists": one(func(d *days.Day) []byte {
			var lists []map[string]any
			for chunk := range slices.Chunk(decoded(t, d), 400) {
				lists = append(lists, map[string]any{"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "metadata": map[string]any{}, "items": chunk})
			}
			return encoded(t, lists)
		}),
		"all stages": one(func(d *days.Day) []byte {
			var out []map[string]any
			began := map[any]bool{}
			for _, e := range decoded(t, d) {
				if !began[e["auditID"]] {
					began[e["auditID"]] = true
					first := map[string]any{}
					for k, v := range e {
						if k != "responseStatus" && k != "annotations" {
							first[k] = v
						}
					}
					first["stage"], first["stageTimestamp"] = "RequestReceived", e["requestReceivedTimestamp"]
					out = append(out, first)
				}
				out = append(out, e)
			}
			return encoded(t, out)
		}),
		"twice": one(func(d *days.Day) []byte {
			var out []map[string]any
			for _, e := range decoded(t, d) {
				out = append(out, e, e)
			}
			return encoded(t, out)
		}),
		"a file for each server, packed, in two parts": func(t *testing.T, d *days.Day) (out []string) {
			for i := range d.Options.Servers {
				log := d.ServerLog(i)
				half := bytes.LastIndexByte(log[:len(log)/2], '\n') + 1
				out = append(out, written(t, fmt.Sprintf("audit-%d.log", i), log[half:]), written(t, fmt.Sprintf("audit-%d-2026-01-01T00-00-00.000.log.gz", i), packed(t, log[:half])))
			}
			return out
		},
		"EKS's kubelets": agents(fmt.Sprintf("/v1.%d.", 35), fmt.Sprintf("/v1.%d.0-eks-", 35)),
		"GKE's":          agents(fmt.Sprintf("/v1.%d.4 ", 35), fmt.Sprintf("/v1.%d.4-gke.1206000 ", 35)),
		"k3s":            agents(fmt.Sprintf("/v1.%d.4 ", 35), fmt.Sprintf("/v1.%d.4+k3s1 ", 35)),
	}
	clean := threeHours(t, 16, days.Options{Minor: 35, Servers: 2, Nodes: 2, Features: days.Deployments | days.ServerRestart | days.VirtualNodes})
	for i, name := range slices.Sorted(maps.Keys(forms)) {
		if i%effort.Of(1, 3) != 0 {
			continue
		}
		form := forms[name]
		flaws := []string{"", "plant-request", "plant-impersonated", "node-impersonates", "binding-serviceaccount", "remove-node-hour"}
		flaws = effort.Of(flaws, flaws[i%2:i%2+1])
		for _, what := range flaws {
			t.Run(name+" "+what, func(t *testing.T) {
				t.Parallel()
				day, want := clean, []checks.Answer{checks.AnswerReady}
				if m, ok := days.Named(what, 5); ok {
					day, _ = m.Apply(clean)
					want = []checks.Answer{checks.AnswerNotReady, checks.AnswerNotEnough}
				}
				logs := form(t, day)
				results := provenDay(t, day, func(o *AnalyzeOptions) { o.Stdin, o.Logs = nil, logs })
				if v := checks.Conclude(checks.Ready, results, nil); !slices.Contains(want, v.Answer) {
					t.Errorf("%q by %v", v.Answer, open(results))
				}
			})
		}
	}
}

func written(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func packed(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

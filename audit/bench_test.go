package audit

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	kjson "sigs.k8s.io/json"
)

// capture returns about 4 MB of real lines: those of the file that NODETRAIL_CAPTURE names, or those of testdata again and again.
func capture(b *testing.B, keep func(line []byte) bool) []byte {
	b.Helper()
	lines := captureLines(b)
	if name := os.Getenv("NODETRAIL_CAPTURE"); name != "" {
		log, err := os.ReadFile(name)
		if err != nil {
			b.Fatal(err)
		}
		lines = bytes.Split(bytes.TrimSpace(log), []byte("\n"))
	}
	var out []byte
	for len(out) < 4<<20 {
		before := len(out)
		for _, line := range lines {
			if keep(line) {
				out = append(append(out, line...), '\n')
			}
		}
		if len(out) == before {
			b.Fatal("no line is like that")
		}
	}
	return out
}

func whole([]byte) bool { return true }

// metadata is whether a line is an event without bodies.
func metadata(line []byte) bool { return bytes.Contains(line, []byte(`"level":"Metadata"`)) }

func benchmarkLines(b *testing.B, log []byte, decode func(line []byte) error) {
	lines := bytes.Split(bytes.TrimSpace(log), []byte("\n"))
	b.SetBytes(int64(len(log)))
	b.ReportAllocs()
	for b.Loop() {
		for _, line := range lines {
			if err := decode(line); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(lines)), "ns/event")
}

func BenchmarkDecode(b *testing.B) {
	for _, c := range []struct {
		name string
		keep func([]byte) bool
	}{{"metadata", metadata}, {"all", whole}} {
		log := capture(b, c.keep)
		b.Run("nodetrail/"+c.name, func(b *testing.B) {
			var r reader
			var ev Event
			benchmarkLines(b, log, func(line []byte) error {
				r.s.Reset(line)
				r.event(&ev)
				r.s.End()
				return r.s.Err()
			})
		})
		b.Run("sigs.k8s.io-json/"+c.name, func(b *testing.B) {
			benchmarkLines(b, log, func(line []byte) error {
				var ev auditv1.Event
				return kjson.UnmarshalCaseSensitivePreserveInts(line, &ev)
			})
		})
		b.Run("encoding-json/"+c.name, func(b *testing.B) {
			benchmarkLines(b, log, func(line []byte) error {
				var ev auditv1.Event
				return json.Unmarshal(line, &ev)
			})
		})
	}
}

// BenchmarkUnneeded decodes what nothing needs.
func BenchmarkUnneeded(b *testing.B) {
	unneeded := func(line []byte) bool {
		ev, err := decodeOne(line)
		return err == nil && !Needed(ev, Want{State: true})
	}
	benchmarkChunk(b, capture(b, unneeded), Want{State: true})
}

func BenchmarkChunk(b *testing.B) {
	benchmarkChunk(b, capture(b, whole), Want{State: true})
}

func benchmarkChunk(b *testing.B, log []byte, want Want) {
	d := Decoder{Want: want}
	var counts Counts
	b.SetBytes(int64(len(log)))
	b.ReportAllocs()
	for b.Loop() {
		counts = d.Chunk(log, 1, func(*Event) {}, func(m Malformed) { b.Fatal(m) })
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(counts.Read), "ns/event")
	b.ReportMetric(float64(counts.Skipped)/float64(counts.Read), "skipped/event")
}

// BenchmarkSplit takes lists apart as kube-apiserver sends them to a webhook, and as another sender could write them.
func BenchmarkSplit(b *testing.B) {
	lines := bytes.Split(bytes.TrimSpace(capture(b, whole)), []byte("\n"))
	for _, c := range []struct{ name, start string }{{"kube-apiserver", listStart}, {"other", " " + strings.Replace(listStart, ":", ": ", 1)}} {
		b.Run(c.name, func(b *testing.B) {
			var lists [][]byte
			size := 0
			for some := range slices.Chunk(lines, 400) {
				list := append(append([]byte(c.start+"["), bytes.Join(some, []byte(","))...), "]}\n"...)
				lists = append(lists, list)
				size += len(list)
			}
			var d Decoder
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				for _, list := range lists {
					d.Split(list, func(*Event, []byte) {}, func(m Malformed, _ []byte) { b.Fatal(m) })
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(lines)), "ns/event")
		})
	}
}

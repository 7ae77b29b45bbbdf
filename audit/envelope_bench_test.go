package audit

import (
	"bytes"
	"testing"
)

// BenchmarkMessage decodes the capture one event a message: bare, next to the same by Chunk, and in the envelope of each shipper. Bytes are
// those of the bare events, so that figures compare.
func BenchmarkMessage(b *testing.B) {
	var events []string
	size := 0
	for _, line := range bytes.Split(bytes.TrimSpace(capture(b, whole)), []byte("\n")) {
		events = append(events, string(line))
		size += len(line)
		if size > 1<<20 {
			break
		}
	}
	run := func(name string, messages [][]byte, decode func(d *Decoder, value []byte) Counts) {
		b.Run(name, func(b *testing.B) {
			d := Decoder{Want: Want{State: true}}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				var counts Counts
				for _, m := range messages {
					counts.Add(decode(&d, m))
				}
				if counts.Read != int64(len(events)) {
					b.Fatalf("%+v", counts)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(events)), "ns/event")
		})
	}
	never := func(m Malformed) { b.Fatal(m) }
	message := func(d *Decoder, value []byte) Counts { return d.Message(value, func(*Event) {}, never) }
	bare := make([][]byte, len(events))
	for i, ev := range events {
		bare[i] = []byte(ev)
	}
	run("chunk", bare, func(d *Decoder, value []byte) Counts { return d.Chunk(value, 1, func(*Event) {}, never) })
	run("bare", bare, message)
	for _, s := range shippers {
		run(s.file, s.wrap(events), message)
	}
}

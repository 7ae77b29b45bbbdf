package cluster

import (
	"bytes"
	"io"
	"os"
	"testing"

	"github.com/klauspost/compress/gzip"
)

// BenchmarkLoad loads the capture's journal, unpacked.
func BenchmarkLoad(b *testing.B) {
	packed, err := os.ReadFile("testdata/capture.jsonl.gz")
	if err != nil {
		b.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		b.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if err := NewState().Load([]string{"-"}, bytes.NewReader(text)); err != nil {
			b.Fatal(err)
		}
	}
}

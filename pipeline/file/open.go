package file

import (
	"bufio"
	"bytes"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

type form uint8

const (
	plain form = iota
	gzipped
	zstandard
)

// formOf tells compression by the content, whatever the name says.
func formOf(head []byte) form {
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return gzipped
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return zstandard
	}
	return plain
}

// decompress returns a reader of the plain bytes.
func decompress(r io.Reader) (io.Reader, func(), error) {
	b := bufio.NewReaderSize(r, 64<<10)
	head, _ := b.Peek(4)
	switch formOf(head) {
	case gzipped:
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, nil, fmt.Errorf("not a readable gzip file: %w", err)
		}
		return z, func() { _ = z.Close() }, nil
	case zstandard:
		z, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(256<<20))
		if err != nil {
			return nil, nil, fmt.Errorf("not a readable zstd file: %w", err)
		}
		return z, z.Close, nil
	}
	return b, func() {}, nil
}

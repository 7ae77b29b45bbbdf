package file

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

type form uint8

const (
	plain form = iota
	gzipped
	zstandard
)

var gzipMagic = []byte{0x1f, 0x8b}

// formOf tells compression by the content, whatever the name says.
func formOf(head []byte) form {
	switch {
	case bytes.HasPrefix(head, gzipMagic):
		return gzipped
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return zstandard
	}
	return plain
}

// open opens an input. What is no regular file may keep its reader waiting indefinitely; then the end of ctx ends the reading.
func open(ctx context.Context, in *Input) (io.Reader, func(), error) {
	if !in.pipe {
		f, err := os.Open(in.Path)
		if err != nil {
			return nil, nil, err
		}
		return f, func() { _ = f.Close() }, nil
	}
	r, w := io.Pipe()
	go func() {
		src := in.stdin
		if src == nil {
			f, err := os.Open(in.Path) // waits until somebody writes
			if err != nil {
				_ = w.CloseWithError(err)
				return
			}
			defer func() { _ = f.Close() }()
			defer context.AfterFunc(ctx, func() { _ = f.Close() })()
			src = f
		}
		_, err := io.Copy(w, src)
		_ = w.CloseWithError(err)
	}()
	stop := context.AfterFunc(ctx, func() { _ = r.CloseWithError(ctx.Err()) })
	return r, func() { stop(); _ = r.Close() }, nil
}

// Open opens a file, or stdin for "-", and returns its plain bytes, whatever it is compressed by. The end of ctx ends the wait for what is no regular
// file. The caller calls the function that it returns when it has read enough.
func Open(ctx context.Context, path string, stdin io.Reader) (io.Reader, func(), error) {
	in := Input{Path: path}
	if path == "-" {
		in.stdin, in.pipe = stdin, true
	} else if info, err := os.Stat(path); err != nil {
		return nil, nil, err
	} else {
		in.pipe = !info.Mode().IsRegular() && !info.IsDir()
	}
	r, closeFile, err := open(ctx, &in)
	if err != nil {
		return nil, nil, err
	}
	plain, closeReader, err := decompress(r)
	if err != nil {
		closeFile()
		return nil, nil, err
	}
	return plain, func() { closeReader(); closeFile() }, nil
}

// decompress returns a reader of the plain bytes.
func decompress(r io.Reader) (io.Reader, func(), error) {
	plain, _, closeReader, err := unpack(r)
	return plain, closeReader, err
}

// unpack is decompress, and says whether there was anything to decompress.
func unpack(r io.Reader) (io.Reader, bool, func(), error) {
	b := bufio.NewReaderSize(r, 64<<10)
	head, _ := b.Peek(4)
	switch formOf(head) {
	case gzipped:
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, true, nil, damage(err)
		}
		z.Multistream(false)
		return packed{&members{z: z, b: b}}, true, func() { _ = z.Close() }, nil
	case zstandard:
		z, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(256<<20))
		if err != nil {
			return nil, true, nil, damage(err)
		}
		return packed{z}, true, z.Close, nil
	}
	return b, false, func() {}, nil
}

// members reads gzip: the members of a file, one behind the other, and nothing but zeros behind the last, as `gzip -t` accepts it.
type members struct {
	z   *gzip.Reader // of one member
	b   *bufio.Reader
	err error
}

func (m *members) Read(p []byte) (n int, err error) {
	for n == 0 && m.err == nil && len(p) > 0 {
		if n, m.err = m.z.Read(p); errors.Is(m.err, io.EOF) {
			m.err = m.next()
		}
	}
	if n > 0 {
		return n, nil
	}
	return 0, m.err
}

// next continues with the next member. The error is io.EOF if there is none.
func (m *members) next() error {
	head, err := m.b.Peek(len(gzipMagic))
	if len(head) == 0 {
		return err
	}
	if bytes.HasPrefix(gzipMagic, head) {
		if err := m.z.Reset(m.b); errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF // in the header
		} else if err != nil {
			return err
		}
		m.z.Multistream(false)
		return nil
	}
	for {
		if c, err := m.b.ReadByte(); err != nil {
			return err
		} else if c != 0 {
			return errBehind
		}
	}
}

var errBehind = errors.New("there is data after the end of the compressed log")

// packed gives the errors of decompressors words that a user understands.
type packed struct{ r io.Reader }

func (p packed) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		err = damage(err)
	}
	return n, err
}

func damage(err error) error {
	var path *fs.PathError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return fmt.Errorf("the compressed data is cut off: %w", io.ErrUnexpectedEOF)
	case errors.As(err, &path), errors.Is(err, errBehind), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return fmt.Errorf("the compressed data is damaged: %w", err)
}

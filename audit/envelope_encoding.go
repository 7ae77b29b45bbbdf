package audit

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/nodetrail/nodetrail/internal/jscan"
)

var (
	gzipMagic = []byte("\x1f\x8b\x08")
	zstdMagic = []byte("\x28\xb5\x2f\xfd")
	// The first three bytes of them in base64.
	gzipBase64 = []byte("H4sI")
	zstdBase64 = []byte("KLUv")
	// cutMark is what CloudWatch Logs leaves of what was longer than a log event may be.
	cutMark = []byte("[Truncated...]")
)

// text decodes the inside of a string that an envelope holds at offset of the buffer; plain is whether it stands for itself.
func (d *Decoder) text(raw []byte, plain bool, envelope Envelope, offset int) {
	if bytes.HasSuffix(raw, cutMark) {
		d.reportInside(envelope, offset, "event was cut off by CloudWatch Logs")
		return
	}
	if plain {
		d.plainText(raw, envelope, offset)
		return
	}
	l := &d.layers
	data := jscan.AppendUnescaped(l.room(len(raw)+8), raw)
	if d.plainText(data, envelope, offset) {
		l.keep(data)
	}
}

// plainText decodes text that may be base64. It returns whether any event was given to emit that may alias it.
func (d *Decoder) plainText(text []byte, envelope Envelope, offset int) (emitted bool) {
	head := bytes.TrimLeft(text, " \t\r\n")
	if !base64Head(head) {
		return d.nest(text, envelope, offset)
	}
	d.base64(head, envelope, offset)
	return false
}

// base64 decodes what is base64 of anything.
func (d *Decoder) base64(text []byte, envelope Envelope, offset int) {
	size := base64.RawStdEncoding.DecodedLen(len(text))
	var room []byte
	packed := bytes.HasPrefix(text, gzipBase64) || bytes.HasPrefix(text, zstdBase64)
	if l := &d.layers; packed { // then no event will alias it
		if cap(l.scratch) < size {
			l.scratch = make([]byte, 0, size)
		}
		room = l.scratch[:0]
	} else {
		room = make([]byte, 0, size) // not of the arena, where text may be
	}
	data, ok := decodeBase64(room, text)
	if !ok {
		d.reportInside(envelope, offset, "invalid base64")
		return
	}
	if packed && !bytes.HasPrefix(data, gzipMagic) && !bytes.HasPrefix(data, zstdMagic) {
		data = bytes.Clone(data)
	}
	d.nest(data, max(envelope, EnvelopeEncoded), offset)
}

// base64Whole is whether text may be base64 of anything, by its length and its first and last bytes.
func base64Whole(text []byte) bool {
	if len(text) < 8 || len(text)%4 != 0 {
		return false
	}
	for _, c := range text[:8] {
		if !base64Byte(c) {
			return false
		}
	}
	return base64Byte(text[len(text)-1])
}

// base64Head is whether text begins as base64 of JSON, gzip or zstd does. No JSON and no log line that has events begins so.
func base64Head(text []byte) bool {
	if len(text) < 8 {
		return false
	}
	switch string(text[:2]) {
	case "ey", "ew", "W3", "Ww", "Wy": // {" {\n [{ [\n, [ and a space
	case "H4", "KL":
		if !bytes.HasPrefix(text, gzipBase64) && !bytes.HasPrefix(text, zstdBase64) {
			return false
		}
	default:
		return false
	}
	for _, c := range text[:8] {
		if !base64Byte(c) {
			return false
		}
	}
	return true
}

func base64Byte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '+' || c == '/' || c == '-' || c == '_' || c == '='
}

// decodeBase64 appends what text stands for, in either alphabet, with padding or without.
func decodeBase64(dst, text []byte) ([]byte, bool) {
	text = bytes.TrimRight(bytes.TrimRight(text, " \t\r\n"), "=")
	encoding := base64.RawStdEncoding
	if bytes.ContainsAny(text, "-_") {
		encoding = base64.RawURLEncoding
	}
	dst, err := encoding.AppendDecode(dst, text)
	return dst, err == nil
}

// compressed decodes what is gzip or zstd. What came before a damage is not lost; what inflates beyond the bound is.
func (d *Decoder) compressed(data []byte, offset int) {
	left := d.outside(EnvelopeEncoded, offset).inflated
	plain, err := d.layers.inflate.all(data, *left)
	if *left -= len(plain); errors.Is(err, errInflated) {
		d.report(offset, err.Error())
		return
	}
	d.nest(plain, EnvelopeEncoded, offset)
	if err != nil {
		d.report(offset, err.Error())
	}
}

var (
	errInflated = errors.New("compressed data exceeds the bound on what it may grow to")
	errDamaged  = errors.New("compressed data is damaged or cut off")
)

// An inflater holds decompressors to use them again.
type inflater struct {
	in   bytes.Reader
	gzip *gzip.Reader
	zstd *zstd.Decoder
}

// all returns all that data holds in memory of its own, at most bound bytes.
func (f *inflater) all(data []byte, bound int) ([]byte, error) {
	f.in.Reset(data)
	defer f.in.Reset(nil)
	var src io.Reader
	var err error
	guess := 8 * len(data)
	switch {
	case bytes.HasPrefix(data, zstdMagic):
		src, err = f.openZstd()
	default:
		if len(data) >= 4 { // the length of the last member, if it was not made to lie
			guess = int(binary.LittleEndian.Uint32(data[len(data)-4:])) + 1
		}
		src, err = f.openGzip()
	}
	if err != nil {
		return nil, errDamaged
	}
	// A lie costs no more than what honest data of that length may.
	out := make([]byte, 0, max(512, min(guess, 40*len(data), bound+1)))
	for {
		if len(out) > bound {
			return out[:bound], errInflated
		}
		if len(out) == cap(out) {
			grown := make([]byte, len(out), min(2*cap(out), bound+1))
			copy(grown, out)
			out = grown
		}
		n, err := src.Read(out[len(out):cap(out)])
		out = out[:len(out)+n]
		switch {
		case errors.Is(err, io.EOF):
			if len(out) > bound {
				return out[:bound], errInflated
			}
			return out, nil
		case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
			return out, errInflated
		case err != nil:
			return out, errDamaged
		}
	}
}

func (f *inflater) openGzip() (io.Reader, error) {
	if f.gzip == nil {
		z, err := gzip.NewReader(&f.in)
		if err != nil {
			return nil, err
		}
		f.gzip = z
		return z, nil
	}
	return f.gzip, f.gzip.Reset(&f.in)
}

func (f *inflater) openZstd() (io.Reader, error) {
	if f.zstd == nil {
		// With a concurrency of one it runs no goroutines, so that it needs no Close.
		z, err := zstd.NewReader(&f.in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(8<<20))
		if err != nil {
			return nil, err
		}
		f.zstd = z
		return z, nil
	}
	return f.zstd, f.zstd.Reset(&f.in)
}

// reportInside is report about what an envelope holds.
func (d *Decoder) reportInside(envelope Envelope, offset int, cause string) {
	if envelope > EnvelopeOther {
		cause = fmt.Sprintf("in %s: %s", envelope, cause)
	}
	d.report(offset, cause)
}

package cluster

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"

	kgzip "github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/nodetrail/nodetrail/internal/userfile"
)

// InputError says which input could not be used, where and why.
type InputError struct {
	Path string
	Line int // from 1; 0 when it is not about a line
	Err  error
}

// Error is one sentence without an end.
func (e *InputError) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("%s:%d: %v", e.Path, e.Line, e.Err)
	}
	return fmt.Sprintf("%s: %v", e.Path, e.Err)
}

// Unwrap gives the cause.
func (e *InputError) Unwrap() error { return e.Err }

var (
	errEmpty     = errors.New("the file is empty")
	errNoObjects = errors.New("no Kubernetes object or watch event in it")
	errNoneRead  = errors.New("no Kubernetes object in it can be read")
	errBinary    = errors.New("neither JSON nor YAML")
	errAuditLog  = errors.New("an audit log, not cluster state: analyze takes it as AUDIT_LOG, explain by --audit-log")
)

const stdinName = "<stdin>"

// maxValueBytes bounds one JSON value that must be held in memory at once. The items of a list count singly.
const maxValueBytes = 512 << 20

// StateFiles are the files that paths of state stand for, as far as they are there.
func StateFiles(paths []string) []string {
	var all []string
	for _, p := range paths {
		files, err := findInputs([]string{p})
		if err != nil {
			files = []string{p}
		}
		all = append(all, files...)
	}
	return all
}

// findInputs resolves what the user gave to files. A folder stands for the files below it that are named like state files.
func findInputs(paths []string) (files []string, err error) {
	for _, p := range paths {
		if p == "-" {
			files = append(files, p)
			continue
		}
		info, err := os.Stat(p)
		if err != nil {
			return nil, &InputError{Path: p, Err: userfile.Cause(err)}
		}
		if !info.IsDir() {
			files = append(files, p)
			continue
		}
		found := len(files)
		err = filepath.WalkDir(p, func(path string, e fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return &InputError{Path: path, Err: userfile.Cause(err)}
			case path != p && strings.HasPrefix(e.Name(), "."):
				if e.IsDir() {
					return fs.SkipDir
				}
			case !e.IsDir() && namedLikeState(e.Name()):
				files = append(files, path)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		if len(files) == found {
			return nil, &InputError{Path: p, Err: errors.New("no state files in this folder (.json, .jsonl, .ndjson, .yaml or .yml, also with .gz or .zst)")}
		}
	}
	return files, nil
}

func namedLikeState(name string) bool {
	name = strings.ToLower(name)
	name = strings.TrimSuffix(strings.TrimSuffix(name, ".gz"), ".zst")
	switch filepath.Ext(name) {
	case ".json", ".jsonl", ".ndjson", ".yaml", ".yml":
		return true
	}
	return false
}

// input is an opened file, decompressed.
type input struct {
	io.Reader
	close func()
	yaml  bool
	// archive is there in place of the Reader for an archive of files.
	archive *archiveReader
	// etcd is there in place of the Reader for a snapshot of etcd.
	etcd *etcdSnapshot
}

// isNothing reports whether an input was read and held nothing of use.
func isNothing(err error) bool {
	return errors.Is(err, errNoObjects) || errors.Is(err, errEmpty) || errors.Is(err, errAuditLog)
}

// openInput opens a file and finds out from its first bytes how it is packed and in what language it is written.
func openInput(path string, stdin io.Reader) (*input, error) {
	in := &input{close: func() {}}
	var raw io.Reader
	if path == "-" {
		if stdin == nil {
			return nil, errors.New("no standard input")
		}
		raw = stdin
	} else {
		f, err := os.Open(path)
		if err != nil {
			return nil, userfile.Cause(err)
		}
		in.close = func() { _ = f.Close() }
		raw = f
	}
	count := &countingReader{r: raw}
	r, packed, err := in.unpack(count)
	if err == nil {
		switch head, _ := r.Peek(archiveHead); {
		case isArchive(head):
			in.archive = &archiveReader{tar: tar.NewReader(explained{r})}
			return in, nil
		case isEtcd(head), isSQLite(head):
			open := openEtcd
			if isSQLite(head) {
				open = openKine
			}
			var contents io.Reader = r
			if packed {
				contents = &unpackedReader{r: r, packed: count}
			}
			in.etcd, err = snapshotOf(path, contents, path != "-" && !packed, open)
			in.close()
			if err != nil {
				return nil, err
			}
			in.close = in.etcd.close
			return in, nil
		case isWAL(head):
			err = errWAL
		default:
			err = in.language(r)
		}
	}
	if err != nil {
		in.close()
		return nil, err
	}
	in.Reader = explained{r}
	return in, nil
}

// unpack decompresses what is compressed, and says whether it is.
func (in *input) unpack(raw io.Reader) (r *bufio.Reader, packed bool, err error) {
	const size = 256 << 10
	r = bufio.NewReaderSize(raw, size)
	head, err := r.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, explain(err)
	}
	closeFile := in.close
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		z, err := kgzip.NewReader(r)
		if err != nil {
			return nil, true, explain(err)
		}
		return bufio.NewReaderSize(z, size), true, nil
	case bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, true, explain(err)
		}
		in.close = func() { z.Close(); closeFile() }
		return bufio.NewReaderSize(z, size), true, nil
	}
	return r, false, nil
}

// countingReader counts what is read.
type countingReader struct {
	r io.Reader
	n int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// Bounds of what is written to the disk of a compressed file: databases become a fifth or a twentieth of their size, and a file that is made to fill the
// disk a thousandth.
const (
	mostUnpacked = 256 << 20
	mostRatio    = 500
)

var errExpands = fmt.Errorf("the compressed data becomes more than %d times as large: unpack it, and give the file", mostRatio)

// unpackedReader reads what is decompressed, until it is suspiciously much.
type unpackedReader struct {
	r      io.Reader
	packed *countingReader
	n      int64
}

func (u *unpackedReader) Read(p []byte) (int, error) {
	n, err := u.r.Read(p)
	if u.n += int64(n); u.n > mostUnpacked && u.n/mostRatio > u.packed.n {
		return 0, errExpands
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = explain(err)
	}
	return n, err
}

const byteOrderMark = "\ufeff"

// flowYAML is how YAML in the flow style begins: with the name of a member that has no quotes, or single ones.
var flowYAML = regexp.MustCompile(`^(\[\s*)?\{\s*'?[A-Za-z]+'?:\s`)

// language skips a byte-order mark and white space and tells JSON from YAML.
func (in *input) language(r *bufio.Reader) error {
	if bom, _ := r.Peek(len(byteOrderMark)); string(bom) == byteOrderMark {
		_, _ = r.Discard(len(byteOrderMark))
	}
	head, err := r.Peek(4096)
	if err != nil && !errors.Is(err, io.EOF) {
		return explain(err)
	}
	first := bytes.TrimLeft(head, " \t\r\n")
	switch {
	case len(first) == 0 && err == io.EOF:
		return errEmpty
	case len(first) > 0 && (first[0] == '{' || first[0] == '[') && !flowYAML.Match(first):
		return nil
	}
	if bytes.IndexByte(head, 0) >= 0 || !utf8.Valid(trimPartialRune(head)) {
		return errBinary
	}
	in.yaml = true
	return nil
}

// trimPartialRune cuts off what may be the beginning of a longer rune at the end.
func trimPartialRune(b []byte) []byte {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if utf8.RuneStart(b[len(b)-n]) {
			if !utf8.FullRune(b[len(b)-n:]) {
				return b[:len(b)-n]
			}
			break
		}
	}
	return b
}

// explained gives the errors of decompressors words that a user understands.
type explained struct{ r io.Reader }

func (e explained) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = explain(err)
	}
	return n, err
}

func explain(err error) error {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("the compressed data is cut off: %w", err)
	case errors.Is(err, gzip.ErrChecksum), errors.Is(err, gzip.ErrHeader), errors.Is(err, kgzip.ErrChecksum), errors.Is(err, kgzip.ErrHeader):
		return fmt.Errorf("the compressed data is damaged: %w", err)
	}
	return fmt.Errorf("reading: %w", userfile.Cause(err))
}

package cluster

import (
	"archive/tar"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// isArchive tells a tar archive by the beginning of its first header.
func isArchive(head []byte) bool {
	const at = 257 // POSIX.1-1988 and GNU tar alike
	return len(head) >= at+5 && string(head[at:at+5]) == "ustar"
}

const archiveHead = 262

// ofBundle reports whether a file is of a folder that must-gather made, or one that is laid out like it: the objects of some namespaces, and some of the others.
func ofBundle(name string) bool {
	parts := strings.Split(filepath.ToSlash(filepath.Dir(name)), "/")
	return slices.Contains(parts, "cluster-scoped-resources") || slices.Contains(parts, "namespaces")
}

// archiveReader reads the files of a tar archive that are named like state, such as a backup of Velero's has for each object. Those in it that are archives or
// compressed themselves are passed over.
type archiveReader struct {
	tar  *tar.Reader
	name string // of the file that was read last
}

// next returns the JSON documents of the next file that may hold state, io.EOF at the end.
func (a *archiveReader) next() ([]yamlDoc, error) {
	for {
		h, err := a.tar.Next()
		if errors.Is(err, io.EOF) {
			return nil, io.EOF
		}
		if err != nil {
			return nil, fmt.Errorf("the archive is cut off or damaged: %w", err)
		}
		base := path.Base(h.Name)
		if h.Typeflag != tar.TypeReg || strings.HasPrefix(base, ".") || !namedLikeState(base) || slices.Contains([]string{".gz", ".zst"}, path.Ext(base)) {
			continue
		}
		a.name = h.Name
		text, err := io.ReadAll(io.LimitReader(a.tar, maxValueBytes+1))
		switch {
		case err != nil:
			return nil, fmt.Errorf("the archive is cut off or damaged: %w", err)
		case len(text) > maxValueBytes:
			return nil, errTooLong
		}
		in := &input{}
		text = bytes.TrimPrefix(text, []byte(byteOrderMark))
		switch err := in.language(bufio.NewReader(bytes.NewReader(text))); {
		case isNothing(err):
			continue
		case err != nil:
			return nil, err
		case !in.yaml:
			return []yamlDoc{{json: text}}, nil
		}
		return yamlDocs(text)
	}
}

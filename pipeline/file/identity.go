package file

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
)

const (
	// fingerprintBytes is how much of a file's plain head is its fingerprint.
	fingerprintBytes = 1024
	// leastFingerprint is how much it must have to tell files apart: events of the level Metadata are the same up to byte 77, and their
	// auditID ends at byte 113.
	leastFingerprint = 128
	// tailBytes is how much before a position must be what it was for the position to hold.
	tailBytes = 256
)

// mark is what a file is known by: the plain bytes that it begins with, and its device and inode. Those two alone are not enough, an inode
// is used again as soon as its file is deleted; and the head alone is not while it is short.
type mark struct {
	info fs.FileInfo
	head []byte // fingerprintBytes, or as much as there is
}

// tells is whether a head is enough to know a file by: it holds an event, or as much of it as is ever looked at, and not just the NUL bytes
// that two rotators leave.
func tells(head []byte) bool {
	if len(head) < leastFingerprint || len(head) < fingerprintBytes && bytes.IndexByte(head, '\n') < 0 {
		return false
	}
	return len(bytes.TrimLeft(head, "\x00")) > 0
}

// same is whether two marks are of one log file: itself grown, renamed, copied or compressed.
func (m mark) same(other mark) bool {
	n := min(len(m.head), len(other.head))
	if n == 0 && len(m.head) != len(other.head) {
		return false // it has content by now, whoever it is
	}
	if !bytes.Equal(m.head[:n], other.head[:n]) {
		return false
	}
	return tells(m.head[:n]) || m.sameFile(other)
}

// sameFile is whether both are of one device and inode.
func (m mark) sameFile(other mark) bool {
	return m.info != nil && other.info != nil && os.SameFile(m.info, other.info)
}

// sum is a fingerprint's text.
func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:16])
}

// readHead reads what a plain file begins with.
func readHead(f io.ReaderAt, n int64) ([]byte, error) {
	head := make([]byte, min(n, fingerprintBytes))
	got, err := f.ReadAt(head, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return head[:got], err
}

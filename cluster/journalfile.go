package cluster

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/klauspost/compress/gzip"
)

// JournalFile is a file that Record can write to, compressed when its name ends in .gz.
type JournalFile struct {
	f *os.File
	z *gzip.Writer
	w io.Writer
}

// CreateJournal creates a journal file, readable by its owner only. It does not overwrite one that is there.
func CreateJournal(path string) (*JournalFile, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("creating the journal: %w", err)
	}
	j := &JournalFile{f: f, w: f}
	if strings.HasSuffix(path, ".gz") {
		j.z = gzip.NewWriter(f)
		j.w = j.z
	}
	return j, nil
}

// Write writes to the file.
func (j *JournalFile) Write(p []byte) (int, error) { return j.w.Write(p) }

// Flush makes readable what was written so far.
func (j *JournalFile) Flush() error {
	if j.z != nil {
		return j.z.Flush()
	}
	return nil
}

// Close finishes the file and returns when it is on disk.
func (j *JournalFile) Close() error {
	var err error
	if j.z != nil {
		err = j.z.Close()
	}
	if e := j.f.Sync(); err == nil {
		err = e
	}
	if e := j.f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("finishing the journal: %w", err)
	}
	return nil
}

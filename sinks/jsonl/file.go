package jsonl

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
)

// File is a file that whole lines are appended to. It is opened anew when it was renamed or removed, as log rotation does. Safe for
// concurrent use.
type File struct {
	path string

	mu   sync.Mutex
	f    *os.File
	torn bool // the file ends within a line
}

// OpenFile opens the file, and makes it if it is not there. Its folder must be.
func OpenFile(path string) (*File, error) {
	f := &File{path: path}
	if err := f.open(); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *File) open() error {
	file, err := os.OpenFile(f.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o640)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrInvalid) {
		file, err = os.OpenFile(f.path, os.O_WRONLY|os.O_APPEND, 0o640) // a pipe, or a file that may not be read
	}
	if err != nil {
		return fmt.Errorf("opening a file of JSON lines: %w", err)
	}
	f.f, f.torn = file, endsTorn(file)
	return nil
}

// endsTorn reports whether the file ends within a line: its last writer was killed, or the disk was full.
func endsTorn(file *os.File) bool {
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return false
	}
	var last [1]byte
	_, err = file.ReadAt(last[:], info.Size()-1)
	return err == nil && last[0] != '\n'
}

// Write appends whole lines, or none of them. It is not on the disk yet when Write returns.
func (f *File) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(p) == 0 {
		return 0, nil
	}
	if err := f.follow(); err != nil {
		return 0, err
	}
	if f.torn {
		if _, err := f.f.Write([]byte{'\n'}); err != nil {
			return 0, fmt.Errorf("writing JSON lines: %w", err)
		}
		f.torn = false
	}
	n, err := f.f.Write(p)
	if err == nil {
		return n, nil
	}
	if n > 0 {
		f.takeBack(p[:n])
	}
	return 0, fmt.Errorf("writing JSON lines: %w", err)
}

// takeBack removes what was written of lines whose rest did not fit, unless another writes to the file too.
func (f *File) takeBack(p []byte) {
	end, err := f.f.Seek(0, io.SeekEnd)
	if err == nil && end >= int64(len(p)) {
		tail := make([]byte, len(p))
		if _, err = f.f.ReadAt(tail, end-int64(len(p))); err == nil && bytes.Equal(tail, p) {
			err = f.f.Truncate(end - int64(len(p)))
			if err == nil {
				return
			}
		}
	}
	f.torn = true
}

// follow opens the file anew if its path leads to another by now.
func (f *File) follow() error {
	if f.f == nil {
		return f.open()
	}
	there, err := os.Stat(f.path)
	if err == nil {
		if ours, err := f.f.Stat(); err == nil && os.SameFile(there, ours) {
			return nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil // the open file is as good as before
	}
	return f.reopen()
}

func (f *File) reopen() error {
	old := f.f
	if err := f.open(); err != nil {
		f.f = old
		return err
	}
	if old != nil {
		_ = old.Close() // its lines were written; nothing is buffered
	}
	return nil
}

// Reopen opens the file anew, for SIGHUP.
func (f *File) Reopen() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reopen()
}

// Close closes the file. A later Write opens it again.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.f == nil {
		return nil
	}
	err := f.f.Close()
	f.f = nil
	if err != nil {
		return fmt.Errorf("closing a file of JSON lines: %w", err)
	}
	return nil
}

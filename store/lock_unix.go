//go:build unix

package store

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// lockFile is a lock that ends with the process, however it ends.
type lockFile struct{ f *os.File }

// lockPath takes the lock, or says which process has it.
func lockPath(path string) (*lockFile, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		var pid [32]byte
		n, _ := f.ReadAt(pid[:], 0) // only for the message
		return nil, fmt.Errorf("%w (process %s)", errLocked, strings.TrimSpace(string(pid[:n])))
	}
	if err := f.Truncate(0); err == nil {
		_, err = fmt.Fprintln(f, os.Getpid())
		if err != nil {
			return nil, errors.Join(fmt.Errorf("writing %s: %w", path, err), f.Close())
		}
	}
	return &lockFile{f}, nil
}

var errLocked = errors.New("another nodetrail uses it")

// unlock leaves the file: a process that waits for it would lock one that is no more.
func (l *lockFile) unlock() error { return l.f.Close() }

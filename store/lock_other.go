//go:build !unix

package store

import (
	"errors"
	"fmt"
	"os"
)

// lockFile is a lock that ends with the process where the system does not let a file that is open be removed.
type lockFile struct {
	f    *os.File
	path string
}

// lockPath takes the lock.
func lockPath(path string) (*lockFile, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", errLocked, err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errLocked, err)
	}
	return &lockFile{f, path}, nil
}

var errLocked = errors.New("another nodetrail uses it")

func (l *lockFile) unlock() error { return errors.Join(l.f.Close(), os.Remove(l.path)) }

//go:build unix

package app

import (
	"errors"
	"os"
	"syscall"
)

// isTaken locks a file until it is closed, and reports whether another process has. A file system that knows no locks has none.
func isTaken(f *os.File) bool {
	return errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}

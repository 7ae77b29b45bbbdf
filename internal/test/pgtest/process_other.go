//go:build !linux

package pgtest

import (
	"os"
	"syscall"
)

func attributes(*owner) *syscall.SysProcAttr { return nil }

func end(p *os.Process) error { return p.Kill() }

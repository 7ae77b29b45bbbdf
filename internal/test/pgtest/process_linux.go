package pgtest

import (
	"errors"
	"os"
	"syscall"
)

// attributes make the server end when the test does, however that ends.
func attributes(as *owner) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT}
	if as != nil {
		a.Credential = &syscall.Credential{Uid: uint32(as.uid), Gid: uint32(as.gid)}
	}
	return a
}

// end stops the server without waiting for anything.
func end(p *os.Process) error {
	if err := p.Signal(syscall.SIGQUIT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

package main

import (
	"os/exec"
	"syscall"
)

// dieWithParent ends the command when this program is killed, so that nothing is left of a load that was.
func dieWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

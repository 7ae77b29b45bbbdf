package killtest

import (
	"os/exec"
	"syscall"
)

// dieWithParent ends the command when this process is killed, so that nothing is left of a test that was.
func dieWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

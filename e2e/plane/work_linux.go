package plane

import "syscall"

// dieWithParent lets the kernel end the child when this process is killed.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }

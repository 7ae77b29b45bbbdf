//go:build !linux

package plane

import "syscall"

func dieWithParent(*syscall.SysProcAttr) {}

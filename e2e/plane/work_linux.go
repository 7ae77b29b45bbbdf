package plane

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// dieWithParent lets the kernel end the child when this process is killed.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }

// used reads /proc.
func used(pid int) (cpu time.Duration, peak int64) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0
	}
	// The name in brackets may hold anything; utime and stime are the 14th and 15th field, in ticks of 10 ms.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) > 12 {
		for _, f := range fields[11:13] {
			ticks, _ := strconv.ParseInt(f, 10, 64) // the kernel writes numbers
			cpu += time.Duration(ticks) * 10 * time.Millisecond
		}
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return cpu, 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			peak = kb * 1024
		}
	}
	return cpu, peak
}

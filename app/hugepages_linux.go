package app

import (
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// useHugePages has the kernel back the next n bytes of the heap by huge pages, where it lets programs ask for them, as it does by default
// (https://docs.kernel.org/admin-guide/mm/transhuge.html). The memory is asked for as one object, and given back untouched. The kernel keeps the advice for the
// addresses, and the runtime uses them again. Once in a process is enough: later the runtime would clear what it gives, and so use it.
func useHugePages(n int) {
	heap := make([]byte, n)
	begin := uintptr(unsafe.Pointer(unsafe.SliceData(heap)))
	_ = syscall.Madvise(heap[-begin%uintptr(os.Getpagesize()):], syscall.MADV_HUGEPAGE) // if refused, the pages stay small
	runtime.KeepAlive(heap)
	runtime.GC()
}

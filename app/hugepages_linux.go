package app

import (
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// pieceOfHugePages is how much is asked for at once, a multiple of a huge page of most machines.
const pieceOfHugePages = 4 << 20

// useHugePages has the kernel back the next n bytes of the heap by huge pages, where it lets programs ask for them, as it does by default
// (https://docs.kernel.org/admin-guide/mm/transhuge.html). The memory is asked for in pieces, and given back untouched. The kernel keeps the advice for the
// addresses, and the runtime uses them again. The runtime clears a piece of which it used a part before, and so uses it: of one large object that would be all.
// Once in a process is enough: later the runtime would clear them all.
func useHugePages(n int) {
	pieces := make([][]byte, 0, n/pieceOfHugePages)
	for range cap(pieces) {
		piece := make([]byte, pieceOfHugePages)
		begin := uintptr(unsafe.Pointer(unsafe.SliceData(piece)))
		_ = syscall.Madvise(piece[-begin%uintptr(os.Getpagesize()):], syscall.MADV_HUGEPAGE) // if refused, the pages stay small
		pieces = append(pieces, piece)
	}
	runtime.KeepAlive(pieces)
	runtime.GC()
}

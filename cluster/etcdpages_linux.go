package cluster

import (
	"syscall"
	"unsafe"

	bolt "go.etcd.io/bbolt"
)

// mapped is the memory into which a database is mapped. What was read of it counts as the process's own until it is given back.
type mapped struct {
	all  []byte
	read int
}

// releaseEvery is how many bytes of values are read before the pages are given back.
const releaseEvery = 64 << 20

func mappedBy(db *bolt.DB, size int64) mapped {
	info := db.Info()
	if info == nil || info.Data == 0 {
		return mapped{}
	}
	return mapped{all: unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&info.Data))), size)}
}

// used counts bytes that were read. The pages stay in the system's cache.
func (m *mapped) used(n int) {
	if m.read += n; m.read < releaseEvery || m.all == nil {
		return
	}
	m.read = 0
	_ = syscall.Madvise(m.all, syscall.MADV_DONTNEED) // it is only a hint
}

//go:build unix

package file

import (
	"io/fs"
	"syscall"
)

// deviceAndInode number the file, or are both 0 where the file system does not say.
func deviceAndInode(info fs.FileInfo) (device, inode uint64) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Dev), st.Ino //nolint:unconvert // the width of Dev differs between systems
	}
	return 0, 0
}

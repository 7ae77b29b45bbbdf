//go:build unix

package file

import (
	"io/fs"
	"syscall"
)

// noLink has open refuse what has become a symbolic link.
const noLink = syscall.O_NOFOLLOW

// sameOwner reports whether both belong to one user.
func sameOwner(a, b fs.FileInfo) bool {
	x, ok := a.Sys().(*syscall.Stat_t)
	y, both := b.Sys().(*syscall.Stat_t)
	return ok && both && x.Uid == y.Uid
}

// deviceAndInode number the file, or are both 0 where the file system does not say.
func deviceAndInode(info fs.FileInfo) (device, inode uint64) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Dev), st.Ino //nolint:unconvert // the width of Dev differs between systems
	}
	return 0, 0
}

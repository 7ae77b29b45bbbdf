//go:build !unix

package file

import "io/fs"

// deviceAndInode are 0: here files are known by their content alone.
func deviceAndInode(fs.FileInfo) (device, inode uint64) { return 0, 0 }

const noLink = 0

// sameOwner is not known here.
func sameOwner(fs.FileInfo, fs.FileInfo) bool { return false }

//go:build !unix

package app

import "os"

// isTaken would report whether another process writes a file, which this system does not tell.
func isTaken(*os.File) bool { return false }

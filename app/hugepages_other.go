//go:build !linux

package app

// useHugePages does nothing: other systems have no such advice, or need none.
func useHugePages(int) {}

// Package userfile has what all commands do with the files that a user names. It opens nothing.
package userfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Read says what a file that is to be written is to those who read an input, "" for nothing. An input is a file, a folder, a glob, "" or "-".
func Read(input, path string) string {
	if input == "" || input == "-" {
		return ""
	}
	all, err := filepath.Glob(input)
	if err != nil || len(all) == 0 {
		all = []string{input}
	}
	if match, err := filepath.Match(resolved(input), resolved(path)); err == nil && match {
		return "also an input"
	}
	if slices.ContainsFunc(all, func(in string) bool { return Same(in, path) }) {
		return "also an input"
	}
	for _, in := range all {
		if info, err := os.Stat(in); in == input && (err != nil || info.IsDir()) && within(in, path) {
			return "in " + in + ", which is read"
		}
	}
	return ""
}

// Same reports whether two paths are of one file, which need not be there. Devices and pipes are nobody's.
func Same(a, b string) bool {
	if a == "-" || b == "-" {
		return a == b
	}
	in, errA := os.Stat(a)
	out, errB := os.Stat(b)
	if errA == nil && errB == nil {
		return out.Mode().IsRegular() && os.SameFile(in, out)
	}
	return errA != nil && errB != nil && resolved(a) == resolved(b)
}

// within reports whether a file is, or would be, in a folder or in one below it.
func within(folder, path string) bool {
	rel, err := filepath.Rel(resolved(folder), resolved(path))
	return err == nil && filepath.IsLocal(rel)
}

// resolved is the path without links, as far as there is something at it.
func resolved(path string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	if all, err := filepath.EvalSymlinks(path); err == nil {
		return all
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(dir, filepath.Base(path))
	}
	return path
}

// Cause takes the path and the system call out of an error of package os, for those who name the file themselves.
func Cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// Unreadable is the error of a file that cannot be read.
func Unreadable(path string, err error) error {
	return fmt.Errorf("cannot read %s: %w", path, Cause(err))
}

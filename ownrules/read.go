package ownrules

import (
	"io"
	"os"

	"github.com/nodetrail/nodetrail/internal/userfile"
)

// ReadFile reads a file of rules, to be loaded. It reads little more than [MaxBytes].
func ReadFile(path string) (Source, error) {
	f, err := os.Open(path)
	if err != nil {
		return Source{}, userfile.Unreadable(path, err)
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, MaxBytes+1))
	if err != nil {
		return Source{}, userfile.Unreadable(path, err)
	}
	return Source{Name: path, Data: b}, nil
}

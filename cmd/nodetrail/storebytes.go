package main

import (
	"os"

	"github.com/nodetrail/nodetrail/internal/config"
)

// storeBytes is the size of the embedded store with its log, nil where the store is none.
func storeBytes(c *config.Config) func() int64 {
	if c.Store.Postgres != nil {
		return nil
	}
	path := sqlitePath(c)
	return func() int64 {
		var n int64
		for _, suffix := range []string{"", "-wal"} {
			if s, err := os.Stat(path + suffix); err == nil {
				n += s.Size()
			}
		}
		return n
	}
}

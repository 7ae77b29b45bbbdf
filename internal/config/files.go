package config

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/nodetrail/nodetrail/internal/userfile"
)

// Names of what is in the folder of the data.
const (
	storeName          = "nodetrail.db"
	DeadLetters        = "dead-letters.jsonl"
	GatewayDeadLetters = "gateway-dead-letters.jsonl"
	StateFolder        = "state"
)

// DataPath is where in the folder of the data something is.
func (c *Config) DataPath(name string) string { return filepath.Join(c.Data, name) }

// SQLitePath is where the embedded store is.
func (c *Config) SQLitePath() string {
	if s := c.Store.SQLite; s != nil && s.Path != "" {
		return s.Path
	}
	return c.DataPath(storeName)
}

// Reads are the files, folders and globs that a service with this configuration reads or keeps for itself, without State.Files.
func (c *Config) Reads() []string {
	db := c.SQLitePath()
	all := slices.Concat([]string{
		db, db + "-wal", db + "-shm", db + ".lock", c.DataPath(DeadLetters), c.DataPath(GatewayDeadLetters), c.DataPath(StateFolder), c.Coverage.PolicyFile,
	}, c.Rules.Files)
	for i := range c.Sources.Files {
		all = append(all, c.Sources.Files[i].Paths...)
	}
	return all
}

// OverwrittenBySink says which of sinks.jsonl would write into something that is read, and what that is; "" for none.
func (c *Config) OverwrittenBySink(configuration string) (sink int, what string) {
	reads := append(slices.Concat(c.Reads(), c.State.Files), configuration)
	for i := range c.Sinks.JSONL {
		path := c.Sinks.JSONL[i].Path
		if path == "" { // which is said elsewhere
			continue
		}
		for _, in := range reads {
			if what := userfile.Read(in, path); what != "" {
				return i, what
			}
		}
	}
	return 0, ""
}

// sinkFiles are files that no other sink writes and nobody reads.
func (v *validator) sinkFiles() {
	sinks := v.c.Sinks.JSONL
	for i := range sinks {
		at := fmt.Sprintf("sinks.jsonl[%d].path", i)
		if !v.need(at, sinks[i].Path) {
			continue
		}
		if slices.ContainsFunc(sinks[:i], func(other JSONLSink) bool { return other.Path != "" && userfile.Same(other.Path, sinks[i].Path) }) {
			v.fail(at, "%s is written by another sink", v.q(at, sinks[i].Path))
		}
	}
	if i, what := v.c.OverwrittenBySink(v.d.errs.File); what != "" {
		at := fmt.Sprintf("sinks.jsonl[%d].path", i)
		v.fail(at, "%s is %s, and would be overwritten", v.q(at, sinks[i].Path), what)
	}
}

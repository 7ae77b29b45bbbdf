package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/internal/config"
	"github.com/nodetrail/nodetrail/store"
)

// StoreOptions name the store that Run writes.
type StoreOptions struct {
	// Config is run's configuration file, "" for the defaults; ConfigCheck says how it is read.
	Config string
	// Data is the folder of the store, in place of the configuration's data; "" for that.
	Data string
}

// load reads the configuration.
func (o *StoreOptions) load() (*config.Config, error) {
	c := config.Default()
	if o.Config != "" {
		var err error
		if c, err = config.Load(o.Config, os.LookupEnv); err != nil {
			return nil, err
		}
	}
	if o.Data != "" {
		c.Data = o.Data
	}
	return c, nil
}

// NoStoreError is that run has not stored anything.
type NoStoreError struct {
	Path string // where the store would be
	// Configured is whether a configuration file was given.
	Configured bool
}

// Error names the place.
func (e *NoStoreError) Error() string { return "no run has stored anything in " + e.Path }

// openToRead opens the store to read, while run may be running. A *NoStoreError says that there is none.
func openToRead(ctx context.Context, c *config.Config, configured bool) (*store.Store, error) {
	s, err := openStore(ctx, c, zerolog.Nop(), true)
	if errors.Is(err, fs.ErrNotExist) && c.Store.Postgres == nil {
		path := sqlitePath(c)
		if abs, err := filepath.Abs(path); err == nil {
			path = abs
		}
		return nil, &NoStoreError{Path: path, Configured: configured}
	}
	return s, err
}

// openStore opens the store that the configuration names.
func openStore(ctx context.Context, c *config.Config, log zerolog.Logger, readOnly bool) (*store.Store, error) {
	o := store.Options{
		ReadOnly: readOnly, Retention: c.Store.Retention.D(), Step: c.Store.Step.D(), Hourly: c.Store.Hourly.D(), DedupeFor: c.Store.DedupeFor.D(),
		MaxBytes: int64(c.Store.MaxBytes), Log: log,
	}
	if p := c.Store.Postgres; p != nil {
		dsn := p.DSN.Reveal()
		if p.DSNFile != "" {
			s, err := config.ReadSecret(p.DSNFile)
			if err != nil {
				return nil, fmt.Errorf("store.postgres.dsnFile: %w", err)
			}
			dsn = s.Reveal()
		}
		o.Schema = p.Schema
		return store.OpenPostgres(ctx, dsn, o)
	}
	return store.OpenSQLite(ctx, sqlitePath(c), o)
}

// sqlitePath is where the embedded store is.
func sqlitePath(c *config.Config) string {
	if s := c.Store.SQLite; s != nil && s.Path != "" {
		return s.Path
	}
	return dataPath(c, "nodetrail.db")
}

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

func dataPath(c *config.Config, name string) string { return filepath.Join(c.Data, name) }

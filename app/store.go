package app

import (
	"context"
	"encoding/json"
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
	// Cluster is the name of the cluster that the store is of, in place of the configuration's cluster; "" for that.
	Cluster string
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
	if o.Cluster == "" {
		return c, nil
	}
	if err := config.CheckCluster(o.Cluster); err != nil {
		return nil, optionError("Cluster", "%w", err)
	}
	return ofCluster(c, o.Cluster), nil
}

// sameCluster refuses the store of another cluster: with two clusters in it, nobody could say which of them a finding is about. The schemas of PostgreSQL are each of one
// cluster by themselves.
func sameCluster(ctx context.Context, s *store.Store, c *config.Config) error {
	if c.Store.Postgres != nil || c.Cluster == "" {
		return nil
	}
	all, err := s.Facts(ctx)
	if err != nil {
		return err
	}
	for _, raw := range all {
		var f struct{ Cluster string }
		if err := json.Unmarshal(raw, &f); err != nil {
			return fmt.Errorf("reading of which cluster the store is: %w", err)
		}
		if f.Cluster != "" && f.Cluster != c.Cluster {
			return fmt.Errorf("the store %s is of the cluster %q, and not of %q: set another data folder", c.SQLitePath(), f.Cluster, c.Cluster)
		}
	}
	return nil
}

// ofCluster is the configuration to read a cluster with. What one says of its own cluster holds for no other: the waivers and the exceptions that
// somebody answers for, the audit policy, and the order and the version of the authorizers.
func ofCluster(c *config.Config, cluster string) *config.Config {
	if c.Cluster == cluster {
		return c
	}
	out := *c
	out.Cluster, out.Waivers, out.Exceptions, out.Authorization, out.Coverage = cluster, nil, nil, config.Default().Authorization, config.Default().Coverage
	return &out
}

// NoStoreError is that run has not stored anything.
type NoStoreError struct {
	Path string // where the store would be
	// Configured is whether a configuration file was given.
	Configured bool
}

// Error names the place.
func (e *NoStoreError) Error() string { return "no run has stored anything in " + e.Path }

// openToRead opens the store that load names to read, while run may be running, and puts the name of its cluster into the configuration if that has none.
// A *NoStoreError says that there is no store, a *store.UnknownClusterError that none is of the cluster.
func (o *StoreOptions) openToRead(ctx context.Context, c *config.Config) (*store.Store, error) {
	so := storeOptions(c, zerolog.Nop())
	so.ReadOnly, so.ByName = true, o.Cluster != ""
	s, err := openStore(ctx, c, so)
	if err == nil {
		if err = o.settleCluster(ctx, c, s); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	if errors.Is(err, fs.ErrNotExist) && c.Store.Postgres == nil {
		path := c.SQLitePath()
		if abs, err := filepath.Abs(path); err == nil {
			path = abs
		}
		return nil, &NoStoreError{Path: path, Configured: o.Config != ""}
	}
	return s, err
}

// settleCluster makes the cluster of the configuration and that of the store the same.
func (o *StoreOptions) settleCluster(ctx context.Context, c *config.Config, s *store.Store) error {
	if c.Store.Postgres != nil {
		if c.Cluster != "" {
			return nil
		}
		var err error
		c.Cluster, err = s.ClusterName(ctx)
		return err
	}
	if o.Cluster == "" {
		return nil
	}
	all, err := s.Facts(ctx)
	if err != nil {
		return err
	}
	f, err := fromStore(all)
	switch {
	case err != nil:
		return err
	case f.Cluster == o.Cluster:
		return nil
	case f.Cluster == "":
		return fmt.Errorf("there is no cluster %q: the store %s has no name of a cluster", o.Cluster, c.SQLitePath())
	}
	return &store.UnknownClusterError{Name: o.Cluster, There: []string{f.Cluster}}
}

func storeOptions(c *config.Config, log zerolog.Logger) store.Options {
	return store.Options{
		Cluster: c.Cluster, Retention: c.Store.Retention.D(), Step: c.Store.Step.D(), Hourly: c.Store.Hourly.D(), DedupeFor: c.Store.DedupeFor.D(),
		MaxBytes: int64(c.Store.MaxBytes), Log: log,
	}
}

// openStore opens the store that the configuration names.
func openStore(ctx context.Context, c *config.Config, o store.Options) (*store.Store, error) {
	p := c.Store.Postgres
	if p == nil {
		return store.OpenSQLite(ctx, c.SQLitePath(), o)
	}
	dsn, err := postgresDSN(p)
	if err != nil {
		return nil, err
	}
	o.Schema = p.Schema
	return store.OpenPostgres(ctx, dsn, o)
}

func postgresDSN(p *config.Postgres) (string, error) {
	if p.DSNFile == "" {
		return p.DSN.Reveal(), nil
	}
	s, err := config.ReadSecret(p.DSNFile)
	if err != nil {
		return "", fmt.Errorf("store.postgres.dsnFile: %w", err)
	}
	return s.Reveal(), nil
}

// storeBytes is the size of the embedded store with its log, nil where the store is none.
func storeBytes(c *config.Config) func() int64 {
	if c.Store.Postgres != nil {
		return nil
	}
	path := c.SQLitePath()
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

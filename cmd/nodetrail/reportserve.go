package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/nodetrail/nodetrail/internal/config"
	"github.com/nodetrail/nodetrail/internal/ops"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/store"
	"github.com/nodetrail/nodetrail/web"
)

// checkServe refuses flags that have no meaning together.
func (f *reportFlags) checkServe(cmd *cobra.Command) error {
	if f.serve == "" {
		if len(f.state) > 0 {
			return errors.New("--state is for the pages of --serve: the report's counts were judged by run's own state")
		}
		return nil
	}
	for _, name := range []string{"output", "fail-on", "window"} {
		if cmd.Flags().Changed(name) {
			return fmt.Errorf("--%s is for a report that is printed, and --serve shows pages, which have windows of their own", name)
		}
	}
	if err := checkAddress(f.serve); err != nil {
		return fmt.Errorf("--serve: %w", err)
	}
	return nil
}

// servePages serves the pages of a store, which is only read, until ctx ends.
func (f *reportFlags) servePages(ctx context.Context, std streams, c *config.Config, s *store.Store) error {
	log := zerolog.New(zerolog.ConsoleWriter{Out: std.err, NoColor: !isTerminal(std.err)}).Level(zerolog.WarnLevel).With().Timestamp().Logger()
	o, err := pagesOver(c, s, log)
	if err != nil {
		return err
	}
	if err := o.Access.Check(f.serve); err != nil {
		return fmt.Errorf("--serve: %w (the configuration's section pages)", err)
	}
	o.NoLive = "no state of the cluster was given: --state names a journal or a snapshot"
	if len(f.state) > 0 {
		if o.Live, err = f.liveState(ctx, std, c, o); err != nil {
			return err
		}
	}
	pages, err := web.New(o)
	if err != nil {
		return err
	}
	server, err := ops.New(ops.Options{Listen: f.serve, TLS: pages.TLS(), Log: log})
	if err != nil {
		return err
	}
	server.Handle("/", pages)
	if _, err := fmt.Fprintf(std.out, "pages at %s\n", pageAddress(server.Addr(), c.Pages.TLS.CertFile != "")); err != nil {
		return errors.Join(err, server.Close())
	}
	go pages.Warm(ctx)
	return server.Serve(ctx)
}

// liveState is the state that was given, and the order of authorizers and the version that run found out.
func (f *reportFlags) liveState(ctx context.Context, std streams, c *config.Config, o web.Options) (web.Live, error) {
	state, err := startLoading(f.state, std.in).wait(ctx)
	if err != nil {
		return nil, err
	}
	was, err := o.Facts(ctx)
	if err != nil {
		return nil, err
	}
	features, err := c.Authorization.Features(was.Authorization.KubernetesVersion)
	if err != nil {
		return nil, err
	}
	mode := func(ctx context.Context) (string, error) {
		facts, err := o.Facts(ctx)
		return facts.Authorization.Mode, err
	}
	return &liveState{state: state, node: nodeauthz.NewAuthorizer(state.Graph, features, c.Skew.D()), mode: mode, whole: true}, nil
}

package app

import (
	"context"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/incidents"
	"github.com/nodetrail/nodetrail/internal/config"
	"github.com/nodetrail/nodetrail/internal/ops"
	"github.com/nodetrail/nodetrail/web"
)

// pagesOver are the pages over a store, as the configuration says who may read them.
func pagesOver(c *config.Config, proofs *prover, log zerolog.Logger) (web.Options, error) {
	s := proofs.store
	access, err := accessOf(c)
	return web.Options{
		Cluster: c.Cluster, Store: s, Step: s.Step(), Hourly: c.Store.Hourly.D(), Log: log,
		Facts: proofs.facts, Prove: proofs.prove,
		Turn: proofs.turns.take,
		Incidents: func(ctx context.Context, from time.Time, which func(*incidents.Incident) bool, most int) ([]incidents.Incident, map[incidents.State]int, error) {
			return proofs.incidents(ctx, c.Cluster, from, which, most)
		},
		Access: access,
	}, err
}

// accessOf is who may read the pages.
func accessOf(c *config.Config) (web.Access, error) {
	p := &c.Pages
	o := web.Access{
		TokenFile: p.BearerTokenFile, CertFile: p.TLS.CertFile, KeyFile: p.TLS.KeyFile, ClientCAFile: p.TLS.ClientCAFile,
		ClientNames: p.TLS.ClientNames, Reload: p.TLS.ReloadEvery.D(),
	}
	if k := &p.Kubernetes; k.Enabled {
		rest, err := cluster.ClientConfig(k.Kubeconfig, k.Context)
		if err != nil {
			return o, fmt.Errorf("pages.kubernetes: %w", err)
		}
		reviewer, err := cluster.NewReviewer(cluster.ReviewOptions{Config: rest, Path: k.Path})
		if err != nil {
			return o, fmt.Errorf("pages.kubernetes: %w", err)
		}
		o.Review = reviewer.Review
	}
	return o, nil
}

// servedPages are the pages of a service. They are opened last, served with the other parts, and closed when those have ended.
type servedPages struct {
	site   *web.Server // nil without pages
	server *ops.Server // nil where they are at the address of operations, or nowhere
	url    string      // what to open in a browser, "" without pages
}

// open adds the pages to the server of operations, or gives them an address of their own.
func (p *servedPages) open(c *config.Config, o web.Options, operations *ops.Server, log zerolog.Logger) error {
	site, err := web.New(o)
	if err != nil {
		return fmt.Errorf("pages: %w", err)
	}
	p.site = site
	if c.Pages.Listen == "" {
		operations.Handle("/", site)
		if p.url = pageAddress(operations.Addr(), false); o.Access.LocalOnly() {
			p.url = LocalAddress(operations.Addr())
		}
		return nil
	}
	if err := o.Access.Check(c.Pages.Listen); err != nil {
		return fmt.Errorf("pages.listen: %w", err)
	}
	p.server, err = ops.New(ops.Options{Listen: c.Pages.Listen, TLS: site.TLS(), Log: log})
	if err != nil {
		return fmt.Errorf("pages: %w", err)
	}
	p.server.Handle("/", site)
	p.url = pageAddress(p.server.Addr(), c.Pages.TLS.CertFile != "")
	return nil
}

// start starts serving them.
func (p *servedPages) start(s *stage) {
	if p.server != nil {
		s.start("serving pages", p.server.Serve)
	}
	if p.site != nil {
		s.start("reading for the pages", func(ctx context.Context) error { p.site.Warm(ctx); <-ctx.Done(); return nil })
	}
}

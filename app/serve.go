package app

import (
	"context"
	"io"

	"github.com/nodetrail/nodetrail/app/judging"
	"github.com/nodetrail/nodetrail/internal/config"
	"github.com/nodetrail/nodetrail/nodeadmission"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/web"
)

// ServeOptions are those of Serve.
type ServeOptions struct {
	StoreOptions
	// Fleet serves a page that lists the clusters of a PostgreSQL database, with the pages of each, in place of those of one; State and NoState do not count.
	Fleet bool
	// Listen is the address of the pages. Who may read them is said in the configuration's section pages; without it, only this machine may.
	Listen string
	// Health is a further address, of /healthz and /readyz alone; empty for none.
	Health string
	// State is the cluster's, which the pages explain requests by: as Input has it. Without any they say NoState in place of explanations.
	State []string
	// EtcdPrefix is as in Input.
	EtcdPrefix string
	Stdin      io.Reader
	NoState    string
	// Log is where warnings go.
	Log LogTo
	// Running is called once when the pages are there, with their address. Its error ends the serving.
	Running func(pages string) error
}

// Serve serves the pages of a store, and the API next to them, until ctx ends. The store is only read, also while Run is running.
//
// Errors are the configuration's, a *NoStoreError or, with Fleet, ErrNoFleet, those of the state and of the address, and those of serving.
func Serve(ctx context.Context, o ServeOptions) error {
	if o.Fleet {
		return serveFleet(ctx, &o)
	}
	c, err := o.load()
	if err != nil {
		return err
	}
	s, err := o.openToRead(ctx, c)
	if err != nil {
		return err
	}
	defer s.Close()
	log := warnings(o.Log)
	w, err := pagesOver(c, newProver(s, func() *config.Config { return c }), log)
	if err != nil {
		return err
	}
	if err := w.Access.Check(o.Listen); err != nil {
		return optionError("Listen", "%w (the configuration's section pages)", err)
	}
	w.NoLive = o.NoState
	if len(o.State) > 0 {
		if w.Live, err = o.live(ctx, c, w); err != nil {
			return err
		}
	}
	pages, err := web.New(w)
	if err != nil {
		return err
	}
	return servePages(ctx, c, pages, &o, log)
}

// live is the state that was given, and the order of authorizers and the version that run found out.
func (o *ServeOptions) live(ctx context.Context, c *config.Config, w web.Options) (web.Live, error) {
	state, err := startLoading(&Input{State: o.State, EtcdPrefix: o.EtcdPrefix, Stdin: o.Stdin}).wait(ctx)
	if err != nil {
		return nil, err
	}
	was, err := w.Facts(ctx)
	if err != nil {
		return nil, err
	}
	features, err := wasFeatures(c, &was.Authorization)
	if err != nil {
		return nil, err
	}
	found, err := pipeline.ParseMode(was.Authorization.Mode)
	if err != nil {
		return nil, err
	}
	judge := judging.New(state, judging.Options{Features: features, Skew: c.Skew.D(), Mode: found})
	node := func(context.Context) (*nodeauthz.Authorizer, *nodeadmission.Admission, error) {
		return judge.Auth, judge.Judge.Admission, nil
	}
	mode := func(ctx context.Context) (string, error) {
		facts, err := w.Facts(ctx)
		return facts.Authorization.Mode, err
	}
	return &liveState{state: state, node: node, mode: mode, whole: true}, nil
}

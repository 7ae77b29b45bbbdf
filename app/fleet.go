package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/incidents"
	"github.com/nodetrail/nodetrail/internal/config"
	"github.com/nodetrail/nodetrail/internal/ops"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/store"
	"github.com/nodetrail/nodetrail/web"
)

// ErrNoFleet is that the store is not one that several clusters share.
var ErrNoFleet = errors.New("several clusters share a PostgreSQL, and the configuration has none (store.postgres)")

// Fleet lists the clusters of a PostgreSQL database that its user may read, with the answers that their own analyzers gave.
//
// Errors are the configuration's, ErrNoFleet, and the database's. What is wrong with one cluster is in its Trouble.
func Fleet(ctx context.Context, o StoreOptions) (*report.Fleet, error) {
	_, all, err := o.openFleet(ctx)
	if err != nil {
		return nil, err
	}
	defer all.Close()
	return listFleet(ctx, all, time.Now())
}

func (o *StoreOptions) openFleet(ctx context.Context) (*config.Config, *store.Clusters, error) {
	c, err := o.load()
	if err != nil {
		return nil, nil, err
	}
	if c.Store.Postgres == nil {
		return nil, nil, ErrNoFleet
	}
	dsn, err := postgresDSN(c.Store.Postgres)
	if err != nil {
		return nil, nil, err
	}
	all, err := store.OpenClusters(ctx, dsn)
	return c, all, err
}

func listFleet(ctx context.Context, all *store.Clusters, now time.Time) (*report.Fleet, error) {
	list, err := all.List(ctx, now)
	if err != nil {
		return nil, err
	}
	out := &report.Fleet{Now: now.UTC(), Clusters: make([]report.FleetCluster, 0, len(list))}
	for i := range list {
		out.Clusters = append(out.Clusters, fleetCluster(&list[i], now))
	}
	return out, nil
}

// clusterSummary is what the analyzers of a cluster store of it in short. Its keys stay as they are.
type clusterSummary struct {
	Ready     storedAnswer `json:"ready"`
	Confined  storedAnswer `json:"confined"`
	Incidents int          `json:"incidents"`
	Nodes     int          `json:"nodes"`
}

type storedAnswer struct {
	Answer   string `json:"answer"`
	Waivers  int    `json:"waivers"`
	Failed   int    `json:"failed"`
	Unproven int    `json:"unproven"`
}

func toStoredAnswer(v *checks.Verdict) storedAnswer {
	return storedAnswer{string(v.Answer), v.Waivers, len(v.Failed), len(v.Unproven)}
}

func (a *storedAnswer) to(q checks.Question, current bool) report.FleetAnswer {
	return report.AnswerIn(q, a.Answer, a.Waivers, a.Failed, a.Unproven, current)
}

// fleetCluster is a cluster as its store has it. A summary that cannot be read is none.
func fleetCluster(c *store.Cluster, now time.Time) report.FleetCluster {
	out := report.FleetCluster{Name: c.Name, Schema: c.Schema}
	if c.Err != nil {
		out.Trouble = c.Err.Error()
	}
	var s clusterSummary
	if len(c.Summary) > 0 && !c.At.IsZero() {
		if err := json.Unmarshal(c.Summary, &s); err != nil {
			s = clusterSummary{}
			out.Trouble = "its summary cannot be read"
		} else {
			out.At = &c.At
		}
	}
	age := now.Sub(c.At)
	out.Current = out.At != nil && age < report.FleetCurrent && age > -report.FleetCurrent
	out.Readiness, out.Confinement = s.Ready.to(checks.Ready, out.Current), s.Confined.to(checks.Confined, out.Current)
	out.Incidents, out.Nodes = max(0, s.Incidents), max(0, s.Nodes)
	if !c.Newest.IsZero() {
		out.Last = &c.Newest
	}
	return out
}

// summaryEvery is how often a summary is stored anew where nothing has changed, as report.FleetCurrent needs it.
const summaryEvery = time.Minute

// summaryWatch stores a summary of the cluster for the list of clusters, where several share a database.
type summaryWatch struct {
	store  *store.Store
	proofs *prover
	checks *checkWatch
	config func() *config.Config
	log    zerolog.Logger

	last clusterSummary
	at   time.Time
}

// run looks until ctx ends. What goes wrong is logged once, and the summary of before gets old.
func (w *summaryWatch) run(ctx context.Context) error {
	failing := false
	for {
		began := time.Now()
		err := w.look(ctx, began)
		if err != nil && !failing && ctx.Err() == nil {
			w.log.Warn().Err(err).Msg("cannot store the summary for the list of clusters")
		}
		failing = err != nil
		const share = 20 // of the time
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(max(proveEvery, min(share*time.Since(began), summaryEvery))):
		}
	}
}

// look stores the summary if it has changed, or is old. It is as old as its checks.
func (w *summaryWatch) look(ctx context.Context, now time.Time) error {
	made := w.checks.metrics()
	if made == nil || !made.Made.After(w.at) {
		return nil
	}
	c := w.config()
	all, err := w.store.Facts(ctx)
	if err != nil {
		return err
	}
	f, err := fromStore(all)
	if err != nil {
		return err
	}
	nodes := len(f.Nodes)
	if nodes == 0 {
		if nodes, err = w.store.NodeCount(ctx); err != nil {
			return err
		}
	}
	open, more, err := w.proofs.incidents(ctx, c.Cluster, time.Time{}, func(in *incidents.Incident) bool { return in.State == incidents.Open }, 0)
	if err != nil {
		return err
	}
	s := clusterSummary{Ready: toStoredAnswer(&made.Ready), Confined: toStoredAnswer(&made.Confined), Nodes: nodes}
	s.Incidents = len(open) + more[incidents.Open]
	if s == w.last && made.Made.Sub(w.at) < summaryEvery {
		return nil
	}
	b, err := json.Marshal(&s)
	if err != nil {
		return fmt.Errorf("writing the summary: %w", err)
	}
	if err := w.store.PutSummary(ctx, b, made.Made); err != nil {
		return err
	}
	w.last, w.at = s, made.Made
	return nil
}

// serveFleet serves a page that lists the clusters, with the pages of each, until ctx ends. The database is only read.
func serveFleet(ctx context.Context, o *ServeOptions) error {
	c, all, err := o.openFleet(ctx)
	if err != nil {
		return err
	}
	defer all.Close()
	if _, err := all.List(ctx, time.Now()); err != nil { // said now, and not to the first reader
		return err
	}
	log := warnings(o.Log)
	access, err := accessOf(c)
	if err != nil {
		return err
	}
	if err := access.Check(o.Listen); err != nil {
		return optionError("Listen", "%w (the configuration's section pages)", err)
	}
	turn := newTurns() // for all clusters
	pages, err := web.NewFleet(web.FleetOptions{
		List: func(ctx context.Context) (*report.Fleet, error) { return listFleet(ctx, all, time.Now()) },
		Open: func(ctx context.Context, schema string) (web.Options, func(), error) {
			return openOne(ctx, c, all, schema, turn, log)
		},
		Access: access, Log: log,
	})
	if err != nil {
		return err
	}
	defer pages.Close()
	return servePages(ctx, c, pages, o, log)
}

// openOne opens one of the clusters for its pages.
func openOne(ctx context.Context, c *config.Config, all *store.Clusters, schema string, turn turns, log zerolog.Logger) (web.Options, func(), error) {
	list, err := all.List(ctx, time.Now())
	if err != nil {
		return web.Options{}, nil, err
	}
	i := slices.IndexFunc(list, func(c store.Cluster) bool { return c.Schema == schema })
	if i < 0 {
		return web.Options{}, nil, fmt.Errorf("there is no cluster in the schema %q", schema)
	}
	// Of a store without a name the configuration says nothing unless it has none either.
	own := ofCluster(c, list[i].Name)
	so := storeOptions(own, zerolog.Nop())
	so.ReadOnly, so.Cluster, so.MaxConns = true, "", fleetConns
	postgres := *own.Store.Postgres
	postgres.Schema = schema
	one := *own
	one.Store.Postgres = &postgres
	s, err := openStore(ctx, &one, so)
	if err != nil {
		return web.Options{}, nil, err
	}
	proofs := newProver(s, func() *config.Config { return &one })
	proofs.turns = turn
	w, err := pagesOver(&one, proofs, log)
	if err != nil {
		return web.Options{}, nil, errors.Join(err, s.Close())
	}
	w.NoLive = "the pages of several clusters have no state of any: `nodetrail report --serve --cluster " + cmp.Or(one.Cluster, "NAME") + " --state` has"
	return w, func() { _ = s.Close() }, nil // it was only read
}

// fleetConns is how many connections the pages of one of several clusters have to the database.
const fleetConns = 2

func warnings(to LogTo) zerolog.Logger {
	return zerolog.New(zerolog.ConsoleWriter{Out: to.W, NoColor: !to.Terminal}).Level(zerolog.WarnLevel).With().Timestamp().Logger()
}

// servePages serves pages until ctx ends.
func servePages(ctx context.Context, c *config.Config, pages *web.Server, o *ServeOptions, log zerolog.Logger) error {
	server, err := ops.New(ops.Options{Listen: o.Listen, Health: o.Health, TLS: pages.TLS(), Log: log})
	if err != nil {
		return err
	}
	server.Handle("/", pages)
	if o.Running != nil {
		if err := o.Running(pageAddress(server.Addr(), c.Pages.TLS.CertFile != "")); err != nil {
			return errors.Join(err, server.Close())
		}
	}
	go pages.Warm(ctx)
	return server.Serve(ctx)
}

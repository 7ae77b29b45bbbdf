package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/explain"
	"github.com/nodetrail/nodetrail/internal/config"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/sinks"
)

// storedFinding explains the latest request of a finding in run's store.
func (x *explaining) storedFinding(ctx context.Context) (*explain.Explanation, error) {
	c := config.Default()
	if x.config != "" {
		var err error
		if c, err = config.Load(x.config, os.LookupEnv); err != nil {
			return nil, err
		}
	}
	if x.data != "" {
		c.Data = x.data
	}
	found, was, err := x.readFinding(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := x.asRun(c, &was); err != nil {
		return nil, err
	}
	if len(x.state) == 0 {
		if x.state = stateOfRun(c); len(x.state) == 0 && len(x.logs) == 0 {
			return nil, errors.New("there is no state to explain it by: run has kept no journal; give --state, or --audit-log with bodies")
		}
	}
	if len(x.logs) > 0 {
		ids := slices.Clone(found.AuditIDs)
		slices.Reverse(ids)
		j, state, err := x.find(ctx, x.logs, ids)
		if err != nil {
			return nil, err
		}
		if j != nil {
			return noted(x.judged(j, state), found), nil
		}
	}
	if found.Verb == "" {
		return nil, fmt.Errorf("the finding %s (%s) is of no single request: nothing can be explained without --audit-log and its events", found.ID, found.Rule)
	}
	ex, err := x.request(ctx, requestOfFinding(found).Attributes(), found.Last)
	if err != nil {
		return nil, err
	}
	switch found.Verb {
	case "list", "watch", "deletecollection":
		ex.Notes = append(ex.Notes, "The store does not keep field selectors: with one, the Node authorizer may have allowed it. --audit-log shows the request as it was.")
	}
	return noted(ex, found), nil
}

// noted adds what finding it is.
func noted(ex *explain.Explanation, f *sinks.Finding) *explain.Explanation {
	when := "once"
	if f.Count > 1 {
		when = fmt.Sprintf("%d times, of which this is the latest, since %s", f.Count, f.First.Format(time.RFC3339))
	}
	ex.Notes = append([]string{report.Visible(fmt.Sprintf("Finding %s, %s (%s): %s; %s.", f.ID, f.Rule, f.Severity, f.Message, when))}, ex.Notes...)
	return ex
}

// requestOfFinding is the request that the requests of a finding have in common.
func requestOfFinding(f *sinks.Finding) *explain.Request {
	r := &explain.Request{Node: f.Node, Verb: f.Verb, APIGroup: f.APIGroup, Resource: f.Resource, Subresource: f.Subresource, Namespace: f.Namespace, Name: f.Name}
	if f.Resource == "" {
		r.Path = f.Name
	}
	return r
}

// readFinding looks for the finding among all that the store has, and for the order of authorizers and the version that run has found out.
func (x *explaining) readFinding(ctx context.Context, c *config.Config) (found *sinks.Finding, was report.Authorization, err error) {
	s, err := openStore(ctx, c, zerolog.Nop(), true)
	if errors.Is(err, fs.ErrNotExist) && c.Store.Postgres == nil {
		return nil, was, noStore(c, x.config)
	}
	if err != nil {
		return nil, was, err
	}
	defer s.Close()
	stored, err := s.Facts(ctx)
	if err != nil {
		return nil, was, err
	}
	facts, err := factsOf(stored)
	if err != nil {
		return nil, was, err
	}
	t, err := s.Tally(ctx, time.Time{}, time.Time{})
	if err != nil {
		return nil, was, err
	}
	for k, g := range t.Groups {
		for _, cluster := range []string{c.Cluster, facts.Cluster} { // the cluster's name is part of the ID
			if f := sinks.FromGroup(cluster, &k, g); f.ID == x.finding {
				return &f, facts.Authorization, nil
			}
		}
	}
	return nil, was, fmt.Errorf("there is no finding %s in the store: IDs are in what sinks send, in alerts and on the pages", report.Visible(x.finding))
}

// asRun takes from run's configuration what no flag says; was is what run has found out.
func (x *explaining) asRun(c *config.Config, was *report.Authorization) error {
	var err error
	if !x.changed("kubernetes-version") && !x.changed("feature-gates") {
		if x.features, err = c.Authorization.Features(was.KubernetesVersion); err != nil {
			return err
		}
	}
	if !x.changed("authorization-mode") {
		if x.mode = c.Authorization.Mode; (x.mode == "" || x.mode == "auto") && len(x.logs) == 0 {
			x.mode = was.Mode
		}
		if x.am, err = pipeline.ParseMode(x.mode); err != nil {
			return fmt.Errorf("authorization.mode: %w", err)
		}
	}
	if !x.changed("skew") {
		x.skew = c.Skew.D()
	}
	return nil
}

// stateOfRun are the files that run has its state from, and the journal that it keeps.
func stateOfRun(c *config.Config) []string {
	out := slices.Clone(c.State.Files)
	journal := dataPath(c, "state")
	if entries, err := os.ReadDir(journal); err == nil && slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return strings.Contains(e.Name(), ".jsonl") }) {
		out = append(out, journal)
	}
	return out
}

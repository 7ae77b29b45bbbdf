package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/explain"
	"github.com/nodetrail/nodetrail/internal/config"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/sinks"
	"github.com/nodetrail/nodetrail/wording"
)

// ErrNoState is that there is nothing to explain a finding by.
var ErrNoState = errors.New("there is no state to explain it by: run has kept no journal")

// explainFinding explains the latest request of a finding in run's store.
func explainFinding(ctx context.Context, o *ExplainOptions) (*explain.Explanation, error) {
	c, err := o.Store.load()
	if err != nil {
		return nil, err
	}
	found, was, err := readFinding(ctx, o, c)
	if err != nil {
		return nil, err
	}
	x, err := newExplaining(o)
	if err != nil {
		return nil, err
	}
	if err := x.asRun(c, &was); err != nil {
		return nil, err
	}
	if !x.hasState() {
		if x.State = stateOfRun(c); len(x.State) == 0 && len(x.Logs) == 0 {
			return nil, ErrNoState
		}
	}
	if len(x.Logs) > 0 {
		ids := slices.Clone(found.AuditIDs)
		slices.Reverse(ids)
		j, err := x.find(ctx, ids)
		if err != nil {
			return nil, err
		}
		if j != nil {
			return noted(x.judged(j), found), nil
		}
	}
	if found.Verb == "" {
		return nil, fmt.Errorf("the finding %s (%s) is of no single request: nothing can be explained without --audit-log and its events", found.ID, found.Rule)
	}
	ex, err := x.request(ctx, requestOf(found).Attributes(), found.Last)
	if err != nil {
		return nil, err
	}
	switch found.Verb {
	case "list", "watch", "deletecollection":
		ex.Notes = append(ex.Notes, "The store does not keep field selectors: with one, the Node authorizer may have allowed it. --audit-log shows the request as it was.")
	}
	return noted(ex, found), nil
}

// noted adds what finding it is, and what became of its requests.
func noted(ex *explain.Explanation, f *sinks.Finding) *explain.Explanation {
	when := "once"
	if f.Count > 1 {
		when = fmt.Sprintf("%d times, of which this is the latest, since %s", f.Count, f.First.Format(time.RFC3339))
	}
	ex.Outcome = explain.OutcomeOf(f.Count, f.Allowed, f.Authorized, f.Answers, explain.Binding(f.Binding))
	ex.Notes = append([]string{wording.Visible(fmt.Sprintf("Finding %s, %s (%s): %s; %s.", f.ID, f.Rule, f.Severity, f.Message, when))}, ex.Notes...)
	return ex
}

// requestOf is the request that the requests of a finding have in common.
func requestOf(f *sinks.Finding) *explain.Request {
	r := &explain.Request{Node: f.Node, Verb: f.Verb, APIGroup: f.APIGroup, Resource: f.Resource, Subresource: f.Subresource, Namespace: f.Namespace, Name: f.Name}
	if f.Resource == "" {
		r.Path = f.Name
	}
	return r
}

// readFinding looks for the finding among all that the store has, and for the order of authorizers and the version that run has found out.
func readFinding(ctx context.Context, o *ExplainOptions, c *config.Config) (found *sinks.Finding, was report.Authorization, err error) {
	s, err := o.Store.openToRead(ctx, c)
	if err != nil {
		return nil, was, err
	}
	defer s.Close()
	stored, err := s.Facts(ctx)
	if err != nil {
		return nil, was, err
	}
	facts, err := fromStore(stored)
	if err != nil {
		return nil, was, err
	}
	t, err := s.Tally(ctx, time.Time{}, time.Time{})
	if err != nil {
		return nil, was, err
	}
	for k, g := range t.Groups {
		for _, cluster := range []string{c.Cluster, facts.Cluster} { // the cluster's name is part of the ID
			if f := sinks.FromGroup(cluster, &k, g, nil); f.ID == o.Finding {
				return &f, facts.Authorization, nil
			}
		}
	}
	return nil, was, fmt.Errorf("there is no finding %s in the store: IDs are in what sinks send, in alerts and on the pages", wording.Visible(o.Finding))
}

// asRun takes from run's configuration what no option says; was is what run has found out.
func (x *explaining) asRun(c *config.Config, was *report.Authorization) error {
	var err error
	if x.KubernetesVersion == "" && x.FeatureGates == nil {
		if x.judging.Features, err = wasFeatures(c, was); err != nil {
			return err
		}
	}
	if x.AuthorizationMode == "" {
		mode := c.Authorization.Mode
		if (mode == "" || mode == "auto") && len(x.Logs) == 0 {
			mode = was.Mode
		}
		if x.judging.Mode, err = pipeline.ParseMode(mode); err != nil {
			return fmt.Errorf("authorization.mode: %w", err)
		}
	}
	if x.Skew < 0 {
		x.judging.Skew = c.Skew.D()
	}
	if x.KubeletUserAgents == nil {
		x.judging.Kubelets = c.Rules.KubeletUserAgents
	}
	return nil
}

// stateOfRun are the files that run has its state from, and the journal that it keeps.
func stateOfRun(c *config.Config) []string {
	out := slices.Clone(c.State.Files)
	journal := c.DataPath(config.StateFolder)
	if entries, err := os.ReadDir(journal); err == nil && slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return strings.Contains(e.Name(), ".jsonl") }) {
		out = append(out, journal)
	}
	return out
}

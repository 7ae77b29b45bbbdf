package app

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/nodetrail/nodetrail/app/judging"
	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/pipeline/file"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/report"
)

// knowledge is what facts are made of: everything that is known in addition to the counts, at a moment.
type knowledge struct {
	cluster  string
	setup    *judging.Setup
	disabled []string
	// from and to bound the requests. What is doubtful about the state at other times is no matter of the report.
	from, to time.Time
	// heard is whether there are any, where that is not a matter of course.
	heard bool
	// hasState is whether complete state was given; doubts are what whoever watches it has to say.
	hasState bool
	doubts   []codes.Gap
}

// facts are those of the state and of authorization. Nothing else makes any.
func (k *knowledge) facts() report.Facts {
	state, mode, features := k.setup.State, k.setup.Judge.Mode, k.setup.Features(k.to)
	sum := state.Summary()
	f := report.Facts{
		Cluster: k.cluster, HasState: k.hasState, Disabled: k.disabled,
		State: report.State{Objects: sum.Objects}, Gaps: slices.Concat(state.Gaps(k.from, k.to), k.doubts),
		Authorization: report.Authorization{
			Mode: mode.String(), Inferred: mode.Inferred(), Overruled: mode.Overruled(), KubernetesVersion: features.Version(), FeatureGates: features.NonDefault(),
			Versions: foundVersions(k.setup),
		},
	}
	if !sum.From.IsZero() {
		f.State.From, f.State.To = &sum.From, &sum.To
	}
	if f.HasState && !k.to.IsZero() {
		f.Nodes, f.Bindings, f.Audiences = state.Nodes.Names(k.to), forNodes(state.RBAC, k.setup.Judge.Kept, k.to), audiencesOf(state, k.to)
	}
	return f
}

// forNodes are the bindings that give nodes something at t, and those that the migration deletes; nil where the state holds no bindings at all.
func forNodes(s *rbac.Store, kept []rbac.BindingRef, t time.Time) []report.NodeBinding {
	systemNode, _ := s.ClusterRoleRules(nodeRole, t)
	fate := checks.Fates(systemNode, kept)
	var out []report.NodeBinding
	for b := range s.Bindings(t) {
		if out == nil {
			out = []report.NodeBinding{}
		}
		is := fate(&b)
		if (is == checks.Goes || b.ForNodes()) && b.RoleExists {
			out = append(out, report.NodeBinding{
				Binding: report.Binding{Kind: b.Binding.Kind, Namespace: b.Binding.Namespace, Name: b.Binding.Name}, Role: b.Role.Name, Fate: is.String(),
				UID: b.UID, ResourceVersion: b.ResourceVersion, NodeSubjects: removable(&b, systemNode, kept),
			})
		}
	}
	return out
}

// removable are the subjects of a binding that are nodes, if it has others, too, and goes only for the nodes: one of system:node, or of a copy, goes for all.
func removable(b *rbac.BindingInfo, systemNode []rbacv1.PolicyRule, kept []rbac.BindingRef) (out []report.NodeSubject) {
	for i, s := range b.Subjects {
		if checks.OfNodes(s) {
			out = append(out, report.NodeSubject{Place: i, Kind: s.Kind, Name: s.Name})
		}
	}
	if len(out) == 0 || len(out) == len(b.Subjects) {
		return nil
	}
	for _, x := range checks.Inventory([]rbac.BindingInfo{*b}, systemNode, kept) {
		if x.Fate == checks.Goes && x.Why != checks.WhyRole && x.Why != checks.WhyCopy {
			return out
		}
	}
	return nil
}

// end is when the log that is judged ends.
func (p *passage) end(res *file.Result) time.Time {
	if until := p.logs.Window.Until; !until.IsZero() && until.Before(res.Last) {
		return until
	}
	return res.Last
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// facts are what is known of logs that were read to their end, or as far as they could be.
func (p *passage) facts(s *judging.Setup, res *file.Result, counts pipeline.Counts, cluster string, disabled []string) report.Facts {
	from, to := later(res.First, p.logs.Window.Since), p.end(res)
	k := knowledge{cluster: cluster, setup: s, disabled: disabled, from: from, to: to, hasState: p.in.hasState()}
	f := k.facts()
	f.Authorization.Skew = p.measured
	f.Events = report.Events{
		Read: res.Counts.Read, Node: counts.Node, Judged: counts.Judged, Duplicates: counts.Duplicates,
		Malformed: res.Counts.Malformed, Skipped: res.Counts.Skipped + counts.OutOfWindow,
	}
	for _, p := range res.Malformed {
		f.Events.MalformedAt = append(f.Events.MalformedAt, report.Place{File: p.Path, Line: p.Line, Cause: p.Cause, OfNoNode: p.OfNoNode})
	}
	if emptyWindow(counts) {
		f.Gaps = append(f.Gaps, codes.Gap{Kind: codes.Log, Code: codes.WindowEmpty, Params: codes.Params{codes.Time(codes.ParamFirst, res.First), codes.Time(codes.ParamLast, res.Last)}})
	}
	for _, err := range res.Errors { // what was not read may hold a blocker
		g := codes.Gap{Kind: codes.Log, Code: codes.LogUnread, Params: codes.Params{codes.Text(codes.ParamTrouble, err.Error())}}
		f.Gaps, f.Lacks = append(f.Gaps, g), append(f.Lacks, g)
	}
	return f
}

// emptyWindow reports whether all requests of nodes are outside of the window.
func emptyWindow(counts pipeline.Counts) bool { return counts.Judged == 0 && counts.OutOfWindow > 0 }

// storedFacts are facts as run stores them for report, one row for each instance. They are JSON whose keys stay as they are: a store outlives
// the program that wrote it, and report may be of another version than run.
type storedFacts struct {
	At            time.Time            `json:"at"`
	Cluster       string               `json:"cluster"`
	Version       string               `json:"version"`
	State         report.State         `json:"state"`
	Authorization report.Authorization `json:"authorization"`
	Overruled     bool                 `json:"overruled,omitempty"`
	HasState      bool                 `json:"hasState"`
	Gaps          []codes.Gap          `json:"gaps"`
	Disabled      []string             `json:"disabled"`
	Nodes         []string             `json:"nodes"`
	Bindings      []report.NodeBinding `json:"bindings"`
	Audiences     *report.Audiences    `json:"tokenAudiences,omitempty"`
	Book          *versionFacts        `json:"versionBook,omitempty"`
	Held          *heldGaps            `json:"held,omitempty"`
}

// toStore are facts as they are stored, with what the book of versions has that is not in its hours, and the gaps by which requests were judged.
func toStore(f *report.Facts, at time.Time, version string, book *versionFacts, held *heldGaps) ([]byte, error) {
	return json.Marshal(&storedFacts{
		At: at.UTC(), Cluster: f.Cluster, Version: version, State: f.State, Authorization: f.Authorization, Overruled: f.Authorization.Overruled, HasState: f.HasState,
		Gaps: f.Gaps, Disabled: f.Disabled, Nodes: f.Nodes, Bindings: f.Bindings, Audiences: f.Audiences,
		Book: book, Held: held,
	})
}

// fromStore puts together what the instances that share a store know: of what all should know alike the latest, every warning, and what each of them found of
// versions and of the order of authorizers in its part of the log.
func fromStore(all map[string]json.RawMessage) (report.Facts, error) {
	out, _, err := readFacts(all)
	return out, err
}

// readFacts is fromStore, with what was stored last.
func readFacts(all map[string]json.RawMessage) (out report.Facts, latest storedFacts, err error) {
	var stored []storedFacts
	for _, instance := range slices.Sorted(maps.Keys(all)) {
		raw := all[instance]
		var f storedFacts
		if err := json.Unmarshal(raw, &f); err != nil {
			return out, latest, fmt.Errorf("reading what %s stored for the report: %w", instance, err)
		}
		out.Gaps = append(out.Gaps, f.Gaps...)
		if f.Held != nil {
			out.Past = append(out.Past, f.Held.Gaps...)
		}
		if f.At.After(latest.At) {
			latest = f
		}
		stored = append(stored, f)
	}
	out.Gaps, out.Past = gapsSince(&report.Facts{Gaps: out.Gaps}, time.Time{}), mergedGaps(out.Past)
	out.Cluster, out.State, out.Authorization, out.HasState = latest.Cluster, latest.State, latest.Authorization, latest.HasState
	out.Nodes, out.Bindings, out.Audiences, out.Disabled = latest.Nodes, latest.Bindings, latest.Audiences, latest.Disabled
	if slices.ContainsFunc(latest.Bindings, func(b report.NodeBinding) bool { return b.Fate == "" }) { // stored before 2026-11-30
		out.Bindings = nil
	}
	out.State.Warnings = nil
	if latest.Book != nil && latest.Book.Alone { // it has what those before it found
		stored = []storedFacts{latest}
	}
	slices.SortStableFunc(stored, func(a, b storedFacts) int { return a.At.Compare(b.At) })
	var versions []codes.Version
	for i := range stored {
		versions = append(versions, stored[i].Authorization.Versions...)
		if a := &stored[i].Authorization; stored[i].Overruled { // the mode that another one found may be another
			out.Authorization.Overruled, out.Authorization.Mode, out.Authorization.Inferred = true, a.Mode, a.Inferred
		}
	}
	var oldest time.Time
	if latest.Book != nil {
		oldest = latest.Book.Oldest
	}
	out.Authorization.Versions = since(versions, nil, oldest)
	return out, latest, nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/explain"
	"github.com/nodetrail/nodetrail/internal/config"
	"github.com/nodetrail/nodetrail/internal/loopback"
	"github.com/nodetrail/nodetrail/internal/ops"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/store"
	"github.com/nodetrail/nodetrail/tally"
	"github.com/nodetrail/nodetrail/web"
)

// pagesOver are the pages over a store, as the configuration says who may read them.
func pagesOver(c *config.Config, s *store.Store, log zerolog.Logger) (web.Options, error) {
	p := &c.Pages
	o := web.Options{
		Cluster: c.Cluster, Store: s, Step: s.Step(), Hourly: c.Store.Hourly.D(), Log: log,
		Facts: func(ctx context.Context) (report.Facts, error) {
			all, err := s.Facts(ctx)
			if err != nil {
				return report.Facts{}, err
			}
			f, err := factsOf(all)
			f.MinWindow = c.Readiness.MinWindow.D()
			return f, err
		},
		Access: web.Access{
			TokenFile: p.BearerTokenFile, CertFile: p.TLS.CertFile, KeyFile: p.TLS.KeyFile, ClientCAFile: p.TLS.ClientCAFile,
			ClientNames: p.TLS.ClientNames, Reload: p.TLS.ReloadEvery.D(),
		},
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
		o.Access.Review = reviewer.Review
	}
	return o, nil
}

// openPages adds the pages to the server of operations, or gives them an address of their own.
func (r *runner) openPages(c *config.Config) error {
	if !c.Pages.Enabled {
		return nil
	}
	o, err := pagesOver(c, r.store, r.log)
	if err != nil {
		return err
	}
	stored := o.Facts
	o.Facts = func(ctx context.Context) (report.Facts, error) {
		f, err := stored(ctx)
		f.MinWindow = r.reloader.Current().Readiness.MinWindow.D()
		return f, err
	}
	o.Sources = r.pageSources
	o.Disabled = func() []string { return r.reloader.Current().Rules.Disable }
	o.Live = &liveState{state: r.state, node: nodeauthz.NewAuthorizer(r.state.Graph, r.features, c.Skew.D()), mode: r.mode, whole: r.live != nil || len(c.State.Files) > 0, now: r.live != nil}
	pages, err := web.New(o)
	if err != nil {
		return fmt.Errorf("pages: %w", err)
	}
	r.site = pages
	if c.Pages.Listen == "" {
		r.ops.Handle("/", pages)
		if r.pagesAt = pageAddress(r.ops.Addr(), false); o.Access.LocalOnly() {
			r.pagesAt = localAddress(r.ops.Addr())
		}
		return nil
	}
	if err := o.Access.Check(c.Pages.Listen); err != nil {
		return fmt.Errorf("pages.listen: %w", err)
	}
	r.pages, err = ops.New(ops.Options{Listen: c.Pages.Listen, TLS: pages.TLS(), Log: r.log})
	if err != nil {
		return fmt.Errorf("pages: %w", err)
	}
	r.pages.Handle("/", pages)
	r.pagesAt = pageAddress(r.pages.Addr(), c.Pages.TLS.CertFile != "")
	return nil
}

// localAddress is what to open in a browser of this machine, "" for an address of which this machine is not known to be the one that asks.
func localAddress(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if ip, bad := netip.ParseAddr(host); err == nil && (host == "" || bad == nil && ip.IsUnspecified()) {
		return "http://" + net.JoinHostPort("localhost", port) + "/"
	}
	if !loopback.Address(listen) {
		return ""
	}
	return pageAddress(listen, false)
}

// pageAddress is what to open in a browser.
func pageAddress(listen string, secure bool) string {
	s := externalURL(listen) + "/"
	if secure {
		return "https" + strings.TrimPrefix(s, "http")
	}
	return s
}

// mode is the order of the apiserver's authorizers, as far as it is known.
func (r *runner) mode(ctx context.Context) (string, error) {
	mode := ""
	err := r.engine.Do(ctx, func() { mode = r.judge.Mode.String() })
	return mode, err
}

// pageSources are the sources as the overview shows them.
func (r *runner) pageSources() []web.Source {
	kinds := map[string]string{"file": "file", "webhook": "webhook", "kafka": "kafka"}
	events := map[string]pageLane{}
	r.mu.Lock()
	for lane, l := range r.lanes {
		events[lane] = l
	}
	r.mu.Unlock()
	var out []web.Source
	for _, s := range r.sources {
		for _, src := range s.sources() {
			kind, _, _ := strings.Cut(src.Name, ":")
			if kind = kinds[kind]; kind == "" {
				kind = "webhook"
			}
			one := web.Source{Name: src.Name, Kind: kind, Healthy: src.Up}
			lag, worst := time.Duration(0), ""
			for _, l := range src.Lanes {
				if l.Lag > lag {
					lag, worst = l.Lag, l.Lane
				}
				e := events[l.Lane]
				one.Events += e.events
				if !e.latest.IsZero() && (one.Last == nil || e.latest.After(*one.Last)) {
					one.Last = &e.latest
				}
			}
			switch {
			case src.Why != "":
				one.Message = src.Why
			case !src.Up:
				one.Message = "it cannot be read"
			case lag > lateAfter:
				one.Healthy, one.Message = false, fmt.Sprintf("%s is %s behind", worst, lag.Round(time.Second))
			case lag >= time.Second:
				one.Message = fmt.Sprintf("%s behind", lag.Round(time.Second))
			default:
				one.Message = "up to date"
			}
			out = append(out, one)
		}
	}
	return append(out, r.stateSource())
}

// stateSource is where the state comes from.
func (r *runner) stateSource() web.Source {
	out := web.Source{Name: "state of the cluster", Kind: "state", Healthy: true}
	sum := r.state.Summary()
	n := 0
	for _, of := range sum.Objects {
		n += of
	}
	if !sum.To.IsZero() {
		out.Last = &sum.To
	}
	if r.live == nil {
		out.Message = fmt.Sprintf("%d objects, from files and audit bodies", n)
		return out
	}
	var late []string
	for _, k := range r.live.Status() {
		if k.Judged && !k.Synced && !k.Refused && !k.Absent {
			late = append(late, k.Kind)
		}
	}
	if out.Message = fmt.Sprintf("%d objects, watched", n); len(late) > 0 {
		out.Healthy, out.Message = false, "not synced: "+strings.Join(late, ", ")
	}
	return out
}

// liveState explains by the state of the cluster.
type liveState struct {
	state *cluster.State
	node  *nodeauthz.Authorizer
	mode  func(context.Context) (string, error)
	// whole is false where only audit bodies tell of the state; now says that it goes on.
	whole, now bool
}

func (l *liveState) explainer(ctx context.Context) (*explain.Explainer, error) {
	if !l.whole {
		return nil, errors.New("no state of the cluster was given, and bodies in the audit log tell too little of it")
	}
	mode, err := l.mode(ctx)
	if err != nil {
		return nil, errors.New("the analyzer is stopping")
	}
	o := explain.Options{Node: l.node, Graph: l.state.Graph, RBAC: l.state.RBAC}
	if mode != "" {
		o.Authorizers = strings.Split(mode, ",")
	}
	return explain.New(o), nil
}

// Explain implements web.Live.
func (l *liveState) Explain(ctx context.Context, k *tally.Key, at time.Time) (*explain.Explanation, error) {
	if k.Rule == "node-identity" {
		return nil, errors.New("this finding is about an identity that is no node's: the Node authorizer has no opinion on it")
	}
	x, err := l.explainer(ctx)
	if err != nil {
		return nil, err
	}
	if from := l.state.Summary().From; !from.IsZero() && at.Before(from) {
		return nil, fmt.Errorf("the state that is known begins at %s, after the request", from.UTC().Format(time.RFC3339))
	}
	r := explain.Request{Node: k.Node, Verb: k.Verb, APIGroup: k.APIGroup, Resource: k.Resource, Subresource: k.Subresource, Namespace: k.Namespace, Name: k.Name}
	if k.Resource == "" {
		r.Path = k.Name
	}
	out := x.Request(r.Attributes(), at)
	if slices.Contains([]string{"list", "watch", "deletecollection"}, k.Verb) {
		out.Notes = append(out.Notes, "The store does not keep field selectors: with one, the Node authorizer may have allowed it.")
	}
	return out, nil
}

// Reach implements web.Live.
func (l *liveState) Reach(ctx context.Context, o web.Object, from, to time.Time) (*explain.Reach, error) {
	x, err := l.explainer(ctx)
	if err != nil {
		return nil, err
	}
	if known := l.state.Summary(); from.Before(known.From) {
		from = known.From
	}
	if l.now {
		to = time.Now()
	}
	return x.Object(explain.ObjectRef(o), from.UTC(), to.UTC()), nil
}

// Binding implements web.Live.
func (l *liveState) Binding(_ context.Context, b report.Binding) (*web.BindingState, error) {
	at := l.state.Summary().To
	if l.now {
		at = time.Now()
	}
	out := &web.BindingState{Exists: "unknown"}
	ref := rbac.BindingRef{Kind: b.Kind, Namespace: b.Namespace, Name: b.Name}
	for info := range l.state.RBAC.Bindings(at) {
		if l.whole {
			out.Exists = "no"
		}
		if info.Binding == ref {
			out.Exists = "yes"
			break
		}
	}
	// Of one that is gone, what it was last.
	for info := range l.state.RBAC.BindingsDuring(time.Unix(0, 0), at) {
		if info.Binding != ref {
			continue
		}
		out.Role, out.Subjects = info.Role.Kind+" "+info.Role.Name, nil
		for _, s := range info.Subjects {
			if len(out.Subjects) >= maxSubjects {
				break
			}
			name := s.Name
			if s.Namespace != "" {
				name = s.Namespace + "/" + name
			}
			out.Subjects = append(out.Subjects, s.Kind+" "+name)
		}
	}
	return out, nil
}

// maxSubjects bounds what is listed of a binding.
const maxSubjects = 1000

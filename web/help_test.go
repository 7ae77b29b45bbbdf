package web

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/explain"
	"github.com/nodetrail/nodetrail/incidents"
	"github.com/nodetrail/nodetrail/internal/test/captured"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/store"
	"github.com/nodetrail/nodetrail/tally"
)

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// site is a real store with the pages over it.
type site struct {
	store *store.Store
	facts report.Facts
	o     Options
	t     testing.TB
	n     int
}

// newSite has an empty store, which counts by the step.
func newSite(t testing.TB, step time.Duration) *site {
	t.Helper()
	st, err := store.OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "nodetrail.db"), store.Options{Step: step})
	ok(t, err)
	t.Cleanup(func() { _ = st.Close() })
	_, err = st.Acquire(t.Context(), "lane", 0, 0)
	ok(t, err)
	s := &site{store: st, t: t}
	s.o = Options{
		Store: st, Facts: func(context.Context) (report.Facts, error) { return s.facts, nil }, Step: step, Log: zerolog.New(zerolog.NewTestWriter(t)),
		Now: func() time.Time { return time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC) },
		Incidents: func(ctx context.Context, from time.Time, which func(*incidents.Incident) bool, most int) ([]incidents.Incident, map[incidents.State]int, error) {
			b := incidents.NewBook("")
			err := st.Acts(ctx, func(k *tally.Key, g *tally.Group) { b.Add(k, g, false) })
			all, more := b.First(s.o.Now(), func(in *incidents.Incident) bool { return !in.Last.Before(from) && (which == nil || which(in)) }, most, nil)
			return all, more, err
		},
	}
	return s
}

// commit stores entries.
func (s *site) commit(entries ...tally.Entry) {
	s.t.Helper()
	s.n++
	for i := range entries {
		if entries[i].ID == (tally.ID{}) {
			entries[i].ID = tally.IDOf(fmt.Sprint(s.n, " ", i))
		}
	}
	at := time.Date(2026, 11, 21, 6, 0, s.n, 0, time.UTC)
	ok(s.t, s.store.Commit(context.Background(), &tally.Commit{At: at, Lanes: []tally.LaneCommit{{
		Lane: "lane", Position: fmt.Sprint(s.n), Entries: entries, Events: tally.Events{Read: int64(len(entries))},
	}}}))
}

// server are the pages; nothing that was read is shown again when the store has changed.
func (s *site) server() *Server {
	s.t.Helper()
	h, err := New(s.o)
	ok(s.t, err)
	h.data.cache.fresh, h.data.cache.times, h.data.cache.slow = 0, 0, time.Hour
	return h
}

// live is the state of a capture.
type live struct {
	x     *explain.Explainer
	state *cluster.State
}

func (l *live) Explain(_ context.Context, k *tally.Key, at time.Time) (*explain.Explanation, error) {
	r := explain.Request{Node: k.Node, Verb: k.Verb, APIGroup: k.APIGroup, Resource: k.Resource, Subresource: k.Subresource, Namespace: k.Namespace, Name: k.Name}
	return l.x.Request(r.Attributes(), at), nil
}

func (l *live) Reach(_ context.Context, o Object, from, to time.Time) (*explain.Reach, error) {
	return l.x.Object(explain.ObjectRef(o), from, to), nil
}

func (l *live) NodeReach(_ context.Context, node string, read []explain.Use, from, to time.Time) (*explain.NodeReach, error) {
	return l.x.Node(node, from, to, explain.BeyondOf(node, read)), nil
}

func (l *live) Binding(_ context.Context, b report.Binding) (*BindingState, error) {
	out := &BindingState{Exists: "no"}
	for info := range l.state.RBAC.BindingsDuring(time.Unix(0, 0), l.state.Summary().To) {
		if info.Binding == (rbac.BindingRef{Kind: b.Kind, Namespace: b.Namespace, Name: b.Name}) {
			out.Role, out.Subjects = info.Role.Kind+" "+info.Role.Name, []string{"Group system:nodes"}
		}
	}
	return out, nil
}

// captureSite has judged a real capture, by the second.
func captureSite(t testing.TB, name string) *site {
	t.Helper()
	s := newSite(t, time.Second)
	c := captured.Open(t, name, "auto")
	c.Judge.Rules = rules.All()
	var entries []tally.Entry
	var of pipeline.Entries
	c.Replay(func(j *pipeline.Judgement) { entries = append(entries, of.Of(j).Own()) })
	s.commit(entries...)
	state := c.State
	sum := state.Summary()
	s.facts = report.Facts{
		HasState: true, Authorization: report.Authorization{Mode: c.Judge.Mode.String(), Inferred: true}, Nodes: state.Nodes.Names(sum.To),
		State: report.State{Objects: sum.Objects, From: &sum.From, To: &sum.To}, Bindings: []report.NodeBinding{},
	}
	s.o.Live = &live{explain.New(explain.Options{Node: c.Auth, Graph: state.Graph, RBAC: state.RBAC}), state}
	s.o.Sources = func() []Source {
		return []Source{{Name: "file:audit.log", Kind: "file", Healthy: true, Message: "up to date", Events: 1, Last: &sum.To}}
	}
	return s
}

// request is a GET of this machine.
func request(path string, header ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.RemoteAddr, r.Host = "127.0.0.1:5000", "localhost:9876"
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

func do(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// excess is a request that needs RBAC.
func excess(at time.Time, node, name, product, binding string) tally.Entry {
	return tally.Entry{
		Time: at, IsNode: true, Node: node, Verdict: nodeauthz.Deny, Observed: nodeauthz.Deny,
		Findings: []tally.Finding{{
			Key: tally.Key{
				Rule: rules.ExcessAccess, Node: node, Verb: "get", Resource: "secrets", Namespace: "shop", Name: name, Product: product,
				Binding: rbac.BindingRef{Kind: "ClusterRoleBinding", Name: binding},
			},
			Severity: rules.Critical, Allowed: true, Params: codes.Params{codes.Text(codes.ParamMessage, "get secrets shop/"+name+" by "+binding)}, AuditID: "a-" + strings.ToValidUTF8(name, ""),
		}},
	}
}

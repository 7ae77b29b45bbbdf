package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/tally"
)

func at0(d time.Duration) time.Time { return time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC).Add(d) }

// many are findings of many names.
func many(n int) []tally.Entry {
	out := make([]tally.Entry, n)
	for i := range out {
		out[i] = excess(at0(time.Duration(i)*time.Second), fmt.Sprintf("node-%d", i%7), fmt.Sprintf("s-%d", i), []string{"kubelet", "calico-node"}[i%2], "b")
		if i%3 == 0 {
			out[i].Findings[0].Severity = 1
		}
	}
	return out
}

func (s *site) page(t testing.TB, h *Server, query string) FindingsPage {
	t.Helper()
	w := do(h, request("/api/v1/findings?"+query))
	var p FindingsPage
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != 200 {
		t.Fatalf("%s: %d %v %.200s", query, w.Code, err, w.Body)
	}
	return p
}

// Pages hold each finding once, forwards and backwards, in every order.
func TestPagesHoldEverything(t *testing.T) {
	s := newSite(t, time.Hour)
	s.commit(many(103)...)
	h := s.server()
	for _, name := range sortNames() {
		for _, sort := range []string{name, "-" + name} {
			whole := s.page(t, h, "limit=1000&sort="+sort)
			var ids, back []string
			at, pages := "", 0
			for {
				p := s.page(t, h, "limit=10&sort="+sort+"&cursor="+at)
				for _, f := range p.Findings {
					ids = append(ids, f.ID)
				}
				pages++
				if p.Next == "" {
					for ; ; p = s.page(t, h, "limit=10&sort="+sort+"&cursor="+p.Previous) {
						for i := len(p.Findings) - 1; i >= 0; i-- {
							back = append(back, p.Findings[i].ID)
						}
						if p.Previous == "" {
							break
						}
					}
					break
				}
				at = p.Next
			}
			slices.Reverse(back)
			var want []string
			for _, f := range whole.Findings {
				want = append(want, f.ID)
			}
			if len(want) != 103 || whole.Total != 103 || pages != 11 {
				t.Fatalf("%s: %d findings, %d in all, %d pages", sort, len(want), whole.Total, pages)
			}
			if d := cmp.Diff(want, ids); d != "" {
				t.Errorf("%s, forwards (-want +got):\n%s", sort, d)
			}
			if d := cmp.Diff(want, back); d != "" {
				t.Errorf("%s, backwards (-want +got):\n%s", sort, d)
			}
		}
	}
}

// While new findings come and old ones continue, who pages through misses none of those that were there, in the orders of which that is said.
func TestPagesAreStable(t *testing.T) {
	for _, sort := range []string{"severity", "-severity", "first", "-first", "rule", "-rule", "node", "-node"} {
		s := newSite(t, time.Hour)
		first := many(60)
		s.commit(first...)
		h := s.server()
		want := map[string]bool{}
		for _, f := range s.page(t, h, "limit=1000").Findings {
			want[f.ID] = true
		}
		next := ""
		for n := 0; ; n++ {
			p := s.page(t, h, "limit=7&sort="+sort+"&cursor="+next)
			for _, f := range p.Findings {
				delete(want, f.ID)
			}
			if next = p.Next; next == "" {
				break
			}
			var more []tally.Entry
			for i := range 5 {
				again := excess(at0(2*time.Hour), fmt.Sprintf("node-%d", i), fmt.Sprintf("s-%d", i), []string{"kubelet", "calico-node"}[i%2], "b")
				again.Findings[0].Severity = first[i].Findings[0].Severity
				more = append(more, again, excess(at0(-time.Hour+time.Duration(n)*time.Minute), fmt.Sprintf("new-%d-%d", n, i), "x", "curl", "b"))
			}
			s.commit(more...)
		}
		if len(want) > 0 {
			t.Errorf("%s: %d of 60 findings were missed", sort, len(want))
		}
	}
}

// A query chooses what it says, and groups, facets and totals agree with the list.
func TestQueries(t *testing.T) {
	s := captureSite(t, "capture")
	h := s.server()
	all := s.page(t, h, "limit=1000")
	if all.Total != len(all.Findings) || all.Total < 500 {
		t.Fatalf("%d findings of %d", len(all.Findings), all.Total)
	}
	for query, holds := range map[string]func(*Finding) bool{
		"rule=out-of-scope-secret-read": func(f *Finding) bool { return f.Rule == "out-of-scope-secret-read" },
		"severity=high":                 func(f *Finding) bool { return f.Severity == "high" || f.Severity == "critical" },
		"node=worker-3":                 func(f *Finding) bool { return f.Node == "worker-3" },
		"namespace=shop":                func(f *Finding) bool { return f.Namespace == "shop" },
		"userAgent=curl":                func(f *Finding) bool { return f.UserAgent == "curl" },
		"allowed=true":                  func(f *Finding) bool { return f.Allowed },
		"allowed=false":                 func(f *Finding) bool { return !f.Allowed },
		"binding=" + url.QueryEscape("legacy:system:node"): func(f *Finding) bool { return f.Binding != nil && f.Binding.Name == "legacy:system:node" },
		"object=shop/secret-0":                             func(f *Finding) bool { return f.Namespace == "shop" && f.Name == "secret-0" },
		"resource=secrets":                                 func(f *Finding) bool { return f.Resource == "secrets" && f.Subresource == "" },
		"resource=csinodes.storage.k8s.io":                 func(f *Finding) bool { return f.Resource == "csinodes" },
		"q=LEGACY":                                         func(f *Finding) bool { return f.Binding != nil && strings.Contains(f.Binding.Name, "legacy") },
		"q=secret-0&userAgent=curl&severity=medium&sort=node": func(f *Finding) bool {
			return f.UserAgent == "curl" && f.Severity != "low" && (strings.Contains(f.Name, "secret-0") || strings.Contains(f.Message, "secret-0"))
		},
	} {
		p := s.page(t, h, "limit=1000&"+query)
		var got, want []string
		var requests int64
		for i := range p.Findings {
			got = append(got, p.Findings[i].ID)
		}
		for i := range all.Findings {
			if f := &all.Findings[i]; holds(f) {
				want = append(want, f.ID)
				requests += f.Count
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if len(want) == 0 || !slices.Equal(got, want) || p.Total != len(want) || p.Requests != requests {
			t.Errorf("%s: %d findings, %d in all, want %d; %d requests, want %d", query, len(got), p.Total, len(want), p.Requests, requests)
		}
	}
	for _, group := range groupNames() {
		p := s.page(t, h, "limit=1&group="+group)
		n, requests := 0, int64(0)
		for _, g := range p.Groups {
			n += g.Findings
			requests += g.Requests
		}
		if n != all.Total || requests != all.Requests || p.Total != all.Total {
			t.Errorf("by %s there are %d findings and %d requests, want %d and %d", group, n, requests, all.Total, all.Requests)
		}
	}
	sum := int64(0)
	for _, c := range all.Facets.Rules {
		sum += c.Count
	}
	if sum != int64(all.Total) {
		t.Errorf("the facet of rules counts %d", sum)
	}
}

// Many readers at once read the store once; what was stored meanwhile is shown.
func TestReadersShare(t *testing.T) {
	s := newSite(t, time.Hour)
	s.commit(many(10)...)
	counting := &countingStore{Store: s.store}
	s.o.Store = counting
	h := s.server()
	h.data.cache.fresh = time.Hour
	var group sync.WaitGroup
	for range 40 {
		group.Go(func() {
			if p := s.page(t, h, ""); p.Total != 10 {
				t.Errorf("%d findings", p.Total)
			}
		})
	}
	group.Wait()
	if n := counting.windows(); n != 1 {
		t.Errorf("the store was read %d times", n)
	}
	h.data.cache.fresh = 0
	s.page(t, h, "")
	if n := counting.windows(); n != 1 {
		t.Errorf("nothing had changed, and the store was read %d times", n)
	}
	s.commit(excess(at0(0), "new", "new", "curl", "b"))
	if p := s.page(t, h, ""); p.Total != 11 {
		t.Errorf("%d findings after another", p.Total)
	}
	for i := range 3 * maxWindows {
		s.page(t, h, fmt.Sprintf("window=%dh", i+1))
	}
	h.data.cache.mu.Lock()
	if n := len(h.data.cache.windows); n > maxWindows {
		t.Errorf("%d windows are kept", n)
	}
	h.data.cache.mu.Unlock()
}

// countingStore counts how often a window is read.
type countingStore struct {
	Store
	mu sync.Mutex
	n  int
}

func (c *countingStore) windows() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

func (c *countingStore) Window(ctx context.Context, from, to time.Time, each func(time.Time, *tally.Key, *tally.Group)) (*tally.Tally, []tally.Step, error) {
	c.mu.Lock()
	c.n++
	c.mu.Unlock()
	return c.Store.Window(ctx, from, to, each)
}

// The overview's numbers are the report's, and its trend adds up to them, whatever the length of a step.
func TestTrendsAddUp(t *testing.T) {
	for _, name := range []string{"capture", "capture-rbac-only"} {
		s := captureSite(t, name)
		h := s.server()
		for _, window := range []string{"", "20s", "5s"} {
			var o Overview
			ok(t, json.Unmarshal(do(h, request("/api/v1/overview?window="+window)).Body.Bytes(), &o))
			var sum Point
			for i, p := range o.Trend.Points {
				sum.Allow, sum.Deny, sum.Unknown, sum.Excess = sum.Allow+p.Allow, sum.Deny+p.Deny, sum.Unknown+p.Unknown, sum.Excess+p.Excess
				if i > 0 && !p.At.Equal(o.Trend.Points[i-1].At.Add(time.Second)) {
					t.Errorf("%s: a step from %s to %s", name, o.Trend.Points[i-1].At, p.At)
				}
			}
			nodes, err := h.data.nodes(t.Context(), window, "", 1000)
			ok(t, err)
			excess := int64(0)
			for _, n := range nodes.Nodes {
				excess += n.Excess
				page, err := h.data.node(t.Context(), n.Name, window)
				ok(t, err)
				requests := int64(0)
				for _, p := range page.Trend.Points {
					requests += p.Allow + p.Deny + p.Unknown
				}
				if requests != n.Requests {
					t.Errorf("%s, %s: the trend of %s has %d requests, want %d", name, window, n.Name, requests, n.Requests)
				}
			}
			if o.Trend.Step != "1s" || sum.Allow != o.Verdicts.Allow || sum.Deny != o.Verdicts.Deny || sum.Unknown != o.Verdicts.Unknown || sum.Excess != excess {
				t.Errorf("%s, %q by %s: %+v, want %+v and %d", name, window, o.Trend.Step, sum, o.Verdicts, excess)
			}
		}
	}
}

func TestSteps(t *testing.T) {
	for _, x := range []struct {
		span, least, fine time.Duration
		want              string
	}{
		{time.Minute, time.Second, 7 * day, "1s"}, {10 * time.Minute, time.Second, 7 * day, "5s"}, {time.Hour, time.Second, 7 * day, "30s"},
		{time.Hour, time.Hour, 7 * day, "hour"}, {7 * day, time.Hour, 7 * day, "hour"}, {8 * day, time.Hour, 7 * day, "day"}, {3 * day, time.Hour, day, "day"},
		{90 * day, time.Hour, 90 * day, "day"}, {time.Minute, 15 * time.Second, day, "30s"}, {0, time.Hour, 7 * day, "hour"},
	} {
		if got := stepName(stepFor(at0(0), at0(x.span), x.least, x.fine)); got != x.want {
			t.Errorf("%s by %s: %s, want %s", x.span, x.least, got, x.want)
		}
	}
	wide := trendOf([]tally.Step{{At: at0(0), Allow: 1}, {At: at0(0).AddDate(200, 0, 0), Allow: 2}}, at0(0), at0(0).AddDate(200, 0, 0), time.Hour, 7*day)
	if len(wide.Points) != mostPoints || wide.Points[mostPoints-1].Allow != 2 {
		t.Errorf("two centuries are %d points", len(wide.Points))
	}
}

func FuzzCursor(f *testing.F) {
	c := cursor{sort: "node", key: orderKey{n: [3]int64{1, -2, 3}, s: "worker-1", id: "ab"}, back: true}
	f.Add(c.String())
	f.Add("AAAA")
	f.Fuzz(func(t *testing.T, s string) {
		c, err := parseCursor(s)
		if err != nil {
			return
		}
		again, err := parseCursor(c.String())
		if err != nil || *again != *c {
			t.Errorf("%q is %+v, and again %+v: %v", s, c, again, err)
		}
	})
}

func FuzzQuery(f *testing.F) {
	f.Add("window=7d&severity=high&sort=-node&group=object&limit=7&q=x&cursor=AA")
	f.Add("node=%00&object=a/b&resource=leases.coordination.k8s.io/status&allowed=true")
	s := newSite(f, time.Hour)
	s.commit(many(30)...)
	h := s.server()
	h.data.cache.fresh = time.Hour
	f.Fuzz(func(t *testing.T, raw string) {
		v, err := parameters(raw, findingParameters())
		if err != nil {
			return
		}
		q, err := findingsQuery(v)
		if err != nil {
			return
		}
		q.Window = "" // each window is read
		p, err := h.data.findings(t.Context(), q)
		if code, _ := statusOf(err); err != nil && code != 400 {
			t.Fatalf("%q: %v", raw, err)
		}
		if err == nil && (len(p.Findings) > p.Query.Limit || p.Total > 30) {
			t.Errorf("%q: %d findings of %d", raw, len(p.Findings), p.Total)
		}
	})
}

func FuzzNodeCursor(f *testing.F) {
	f.Add("eyJuIjpbMSwyLDNdLCJzIjoiZHc9PSJ9")
	f.Fuzz(func(t *testing.T, s string) {
		n, back, err := parseNodeCursor(s)
		if err != nil {
			return
		}
		again, backAgain, err := parseNodeCursor(nodeCursorOf(&n, back))
		if err != nil || again != n || back != backAgain {
			t.Errorf("%q is %+v, and again %+v: %v", s, n, again, err)
		}
	})
}

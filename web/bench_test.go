package web

import (
	"fmt"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/tally"
)

// bigSite has so many findings, each in so many hours.
func bigSite(b testing.TB, findings, hours int) *site {
	s := newSite(b, time.Hour)
	for h := range hours {
		entries := make([]tally.Entry, findings)
		for i := range entries {
			entries[i] = excess(at0(-time.Duration(h)*time.Hour+time.Duration(i)*time.Millisecond), fmt.Sprintf("ip-10-0-%d-%d.eu-central-1.compute.internal", i/250%100, i%250),
				fmt.Sprintf("tls-%d", i), []string{"kubelet", "calico-node", "fluent-bit"}[i%3], "legacy:system:node")
		}
		s.commit(entries...)
	}
	return s
}

func BenchmarkPages(b *testing.B) {
	for _, size := range []struct{ findings, hours int }{{10_000, 24}, {50_000, 3}} {
		s := bigSite(b, size.findings, size.hours)
		h := s.server()
		var id string
		for _, f := range s.page(b, h, "limit=1").Findings {
			id = f.ID
		}
		for _, path := range []string{
			"/", "/findings", "/findings?q=tls-77&sort=-count&group=object", "/findings/" + id, "/nodes", "/nodes/ip-10-0-0-7.eu-central-1.compute.internal",
			"/bindings/clusterrolebinding/-/legacy:system:node", "/api/v1/overview", "/api/v1/findings?limit=1000", "/findings.csv",
		} {
			for _, warm := range []bool{false, true} {
				b.Run(fmt.Sprintf("findings=%d/warm=%t%s", size.findings, warm, path), func(b *testing.B) {
					for b.Loop() {
						if !warm {
							clear(h.data.cache.windows)
						}
						w := do(h, request(path))
						if w.Code != 200 {
							b.Fatal(w.Code)
						}
						b.ReportMetric(float64(w.Body.Len()), "B/page")
					}
				})
			}
		}
	}
}

// BenchmarkGoingOn reads the store again each time something was stored.
func BenchmarkGoingOn(b *testing.B) {
	s := bigSite(b, 10_000, 24)
	c := s.server().data.cache
	c.worth = 0
	n := 0
	var snap *snapshot
	again := func() {
		n++
		s.commit(excess(at0(time.Duration(n)*time.Millisecond), "new", fmt.Sprint("s-", n), "curl", "b"))
		var err error
		snap, err = c.read(b.Context(), 0, snap)
		ok(b, err)
		if len(snap.all) != 10_000+n {
			b.Fatal(len(snap.all))
		}
	}
	again()
	again() // what is over is kept from now on
	for b.Loop() {
		again()
	}
}

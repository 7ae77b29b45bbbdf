package app

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/store"
)

// mostHeld bounds the gaps that are kept of before a restart.
const mostHeld = 50

// heldGaps are gaps in the state by which an instance judged requests, with the time of the last of them. They are stored with the facts, so that a process
// that begins with another state, or after those requests, still says why their verdicts are what they are.
type heldGaps struct {
	// Until is the time of the last request that the gaps are about, zero where there was none.
	Until time.Time        `json:"until"`
	Gaps  []report.PastGap `json:"gaps"`
}

// openHeld continues what an instance stored, nil if it has stored none.
func openHeld(ctx context.Context, s *store.Store, instance string) (*heldGaps, error) {
	all, err := s.Facts(ctx)
	if err != nil || all[instance] == nil {
		return nil, err
	}
	var f storedFacts
	err = json.Unmarshal(all[instance], &f)
	return f.Held, err
}

// with are these gaps and those of the facts of now, if requests were judged by the state of now. What its watch says is of this moment, and of no requests.
// Gaps of requests before oldest are dropped, and those of times in which nobody watched, which a process forgets with its state, if they are of before the
// horizon.
func (h *heldGaps) with(now []codes.Gap, k *knowledge, oldest, horizon time.Time) *heldGaps {
	out := &heldGaps{Until: k.to}
	for i := range now {
		if k.heard && !slices.ContainsFunc(k.doubts, func(d codes.Gap) bool { return d.Equal(&now[i]) }) {
			out.Gaps = append(out.Gaps, report.PastGap{Gap: now[i], Until: k.to})
		}
	}
	if h != nil {
		out.Gaps = append(out.Gaps, h.Gaps...)
	}
	unwatched := func(g *codes.Gap) bool { return g.Code == codes.NotWatched || g.Code == codes.NotWatchedMore }
	out.Gaps = slices.DeleteFunc(mergedGaps(out.Gaps), func(g report.PastGap) bool {
		return g.Until.Before(oldest) || unwatched(&g.Gap) && g.Until.Before(horizon)
	})
	if len(out.Gaps) > mostHeld {
		slices.SortStableFunc(out.Gaps, func(a, b report.PastGap) int { return b.Until.Compare(a.Until) })
		out.Gaps = out.Gaps[:mostHeld]
	}
	return out
}

// mergedGaps has each gap once, in the order in which they come first: as long or as many as any says, until the last request that it concerns.
func mergedGaps(all []report.PastGap) (out []report.PastGap) {
	at := map[string]int{}
	for i := range all {
		g := &all[i]
		key := gapKey(&g.Gap)
		n, there := at[key]
		if !there {
			at[key] = len(out)
			out = append(out, *g)
			continue
		}
		until := later(out[n].Until, g.Until)
		if gapSize(&g.Gap) > gapSize(&out[n].Gap) {
			out[n].Gap = g.Gap
		}
		out[n].Until = until
	}
	return out
}

// gapKey tells gaps apart, however long or many they are.
func gapKey(g *codes.Gap) string {
	key := string(g.Code)
	for _, p := range g.Params {
		if p.Key != codes.ParamBy && p.Key != codes.ParamCount {
			key += "\x00" + p.Key + "\x00" + p.Value
		}
	}
	return key
}

func gapSize(g *codes.Gap) int64 {
	return int64(g.Params.Duration(codes.ParamBy)) + g.Params.Int(codes.ParamCount)
}

// gapsSince are the gaps of the facts, with those by which requests were judged since then.
func gapsSince(f *report.Facts, from time.Time) (out []codes.Gap) {
	var all []report.PastGap
	for i := range f.Gaps {
		all = append(all, report.PastGap{Gap: f.Gaps[i]})
	}
	for i := range f.Past {
		if g := &f.Past[i]; !g.Until.Before(from) {
			all = append(all, *g)
		}
	}
	for _, g := range mergedGaps(all) {
		out = append(out, g.Gap)
	}
	return out
}

package checks

import (
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/evidence"
)

// within returns what of the span is in [from, to). ok is false for nothing.
func (s Span) within(from, to time.Time) (Span, bool) {
	out := Span{later(s.From, from), to}
	if !s.To.IsZero() && s.To.Before(to) {
		out.To = s.To
	}
	return out, out.From.Before(out.To)
}

// Holds reports whether the time is in the span.
func (s Span) Holds(t time.Time) bool { return !t.Before(s.From) && (s.To.IsZero() || t.Before(s.To)) }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// clip returns what of the spans is in [from, to), in order and without overlaps.
func clip(spans []Span, from, to time.Time) []Span {
	var in []Span
	for _, s := range spans {
		if c, ok := s.within(from, to); ok {
			in = append(in, c)
		}
	}
	slices.SortFunc(in, func(a, b Span) int { return a.From.Compare(b.From) })
	out := in[:0]
	for _, s := range in {
		if n := len(out); n > 0 && !s.From.After(out[n-1].To) {
			out[n-1].To = later(out[n-1].To, s.To)
		} else {
			out = append(out, s)
		}
	}
	return out
}

// common returns what is in both lists, which clip made.
func common(a, b []Span) []Span {
	var out []Span
	for _, s := range a {
		out = append(out, clip(b, s.From, s.To)...)
	}
	return out
}

func total(spans []Span) (d time.Duration) {
	for _, s := range spans {
		d += s.To.Sub(s.From)
	}
	return d
}

// window is the time that the checks ask about.
type window struct {
	from, to    time.Time
	first, last evidence.Hour
	shown       time.Time // until when the log has what kubelets read; for reads-logged
}

// windowOf is the last MinWindow of the log.
func windowOf(in *Input) window {
	to := in.Log.Until
	if to.IsZero() {
		return window{first: 1}
	}
	w := window{from: to.Add(-in.MinWindow), to: to}
	w.first, w.last = evidence.HourOf(w.from), evidence.HourOf(w.to.Add(-1))
	return w
}

// known reports whether there is a window to ask about, and otherwise says why not.
func (w *window) known(in *Input, p *proof) bool {
	if in.Ledger == nil || w.to.IsZero() {
		p.unproven(Item{Code: CodeNoLog})
		return false
	}
	return true
}

// whole notes hours of which the ledger dropped something.
func (w *window) whole(in *Input, p *proof, what evidence.Overflow) {
	if h, dropped := in.Ledger.Dropped(); dropped && h >= w.first {
		p.unproven(Item{Code: CodeOverflow, From: w.from, To: h.End()})
	}
	for h := w.first; h <= w.last; h++ {
		if in.Ledger.Overflow(h)&what != 0 {
			p.unproven(Item{Code: CodeOverflow, From: h.Start(), To: h.End()})
		}
	}
}

// brief reports whether the window has so little of the hour that nothing has to happen in it that happens in every hour. It is at an end of the window.
func (w *window) brief(h evidence.Hour) bool {
	in, some := Span{h.Start(), h.End()}.within(w.from, w.to)
	return some && in.To.Sub(in.From) < evidence.PartLength && w.to.Sub(w.from) >= time.Hour
}

// runs calls f for each run of consecutive hours for which in is true.
func (w *window) runs(in func(evidence.Hour) bool, f func(first, last evidence.Hour)) {
	for h := w.first; h <= w.last; h++ {
		if !in(h) {
			continue
		}
		first := h
		for h < w.last && in(h+1) {
			h++
		}
		f(first, h)
	}
}

package cluster

import (
	"time"

	"github.com/nodetrail/nodetrail/codes"
)

// KindStatus is how it stands with the watch of one kind.
type KindStatus struct {
	Kind string
	// Synced is true once the kind was listed, or its watch taken up where the journal of a former process ends.
	Synced bool
	// Watching is true when all is known but for what is on its way.
	Watching bool
	// Refused is true when the rights to list or watch it are lacking.
	Refused bool
	// Absent is true when the API server does not serve the kind: there are no objects of it.
	Absent bool
	// Objects is how many there are.
	Objects int
	// Known is the last moment of which all is known for certain, zero if there is none.
	Known time.Time
	// LastEvent is when something was last heard of it, zero if never.
	LastEvent time.Time
	// Errors counts the errors, LastError is the latest of them.
	Errors    int64
	LastError string
	// Judged is true when verdicts or rules depend on the kind.
	Judged bool
}

// Status returns how it stands with each kind.
func (l *Live) Status() []KindStatus {
	out := make([]KindStatus, 0, numKinds)
	for _, k := range l.kinds {
		k.mu.Lock()
		s := k.status
		k.mu.Unlock()
		s.Judged = k.id.judged()
		out = append(out, s)
	}
	return out
}

// Synced reports whether each kind that verdicts or rules depend on has been in sync since the beginning of Run, or is refused or absent. It
// does not become false again by an outage.
func (l *Live) Synced() bool {
	for _, s := range l.Status() {
		if s.Judged && !s.Synced && !s.Refused && !s.Absent {
			return false
		}
	}
	return true
}

// Watermark returns the instant up to which all is known that happened in the cluster and that verdicts or rules depend on: somewhat before
// now (by the settle time), or the last moment of which all is known, if a watch is interrupted. Kinds that are refused or absent do not
// count. It is zero as long as a kind was never listed. An interruption that is noticed late makes it go back.
func (l *Live) Watermark(now time.Time) time.Time {
	w := now.Add(-l.cfg.Settle)
	for _, s := range l.Status() {
		if !s.Judged || s.Watching || s.Refused || s.Absent {
			continue
		}
		if s.Known.Before(w) {
			w = s.Known
		}
	}
	return w
}

// CaughtUp reports whether all is known that happened until t.
func (l *Live) CaughtUp(t time.Time) bool { return !l.Watermark(l.clock.read()).Before(t) }

// Gaps says what is missing from the state now. It does not repeat what [State.Gaps] says.
func (l *Live) Gaps() []codes.Gap {
	var out []codes.Gap
	add := func(code codes.Code, kind string, p ...codes.Param) {
		out = append(out, codes.Gap{Kind: codes.State, Code: code, Params: append(codes.Params{codes.Text(codes.ParamKind, kind)}, p...)})
	}
	for _, s := range l.Status() {
		switch {
		case !s.Judged || s.Absent || s.Watching:
		case s.Refused:
			add(codes.KindRefused, s.Kind)
		case s.Known.IsZero() && s.LastError != "":
			add(codes.KindUnlisted, s.Kind, codes.Text(codes.ParamTrouble, s.LastError))
		case s.Known.IsZero():
			add(codes.KindUnlisted, s.Kind)
		default:
			add(codes.WatchInterrupted, s.Kind, codes.Time(codes.ParamAt, s.Known))
		}
	}
	return out
}

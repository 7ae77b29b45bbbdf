package checks

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/evidence"
)

// serverLease stands for the duration of a kubelet's Lease: an API server renews its own as often, every ten seconds.
const serverLease = 40 * time.Second

func serversSeen(in *Input) Result {
	p := proof{}
	w := windowOf(in)
	if !w.known(in, &p) {
		return p.done(NextGetLog)
	}
	w.whole(in, &p, evidence.OverServers|evidence.OverSources)
	s := &in.Servers
	servers := serversOf(in, &w)
	switch {
	case len(servers) == 0:
		serversBySource(in, &w, &p)
	case !s.Known && s.Configured == 0:
		p.unproven(Item{Code: CodeServersUnknown}) // there may be more, whose logs are missing
	}
	for i := range servers {
		server(in, &w, &servers[i], &p)
	}
	if len(servers) > 0 {
		fewerAtOnce(servers, &w, s.Configured, &p)
	}
	return p.done(NextLogServerLeases)
}

// fewerAtOnce tells when fewer servers were there at the same time than there have to be. One that took the place of another does not count twice.
func fewerAtOnce(servers []Server, w *window, n int, p *proof) {
	bounds := []time.Time{w.from, w.to}
	lives := make([][]Span, len(servers))
	for i := range servers {
		lives[i] = clip(servers[i].Lives, w.from, w.to)
		for _, l := range lives[i] {
			bounds = append(bounds, l.From, l.To)
		}
	}
	slices.SortFunc(bounds, time.Time.Compare)
	bounds = slices.CompactFunc(bounds, time.Time.Equal)
	var run *Item
	for i, to := range bounds[1:] {
		from, live := bounds[i], 0
		for _, all := range lives {
			live += int(one(slices.ContainsFunc(all, func(l Span) bool { return !from.Before(l.From) && from.Before(l.To) })))
		}
		switch {
		case live >= n:
			run = nil
		case run != nil:
			run.To, run.Seen = to, min(run.Seen, int64(live))
		default:
			p.unproven(Item{Code: CodeServersTooFew, From: from, To: to, Expected: int64(n), Seen: int64(live)})
			run = &p.r.Evidence[len(p.r.Evidence)-1]
		}
	}
}

// serversOf are the API servers of the window: those of the state, and those that the log shows and the state does not know. Without a state each must
// be there all the time.
func serversOf(in *Input, w *window) []Server {
	var out []Server
	known := map[string]bool{}
	for _, s := range in.Servers.Live {
		known[s.Name] = true
		s.Lives = s.livesBy(in.Ledger, w)
		if len(clip(s.Lives, w.from, w.to)) > 0 {
			out = append(out, s)
		}
	}
	for _, name := range in.Ledger.Servers(w.first, w.last) {
		if !known[name] {
			out = append(out, Server{Name: name, Lives: []Span{{From: w.from}}})
		}
	}
	return out
}

// livesBy are the lives of the server up to its last renewal in the log, if it ended at some instant of s.Ended. What the log lacks before that time is
// missing, and so is everything if it has a renewal of after it: then the server did not end. Where the log may lack more of that time than it may lack of an hour,
// nothing shows when the server ended.
func (s *Server) livesBy(l *evidence.Ledger, w *window) []Span {
	if s.Ended == (Span{}) {
		return s.Lives
	}
	end := s.Ended.From
	for slot := range l.ServerRenewals(s.Name, w.first, w.last) {
		end = later(end, evidence.SlotStart(slot+1))
	}
	if end.After(s.Ended.To.Add(evidence.SlotLength)) || s.Ended.To.Sub(end) > time.Hour/100 {
		return s.Lives
	}
	out := make([]Span, 0, len(s.Lives))
	for _, life := range s.Lives {
		if life.Holds(end) {
			life.To = end
		}
		out = append(out, life)
	}
	return out
}

// server measures the renewals of one API server's identity Lease.
func server(in *Input, w *window, s *Server, p *proof) {
	var starts []Span
	for slot := range in.Ledger.ServerStarts(s.Name, w.first, w.last) {
		at := evidence.SlotStart(slot)
		starts = append(starts, Span{at.Add(-longestRestart), at.Add(evidence.SlotLength)})
	}
	c := coverage{in: in, w: *w, outages: starts, slots: slices.Collect(in.Ledger.ServerRenewals(s.Name, w.first, w.last))}
	hours := c.loss(&Node{Name: s.Name, Lives: s.Lives, LeaseDuration: serverLease})
	for i := range hours {
		p.count(hours[i].seen+hours[i].missing, hours[i].seen)
	}
	c.tell(p, hours, Unproven, Item{Code: CodeServerMissing, Server: s.Name}, func(h *hourLoss) bool {
		return c.tooMany(h.missing-h.short, h.seen+h.missing)
	})
	c.tell(p, hours, Passed, Item{Code: CodeServerRestart, Server: s.Name}, func(h *hourLoss) bool { return h.restart > 0 })
}

// atOnce is how many API servers there are at the same time in the hour, at most. One that takes the place of another does not count in addition.
func (w *window) atOnce(in *Input, servers []Server, h evidence.Hour) int {
	var lives []Span
	for i := range servers {
		lives = append(lives, common(clip([]Span{{w.from, w.to}}, h.Start(), h.End()), clip(servers[i].Lives, w.from, w.to))...)
	}
	most := in.Servers.Configured
	for _, life := range lives { // most are there when one of them begins
		n := 0
		for _, s := range lives {
			n += int(one(s.Holds(life.From)))
		}
		most = max(most, n)
	}
	return most
}

// serversBySource compares the sources of each hour with the number of API servers.
func serversBySource(in *Input, w *window, p *proof) {
	n := in.Servers.Configured
	if n == 0 || n > 1 && !in.Servers.Apart {
		p.unproven(Item{Code: CodeServersUnknown})
		return
	}
	sources := in.Ledger.Sources(w.first, w.last)
	seen := func(h evidence.Hour) (count int) {
		for _, name := range sources {
			if x := in.Ledger.Source(name, h); x != nil && x.Requests&w.parts(h) != 0 {
				count++
			}
		}
		return count
	}
	for h := w.first; h <= w.last; h++ {
		if !w.brief(h) || seen(h) >= n {
			p.count(int64(n), int64(min(n, seen(h))))
		}
	}
	w.runs(func(h evidence.Hour) bool { return seen(h) < n && !w.brief(h) }, func(first, last evidence.Hour) {
		p.unproven(Item{Code: CodeServersTooFew, From: first.Start(), To: last.End(), Expected: int64(n), Seen: int64(seen(first))})
	})
}

func (m *Mode) authorizers() []string { return strings.Split(m.Order, ",") }

// unknown reports whether nodetrail does not know what the authorizer allows.
func unknown(authorizer string) bool {
	return !slices.Contains([]string{"Node", "RBAC", "AlwaysDeny"}, authorizer)
}

// nodeFirst reports whether Node is asked before everything that could allow in its place.
func (m *Mode) nodeFirst() bool {
	for _, name := range m.authorizers() {
		switch name {
		case "Node":
			return true
		case "AlwaysDeny":
		default:
			return false
		}
	}
	return false
}

func nodeAuthorizerOn(in *Input) Result {
	p := proof{}
	w := windowOf(in)
	configured, others := false, false // for all API servers, with an authorizer that nodetrail does not evaluate
	named := map[string]bool{}
	for _, m := range in.Modes {
		p.count(1, one(m.nodeFirst()))
		if !m.nodeFirst() {
			p.fail(Item{Code: CodeModeOff, Server: m.Server, Value: m.Order})
		}
		configured, others = configured || m.Server == "", others || slices.ContainsFunc(m.authorizers(), unknown)
		named[m.Server] = true
	}
	if !w.known(in, &p) {
		return p.done(NextGetLog)
	}
	w.whole(in, &p, evidence.OverSources)
	live := serversOf(in, &w)
	if in.Servers.Known && len(live) > 0 {
		all := true
		for i := range live {
			all = all && named[live[i].Name]
		}
		configured = configured || all
	}
	if u := &in.Unreasoned; !(configured && others) && u.At.After(w.from) { // and what it allows nodes looks like the Node authorizer's word
		p.unproven(Item{Code: CodeModeUntold, From: u.At, To: u.At, Object: u.User, Request: u.Request, AuditIDs: []string{u.AuditID}})
	}
	if !(configured && others) {
		moved := map[evidence.Hour]*Version{}
		for i := range in.Versions {
			if v := &in.Versions[i]; v.Moved || v.Doubts > 0 {
				moved[v.Hour] = v
			}
		}
		// Requests that only another version would answer so, next to changes of a state that is dated too early, show that rather than a version.
		byClock := func(h evidence.Hour) bool { return moved[h] != nil && !moved[h].Moved && in.Behind > 0 }
		w.runs(byClock, func(first, last evidence.Hour) {
			p.unproven(Item{Code: CodeClockBehind, Object: in.Behind.String(), From: first.Start(), To: last.End(), AuditIDs: moved[first].AuditIDs})
		})
		w.runs(func(h evidence.Hour) bool { return moved[h] != nil && !byClock(h) }, func(first, last evidence.Hour) {
			p.unproven(Item{Code: CodeVersionMoved, From: first.Start(), To: last.End(), AuditIDs: moved[first].AuditIDs})
		})
	}
	sources := in.Ledger.Sources(w.first, w.last)
	for _, name := range sources {
		sourceMode(in, &w, name, configured, &p)
	}
	if !configured {
		w.runs(func(h evidence.Hour) bool {
			return !w.brief(h) && !slices.ContainsFunc(sources, func(name string) bool {
				x := in.Ledger.Source(name, h)
				return x != nil && x.Requests != 0
			})
		}, func(first, last evidence.Hour) {
			p.count(int64(last-first)+1, 0)
			p.unproven(Item{Code: CodeModeUnknown, From: first.Start(), To: last.End()})
		})
		modeOfEach(in, &w, live, sources, &p)
	}
	if p.onlyOpen(CodeClockBehind) {
		return p.done(NextSetClock)
	}
	return p.done(NextTurnNodeOn, "sources", strconv.Itoa(len(sources)))
}

// sourceMode judges what one source shows of the order, by renewals of nodes' own Leases: Node always allows those.
func sourceMode(in *Input, w *window, name string, configured bool, p *proof) {
	at := func(h evidence.Hour) *evidence.SourceHour { return in.Ledger.Source(name, h) }
	off := func(h evidence.Hour) bool { x := at(h); return x != nil && (x.ByRBAC|x.Refused)&w.parts(h) != 0 }
	w.runs(off, func(first, last evidence.Hour) {
		p.fail(Item{Code: CodeNodeNotFirst, Server: name, From: first.Start(), To: last.End()})
	})
	silent := func(h evidence.Hour) bool {
		x := at(h)
		return x != nil && x.Requests&w.parts(h) != 0 && x.ByNode&w.parts(h) == 0 && !off(h) && !w.brief(h)
	}
	hidden := func(h evidence.Hour) bool {
		x := at(h)
		return x != nil && x.ByNode&w.parts(h) != 0 && x.Undecided&w.parts(h) != 0 && !off(h)
	}
	for h := w.first; h <= w.last; h++ {
		if x := at(h); x != nil && x.Requests&w.parts(h) != 0 && !configured && (!w.brief(h) || x.ByNode&w.parts(h) != 0) {
			p.count(1, one(x.ByNode&w.parts(h) != 0 && !off(h) && !hidden(h)))
		}
	}
	if !configured {
		w.runs(hidden, func(first, last evidence.Hour) {
			p.unproven(Item{Code: CodeModeHidden, Server: name, From: first.Start(), To: last.End()})
		})
		w.runs(silent, func(first, last evidence.Hour) {
			p.unproven(Item{Code: CodeModeUnknown, Server: name, From: first.Start(), To: last.End()})
		})
	}
}

// modeOfEach lists the hours in which fewer sources show that Node is asked first than API servers are there at the same time. A server that no kubelet uses shows
// nothing, and sources that do not tell servers apart show it of one.
func modeOfEach(in *Input, w *window, live []Server, sources []string, p *proof) {
	shown := func(h evidence.Hour) (n int) {
		for _, name := range sources {
			if x := in.Ledger.Source(name, h); x != nil && x.ByNode&w.parts(h) != 0 {
				n++
			}
		}
		if !in.Servers.Apart {
			n = min(n, 1)
		}
		return n
	}
	missing := func(h evidence.Hour) bool { n := shown(h); return n > 0 && n < w.atOnce(in, live, h) && !w.brief(h) }
	w.runs(missing, func(first, last evidence.Hour) {
		p.list(Item{Code: CodeModeOfSome, From: first.Start(), To: last.End(), Expected: int64(w.atOnce(in, live, first)), Seen: int64(shown(first))})
	})
}

func versionKnown(in *Input) Result {
	p := proof{}
	w := windowOf(in)
	if w.to.IsZero() {
		p.unproven(Item{Code: CodeNoLog})
		return p.done(NextGetLog)
	}
	hours := map[evidence.Hour]bool{}
	for i := range in.Versions {
		v := &in.Versions[i]
		if v.Hour < w.first || v.Hour > w.last {
			continue
		}
		known, there := hours[v.Hour]
		hours[v.Hour] = (known || !there) && v.Minor != ""
		if v.Contradicted > 0 {
			p.fail(Item{
				Code: CodeVersionDiffers, Server: v.Server, Value: v.Minor, From: v.Hour.Start(), To: v.Hour.End(), Count: v.Contradicted, AuditIDs: v.AuditIDs,
			})
		}
	}
	for h := w.first; h <= w.last; h++ {
		p.count(1, one(hours[h]))
	}
	w.runs(func(h evidence.Hour) bool { return !hours[h] }, func(first, last evidence.Hour) {
		p.unproven(Item{Code: CodeVersionUnknown, From: first.Start(), To: last.End()})
	})
	return p.done(NextGiveVersion)
}

package checks

import (
	"slices"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/evidence"
)

// kase changes the clean input and says what becomes of one check.
type kase struct {
	check, name string
	change      func(*Input)
	want        State
	code        Code // one of the items in that state has it; empty for any
}

// without leaves events out.
func without(f func(*tick) bool) func(*Input) {
	return func(in *Input) { in.Ledger = ledger(ticks(nil), f) }
}

// renewals leaves out the renewals of a node or a server in [from, to).
func renewals(who string, from, to time.Time) func(*tick) bool {
	return func(t *tick) bool {
		return t.renews() && t.who() == who && !t.time().Before(from) && t.time().Before(to)
	}
}

// single leaves out n renewals of each of the nodes, each alone, from 14:00 on.
func single(n int, who ...string) func(*tick) bool {
	seen := map[string]int{}
	return func(t *tick) bool {
		for _, w := range who {
			if t.renews() && t.who() == w && !t.time().Before(at(14, 0, 0)) {
				seen[w]++
				return seen[w]%3 == 0 && seen[w]/3 <= n
			}
		}
		return false
	}
}

func all(of ...func(*Input)) func(*Input) {
	return func(in *Input) {
		for _, f := range of {
			f(in)
		}
	}
}

func lives(node int, from, to time.Time) func(*Input) {
	return func(in *Input) { in.Nodes[node].Lives = []Span{{from, to}} }
}

func notReady(node int, from, to time.Time) func(*Input) {
	return func(in *Input) {
		in.Nodes[node].NotReady = []Span{{from, to}}
		in.Nodes[node].Silent = in.Nodes[node].NotReady
	}
}

// everyTenth leaves out one event in ten.
func everyTenth() func(*tick) bool {
	n := 0
	return func(*tick) bool {
		n = (n*7 + 3) % 1009
		return n%10 == 0
	}
}

func slow(node string) time.Duration {
	if node == "worker-1" {
		return 20 * time.Second
	}
	return 10 * time.Second
}

func fast(node string) time.Duration {
	if node == "worker-1" {
		return 7500 * time.Millisecond
	}
	return 10 * time.Second
}

func veryFast(node string) time.Duration {
	if node == "worker-1" {
		return 5 * time.Second
	}
	return 10 * time.Second
}

func windowCases() []kase {
	const check = "window-covered"
	outage := func(servers ...string) func(*tick) bool {
		return func(t *tick) bool {
			for _, s := range servers {
				if t.renews() && t.who() == s && !t.time().Before(at(14, 0, 0)) && t.time().Before(at(14, 1, 20)) {
					return true
				}
			}
			return t.renews() && t.o.Node != "" && !t.time().Before(at(14, 0, 0)) && t.time().Before(at(14, 1, 20))
		}
	}
	started := func(in *Input, l *evidence.Ledger) {
		for _, s := range []string{"apiserver-0", "apiserver-1"} {
			e := ofServer(s, "get", at(14, 1, 10))
			l.Observe(&e.ev, e.o)
		}
		in.Ledger = l
	}
	bothStart := func(f func(*tick) bool) func(*Input) {
		return func(in *Input) { started(in, ledger(ticks(nil), f)) }
	}
	long := func(t *tick) bool {
		return t.renews() && !t.time().Before(at(13, 50, 0)) && t.time().Before(at(14, 1, 15))
	}
	foreignBut := func(from, to time.Time) func(*Input) {
		return func(in *Input) {
			l := ledger(ticks(nil), func(t *tick) bool { return t.o.Node == "worker-1" })
			for t := noon; t.Before(noon.Add(span)); t = t.Add(time.Minute) {
				e := event("", "update", "coordination.k8s.io", "leases", "kube-node-lease", "worker-1", t)
				e.o = evidence.Origin{}
				if t.Before(from) || !t.Before(to) {
					l.Observe(&e.ev, e.o)
				}
			}
			in.Ledger = l
		}
	}
	foreign := foreignBut(time.Time{}, time.Time{})
	gone := func(t *tick) bool { return t.o.Node == "worker-1" }
	// kubelets are silent for 25 seconds of the minutes, of the last and short hour, and start when the last of the silences ends, those who do.
	kubelets := func(starts bool, minutes ...int) func(*Input) {
		return func(in *Input) {
			l := ledger(ticks(nil), func(t *tick) bool {
				return t.renews() && t.o.Node != "" && slices.ContainsFunc(minutes, func(m int) bool {
					return !t.time().Before(at(15, m, 0)) && t.time().Before(at(15, m, 25))
				})
			})
			for i := range in.Nodes {
				if starts {
					e := event(in.Nodes[i].Name, "create", "", "nodes", "", in.Nodes[i].Name, at(15, minutes[len(minutes)-1], 26))
					e.ev.Code = 409
					l.Observe(&e.ev, e.o)
				}
			}
			in.Ledger = l
		}
	}
	return []kase{
		{check, "all kubelets start again in the log's last minutes", kubelets(true, 8), Passed, CodeKubeletRestart},
		{check, "all are silent and none starts", kubelets(false, 8), Unproven, CodeLossOfAll},
		{check, "all are silent twice and start once", kubelets(true, 6, 8), Unproven, CodeLossOfAll},
		{check, "no ledger", func(in *Input) { in.Ledger = nil }, Unproven, CodeNoLog},
		{check, "no end of the log", func(in *Input) { in.Log.Until = time.Time{} }, Unproven, CodeNoLog},
		{check, "an unknown set of nodes", func(in *Input) { in.NodesKnown = false }, Unproven, CodeNodesUnknown},
		{check, "no nodes", func(in *Input) { in.Nodes = nil }, Unproven, CodeNothingSeen},
		{check, "a node of which nothing is logged", without(gone), Unproven, CodeRenewalsMissing},
		{check, "an hour of a node", without(renewals("worker-1", at(13, 0, 0), at(14, 0, 0))), Unproven, CodeRenewalsMissing},
		{check, "a node without renewals whose reads continue", without(renewals("worker-1", noon, at(23, 0, 0))), Unproven, CodeRenewalsMissing},
		{check, "a window that is longer than the log", func(in *Input) { in.MinWindow = 5 * time.Hour }, Unproven, CodeRenewalsMissing},
		{check, "the default window", func(in *Input) { in.MinWindow = 0 }, Unproven, CodeRenewalsMissing},
		{check, "ten minutes and a stray event later", func(in *Input) { in.Log.Until = noon.Add(27 * time.Hour) }, Unproven, CodeRenewalsMissing},
		{check, "one event in ten", without(everyTenth()), Unproven, CodeRenewalsMissing},
		{check, "four single renewals", without(single(4, "worker-1")), Passed, CodeShortGap},
		{check, "five single renewals", without(single(5, "worker-1")), Unproven, CodeRenewalsMissing},
		{check, "four of each node", without(single(4, "worker-0", "worker-1", "worker-2")), Unproven, CodeLossOfAll},
		{check, "three of each node", without(single(3, "worker-0", "worker-1", "worker-2")), Passed, CodeLossMeasured},
		{check, "one renewal if none may be missing", all(without(single(1, "worker-1")), func(in *Input) { in.MaxLoss = -1 }), Unproven, CodeLossOfAll},
		{check, "a gap of a lease's duration", without(renewals("worker-1", at(14, 0, 0), at(14, 0, 30))), Passed, CodeShortGap},
		{check, "a gap that the cluster may not notice", without(renewals("worker-1", at(14, 0, 0), at(14, 0, 40))), Passed, CodeShortGap},
		{check, "a kubelet that starts after fifty seconds", without(renewals("worker-0", at(13, 29, 15), at(13, 30, 0))), Passed, CodeKubeletRestart},
		{check, "one that does not start", without(renewals("worker-1", at(13, 29, 0), at(13, 30, 0))), Unproven, CodeRenewalsMissing},
		{check, "a kubelet that starts after more than a minute", without(renewals("worker-0", at(13, 28, 50), at(13, 30, 0))), Unproven, CodeRenewalsMissing},
		{check, "a gap of a minute", without(renewals("worker-1", at(14, 0, 0), at(14, 1, 0))), Unproven, CodeRenewalsMissing},
		{check, "an hour in which the node was not Ready", all(without(renewals("worker-1", at(13, 0, 10), at(14, 0, 0))), notReady(1, at(13, 1, 0), at(14, 0, 0))), Passed, CodeNodeNotReady},
		{check, "silence long before it was not Ready", all(without(renewals("worker-1", at(13, 0, 10), at(14, 0, 0))), notReady(1, at(13, 3, 0), at(14, 0, 0))), Unproven, CodeRenewalsMissing},
		{check, "silence long after it was not Ready", all(without(renewals("worker-1", at(13, 0, 10), at(14, 0, 0))), notReady(1, at(13, 1, 0), at(13, 57, 0))), Unproven, CodeRenewalsMissing},
		{check, "an hour in which the kubelet said that it was not Ready", all(
			without(renewals("worker-1", at(13, 0, 10), at(14, 0, 0))), notReady(1, at(13, 1, 0), at(14, 0, 0)), func(in *Input) { in.Nodes[1].Silent = nil },
		), Unproven, CodeRenewalsMissing},
		{check, "not Ready until the end", all(without(renewals("worker-1", at(14, 0, 10), at(23, 0, 0))), notReady(1, at(14, 1, 0), time.Time{})), Passed, CodeNodeNotReady},
		{check, "a node that vanished", all(without(renewals("worker-1", at(14, 30, 0), at(23, 0, 0))), lives(1, at(1, 0, 0), at(14, 30, 50))), Passed, CodeNodeVanished},
		{check, "a node that was silent before it went", all(without(renewals("worker-1", at(14, 30, 0), at(23, 0, 0))), lives(1, at(1, 0, 0), at(14, 34, 0))), Unproven, CodeRenewalsMissing},
		{check, "a node that joined", all(without(renewals("worker-1", noon, at(13, 10, 12))), lives(1, at(13, 10, 0), time.Time{})), Passed, ""},
		{check, "a node that joined and was silent", all(without(renewals("worker-1", noon, at(13, 15, 0))), lives(1, at(13, 10, 0), time.Time{})), Unproven, CodeRenewalsMissing},
		{check, "a node that was Ready for 50 seconds of an hour", all(without(renewals("worker-1", noon, at(23, 0, 0))), lives(1, at(13, 59, 10), at(14, 0, 0))), Passed, ""},
		{check, "a node that was there for five minutes, silent", all(without(renewals("worker-1", noon, at(23, 0, 0))), lives(1, at(13, 55, 0), at(14, 0, 0))), Unproven, CodeRenewalsMissing},
		{check, "a node that was Ready for 40 seconds of its hour", all(without(renewals("worker-1", at(13, 0, 0), at(14, 0, 0))), notReady(1, at(13, 0, 40), at(14, 0, 0))), Passed, CodeNodeNotReady},
		{check, "all API servers restart", bothStart(outage("apiserver-0", "apiserver-1")), Passed, CodeServerRestart},
		{check, "they are silent and did not start", without(outage("apiserver-0", "apiserver-1")), Unproven, CodeRenewalsMissing},
		{check, "one of them was there", bothStart(outage("apiserver-0")), Unproven, CodeRenewalsMissing},
		{check, "a restart that takes eleven minutes", bothStart(long), Unproven, CodeRenewalsMissing},
		{check, "a virtual node", all(without(gone), func(in *Input) { in.Nodes[1].Virtual = true }), Passed, CodeVirtualNode},
		{check, "a virtual node that renews its Lease, once", all(
			without(func(t *tick) bool { return gone(t) && t.time().After(at(13, 0, 0)) }), func(in *Input) { in.Nodes[1].Virtual = true }), Unproven, CodeRenewalsMissing},
		{check, "only virtual nodes", all(without(func(t *tick) bool { return t.o.Node != "" }), func(in *Input) {
			for i := range in.Nodes {
				in.Nodes[i].Virtual = true
			}
		}), Unproven, CodeNothingSeen},
		{check, "a node whose Lease another renews", foreign, Passed, CodeVirtualNode},
		{check, "one whose Lease another renews, but for ten minutes", foreignBut(at(14, 20, 0), at(14, 30, 0)), Unproven, CodeRenewalsMissing},
		{check, "a node with a label of a virtual one, which makes requests", all(without(func(t *tick) bool { return gone(t) && t.renews() }), func(in *Input) {
			in.Nodes[1].Virtual = true
		}), Unproven, CodeRenewalsMissing},
		{check, "a Lease that another renewed once", func(in *Input) {
			in.Ledger = ledger(ticks(nil), gone)
			e := event("", "update", "coordination.k8s.io", "leases", "kube-node-lease", "worker-1", at(14, 0, 0))
			e.o = evidence.Origin{}
			in.Ledger.Observe(&e.ev, e.o)
		}, Unproven, CodeRenewalsMissing},
		{check, "a cadence of twenty seconds that nothing explains", func(in *Input) { in.Ledger = ledger(ticks(slow), nil) }, Unproven, CodeRenewalsMissing},
		{check, "one that the Lease says", func(in *Input) {
			in.Ledger = ledger(ticks(slow), nil)
			in.Nodes[1].LeaseDuration = 80 * time.Second
		}, Passed, ""},
		{check, "a faster cadence", func(in *Input) { in.Ledger = ledger(ticks(fast), nil) }, Passed, ""},
		{check, "a faster cadence, every sixth missing", func(in *Input) {
			n := 0
			in.Ledger = ledger(ticks(fast), func(t *tick) bool {
				if t.renews() && t.who() == "worker-1" {
					n++
				}
				return t.renews() && t.who() == "worker-1" && n%6 == 0
			})
		}, Unproven, CodeRenewalsMissing},
		{check, "a cadence too short to be measured", func(in *Input) { in.Ledger = ledger(ticks(veryFast), nil) }, Unproven, CodeCadenceTooShort},
	}
}

// What was before or after the window, in its first and its last hour, is no evidence for it.
func TestPartsOfWindow(t *testing.T) {
	for _, c := range []struct {
		from, to    time.Time
		first, last evidence.Parts // of the hours 10 and 11
	}{
		{at(10, 0, 0), at(11, 59, 59), 0xfff, 0xfff},
		{at(10, 17, 0), at(11, 43, 0), 0xff8, 0x1ff},
		{at(10, 20, 0), at(11, 40, 0), 0xff0, 0x1ff},
		{at(10, 20, 0), at(11, 39, 59), 0xff0, 0x0ff},
	} {
		w := window{from: c.from, to: c.to}
		if first, last := w.parts(evidence.HourOf(c.from)), w.parts(evidence.HourOf(c.to)); first != c.first || last != c.last {
			t.Errorf("from %v to %v: %#x and %#x, want %#x and %#x", c.from, c.to, first, last, c.first, c.last)
		}
	}
}

// A state that is dated too early is said to be that, and nothing else, so that the next step is to set the clock.
func TestClockIsNoVersion(t *testing.T) {
	in := clean()
	in.Behind, in.Versions[1].Doubts = 3*time.Second, 1
	r := nodeAuthorizerOn(in)
	if r.Next.Code != NextSetClock || slices.ContainsFunc(r.Evidence, func(i Item) bool { return i.Code == CodeVersionMoved }) {
		t.Errorf("%+v", r)
	}
	in.Versions[2].Moved = true
	if r = nodeAuthorizerOn(in); r.Next.Code != NextTurnNodeOn {
		t.Errorf("where the version is moved, too: %+v", r)
	}
}

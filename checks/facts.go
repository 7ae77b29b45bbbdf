package checks

import (
	"cmp"
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/evidence"
)

func policyKnown(in *Input) Result {
	p := proof{}
	x := &in.Policy
	for _, h := range x.Hidden {
		p.unproven(Item{Code: cmp.Or(h.Code, CodePolicyHides), Request: h.Request, Server: h.Server, Line: h.Line, Client: h.User, Value: x.Name})
	}
	begun := startsOf(in)
	unopened := begun.tell(in, &p)
	if !x.Given {
		p.unproven(Item{Code: CodePolicyUnknown})
		return p.done(NextGivePolicy)
	}
	p.count(1, 1)
	unheard := othersMissing(in, &p)
	for _, c := range x.Contradicted {
		p.unproven(Item{Code: CodePolicyOther, Request: c.Request, Line: c.Line, Value: x.Name, AuditIDs: []string{c.AuditID}, From: c.At, To: c.At})
	}
	switch {
	case len(x.Contradicted) > 0:
		return p.done(NextGivePolicyInForce)
	case unopened:
		return p.done(NextLogStarts)
	case unheard:
		return p.done(NextLogOthers)
	}
	return p.done(NextGivePolicy)
}

func everyEventJudged(in *Input) Result {
	p := proof{}
	p.count(in.Log.Requests, in.Log.Requests)
	for i := range in.Unjudged {
		u := &in.Unjudged[i]
		item := Item{
			Code: u.Code, Line: u.Line, Node: u.Node, Request: u.Request, From: u.At, To: u.At, AuditIDs: u.AuditIDs, Count: max(u.Count, 1),
		}
		if u.OfNoNode {
			item.Code, item.Value = CodeOfNoNode, string(u.Code)
			p.list(item)
			continue
		}
		p.count(item.Count, 0)
		p.unproven(item)
	}
	return p.done(NextReadEvents)
}

// rarePathsSeen asks for one start of a kubelet with all that it does then.
func rarePathsSeen(in *Input) Result {
	p := proof{}
	w := windowOf(in)
	if !w.known(in, &p) {
		return p.done(NextGetLog)
	}
	started := false
	var incomplete []Item
	var joins gathered
	for i := range in.Nodes {
		for h := w.first; h <= w.last; h++ {
			x := in.Ledger.Node(in.Nodes[i].Name, h)
			if x == nil || x.Started == 0 {
				continue
			}
			item := Item{Code: CodeKubeletStarted, Node: in.Nodes[i].Name, From: h.Start(), To: h.End()}
			if missing := watchesAtStart(in, item.Node, h); missing != evidence.Watches {
				item.Code, item.Request = CodeStartIncomplete, "watch "+missing.String()
				incomplete = append(incomplete, item)
				continue
			}
			started = true
			if x.Joined != 0 {
				item.Code = CodeNodeJoined
			}
			p.list(item)
		}
		unregistered(in, &w, &in.Nodes[i], &joins)
	}
	joins.tell(in, &p)
	p.count(1, one(started))
	if !started {
		for _, item := range incomplete {
			p.unproven(item)
		}
		p.unproven(Item{Code: CodeNoKubeletStart})
	}
	return p.done(NextRestartKubelet)
}

// registersWithin is how long a kubelet may take at most to register a Node that came before it, or before the state had it.
const registersWithin = 30 * time.Minute

// unregistered looks for the registration of a Node that came in the window, or for a later one. Where none is in the log, neither is what else happened at that start.
func unregistered(in *Input, w *window, n *Node, g *gathered) {
	if playsNode(in, w, n) {
		return
	}
	for _, life := range n.Lives {
		at := life.From
		here, ok := life.within(at, w.to)
		if !ok || at.Before(w.from) || here.To.Before(at.Add(registersWithin)) {
			continue
		}
		seen := within(in, n.Name, at.Add(-registersWithin), here.To, func(x *evidence.NodeHour) evidence.Parts { return x.Started })
		if g.add(loss{expected: 1, missing: 1 - one(seen)}); !seen {
			g.items = append(g.items, Item{Code: CodeStartIncomplete, Node: n.Name, Request: "create nodes", From: at, To: at.Add(registersWithin)})
		}
	}
}

// watchesAtStart returns a kind of watch that does not follow a start, Watches if all do: in the hour of the start or the next.
func watchesAtStart(in *Input, node string, h evidence.Hour) evidence.Watch {
	at, next := in.Ledger.Node(node, h), in.Ledger.Node(node, h+1)
	for kind := range evidence.Watches {
		if at.Watched[kind] == 0 && (next == nil || next.Watched[kind] == 0) {
			return kind
		}
	}
	return evidence.Watches
}

func stateComplete(in *Input) Result {
	p := proof{}
	if !in.State.Given {
		p.unproven(Item{Code: CodeStateMissing})
	}
	p.count(in.State.Objects, in.State.Objects)
	for _, g := range in.State.Gaps {
		p.unproven(Item{Code: CodeStateGap, Object: g.Kind, Value: joined(g.Code, g.Value), From: g.From, To: g.To})
	}
	return p.done(NextRecordState)
}

func joined(code, value string) string {
	if value == "" {
		return code
	}
	return code + " " + value
}

// DecidingRules are the rules without which nothing is proven.
func DecidingRules() []string {
	return []string{"rbac-excess-access", "node-identity", "audit-coverage-gap"}
}

func ruleState(in *Input, name string) (on, known bool) {
	for i := range in.Rules {
		if r := &in.Rules[i]; r.Name == name {
			on, known = (on || !known) && r.On, true
		}
	}
	return on, known
}

func rulesOn(in *Input) Result {
	p := proof{}
	for _, name := range DecidingRules() {
		on, known := ruleState(in, name)
		p.count(1, one(on))
		switch {
		case !known:
			p.unproven(Item{Code: CodeRuleUnknown, Object: name})
		case !on:
			p.unproven(Item{Code: CodeRuleOff, Object: name})
		}
	}
	return p.done(NextTurnRulesOn)
}

// looked is the result of what others looked for.
func looked(f *Findings, next Code) Result {
	p := proof{}
	if f == nil {
		p.unproven(Item{Code: CodeNotLookedAt})
		return p.done(NextNotExamined)
	}
	p.count(f.Looked, f.Looked-int64(len(f.NotKnown)))
	for _, i := range f.Wrong {
		p.fail(i)
	}
	for _, i := range f.NotKnown {
		p.unproven(i)
	}
	return p.done(next)
}

func nodeRestrictionOn(in *Input) Result { return looked(in.Restriction, NextProbePlugin) }

func tokensOnNode(in *Input) Result { return looked(in.Tokens, NextMovePods) }

func oneHolder(in *Input) Result {
	doubtful := func(i Item) bool { return i.Code == CodeSecondUserDoubtful }
	if f := in.Holders; f != nil && (len(f.Wrong) > 0 || slices.ContainsFunc(f.NotKnown, doubtful)) {
		return looked(f, NextFindHolder)
	}
	return looked(in.Holders, orderFirst(in.Holders, NextLogCredentials))
}

func birthGuarded(in *Input) Result { return looked(in.Births, orderFirst(in.Births, NextLogBirths)) }

// orderFirst is the next step of a check that may be about requests that were left out: what else is wrong is not known before the log is in order.
func orderFirst(f *Findings, next Code) Code {
	if f != nil && len(f.Wrong) == 0 && slices.ContainsFunc(f.NotKnown, func(i Item) bool { return i.Code == CodeLeftOut }) {
		return NextOrderLogs
	}
	return next
}

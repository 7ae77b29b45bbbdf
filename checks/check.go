package checks

import (
	"slices"
	"strings"
	"time"
)

// The names of checks that a report explains by clients and by identities.
const (
	NothingDepends    = "nothing-depends"
	RacesDecided      = "races-decided"
	IdentitiesConform = "identities-conform"
)

// Question is a set of questions that a check belongs to.
type Question uint8

// The questions.
const (
	// Ready asks whether the bindings can be deleted.
	Ready Question = 1 << iota
	// Confined asks whether a stolen kubelet credential is confined to its node.
	Confined
)

// String returns the question as the report has it.
func (q Question) String() string {
	switch q {
	case Ready:
		return "ready"
	case Confined:
		return "confined"
	case Ready | Confined:
		return "ready, confined"
	}
	return "unknown"
}

// State is what a check, or one item of it, came to. The zero value is Unproven.
type State uint8

// The states.
const (
	Unproven State = iota
	Waived
	Passed
	Failed
)

// States returns all states.
func States() []State { return []State{Unproven, Waived, Passed, Failed} }

// String returns the state in lower case. What is no state is unproven.
func (s State) String() string {
	switch s {
	case Waived:
		return "waived"
	case Passed:
		return "passed"
	case Failed:
		return "failed"
	}
	return "unproven"
}

// worse returns the one of two states that decides: failed, unproven, waived, passed.
func worse(a, b State) State {
	rank := func(s State) int {
		switch s {
		case Passed:
			return 0
		case Waived:
			return 1
		case Failed:
			return 3
		}
		return 2
	}
	if rank(a) >= rank(b) {
		return a
	}
	return b
}

// Code says what an item or a next step is about. Codes are stable.
type Code string

// Item is one piece of a result's evidence. What does not apply is empty.
type Item struct {
	// State is what the item alone amounts to: Passed for what is only listed.
	State State
	Code  Code
	// Node, Server, Line, Request, From and To are what a waiver's scope can name. Server is an API server or a source of events, Line a place in a file,
	// Request a kind of request such as "get secrets". The item is about [From, To).
	Node, Server, Line, Request string
	From, To                    time.Time
	// Object, Client and Value are further parameters of the code.
	Object, Client, Value string
	AuditIDs              []string
	// Expected and Seen are the item's own figures; Count is how many requests, events or nodes it stands for.
	Expected, Seen, Count int64
}

// Next is the step that would settle a check.
type Next struct {
	Code   Code
	Params map[string]string
}

// Result is what came of a check.
type Result struct {
	Check          string
	State          State
	Expected, Seen int64
	Evidence       []Item
	// Next is empty for a check that passed.
	Next Next
}

// Check is one claim that a verdict rests on.
type Check struct {
	// Name is stable: a metric label, a key of waivers, the name of the page.
	Name      string
	Questions Question
	// Doc is the text of the page; what comes before the first blank line is the title.
	Doc string
	// RestsOn are checks without which this one is unproven. They are of another question; those of its own need no mention.
	RestsOn []string

	run func(*Input) Result
}

// Title is the first paragraph of the Doc: the claim in a few words.
func (c *Check) Title() string {
	title, _, _ := strings.Cut(c.Doc, "\n\n")
	return title
}

// Page is the path of the check's page in the repository.
func (c *Check) Page() string { return "docs/checks/" + c.Name + ".md" }

// All returns the checks, in the order in which a report lists them.
func All() []Check {
	return []Check{
		{"window-covered", Ready, docWindowCovered, nil, windowCovered},
		{"reads-logged", Ready, docReadsLogged, nil, readsLogged},
		{"policy-known", Ready, docPolicyKnown, nil, policyKnown},
		{"every-event-judged", Ready, docEveryEventJudged, nil, everyEventJudged},
		{"servers-seen", Ready, docServersSeen, nil, serversSeen},
		{"node-authorizer-on", Ready | Confined, docNodeAuthorizerOn, nil, nodeAuthorizerOn},
		{"version-known", Ready, docVersionKnown, nil, versionKnown},
		{NothingDepends, Ready, docNothingDepends, nil, nothingDepends},
		{nameInventoried, Ready, docBindingsInventoried, nil, bindingsInventoried},
		{IdentitiesConform, Ready | Confined, docIdentitiesConform, nil, identitiesConform},
		{RacesDecided, Ready, docRacesDecided, nil, racesDecided},
		{"agreement", Ready, docAgreement, nil, agreement},
		{"rare-paths-seen", Ready, docRarePathsSeen, nil, rarePathsSeen},
		{"state-complete", Ready, docStateComplete, nil, stateComplete},
		{"rules-on", Ready, docRulesOn, nil, rulesOn},
		{"node-restriction-on", Confined, docNodeRestrictionOn, nil, nodeRestrictionOn},
		{"no-excess-rights", Confined, docNoExcessRights, nil, noExcessRights},
		{"tokens-on-node", Confined, docTokensOnNode, nil, tokensOnNode},
		{"no-excess-use", Confined, docNoExcessUse, []string{"version-known", "agreement", "state-complete", "rules-on"}, noExcessUse},
		{
			"one-holder", Confined, docOneHolder,
			[]string{"window-covered", "reads-logged", "policy-known", "every-event-judged", "servers-seen"}, oneHolder,
		},
		{"birth-guarded", Confined, docBirthGuarded, nil, birthGuarded},
	}
}

// Of returns the checks of a question, in their order.
func Of(q Question) []Check {
	var out []Check
	for _, c := range All() {
		if c.Questions&q != 0 {
			out = append(out, c)
		}
	}
	return out
}

// Run returns the result of every check, in the order of All.
func Run(in *Input) []Result {
	own := *in
	own.Options = own.Options.orDefault()
	own.narrow()
	all := All()
	out := make([]Result, 0, len(all))
	for i := range all {
		r := all[i].run(&own)
		r.Check = all[i].Name
		out = append(out, r)
	}
	for i := range all {
		out[i].restOn(all[i].RestsOn, out)
	}
	return out
}

// restOn makes the result unproven where a check that it rests on is not passed. Nobody can answer for that if nobody can for the check itself.
func (r *Result) restOn(names []string, all []Result) {
	for i := range all {
		if o := &all[i]; o.State == Passed || !slices.Contains(names, o.Check) {
			continue
		}
		if r.State == Passed {
			r.Next = Next{Code: NextSettleFirst}
		}
		code := CodeRestsOn
		if !all[i].waivable() {
			code = CodeRestsOnUnwaivable
		}
		r.Evidence = append(r.Evidence, Item{State: Unproven, Code: code, Object: all[i].Check})
		r.State = worse(r.State, Unproven)
	}
}

// proof collects what a check finds. It passes only if something was expected and seen, and nothing failed or is unproven.
type proof struct{ r Result }

func (p *proof) fail(i Item)     { i.State = Failed; p.r.Evidence = append(p.r.Evidence, i) }
func (p *proof) unproven(i Item) { i.State = Unproven; p.r.Evidence = append(p.r.Evidence, i) }

// list adds what does not count.
func (p *proof) list(i Item) { i.State = Passed; p.r.Evidence = append(p.r.Evidence, i) }

// count adds to the figures.
func (p *proof) count(expected, seen int64) {
	p.r.Expected += expected
	p.r.Seen += seen
}

// onlyOpen reports whether something is not passed, and all of that has the code.
func (p *proof) onlyOpen(code Code) bool {
	open := false
	for i := range p.r.Evidence {
		if item := &p.r.Evidence[i]; item.State != Passed {
			if item.Code != code {
				return false
			}
			open = true
		}
	}
	return open
}

// next names the step that would settle the check, if it does not pass.
func (p *proof) done(next Code, params ...string) Result {
	if stateOf(p.r.Evidence) == Passed && (p.r.Expected <= 0 || p.r.Seen <= 0) {
		p.unproven(Item{Code: CodeNothingSeen})
	}
	p.r.State = stateOf(p.r.Evidence)
	if p.r.State != Passed {
		p.r.Next = Next{Code: next}
		for i := 0; i+1 < len(params); i += 2 {
			if p.r.Next.Params == nil {
				p.r.Next.Params = map[string]string{}
			}
			p.r.Next.Params[params[i]] = params[i+1]
		}
	}
	return p.r
}

// stateOf is the state of the worst item.
func stateOf(items []Item) State {
	s := Passed
	for i := range items {
		s = worse(s, items[i].State)
	}
	return s
}

package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/incidents"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/wording"
)

// Summary is what every form of a report says first: both answers, what stands in the way, and what to do next. Names from logs are as they are.
type Summary struct {
	// Title is the parts of the first line.
	Title   []string
	Answers []Answer
	// NoBindings is whether no binding for nodes exists any more: findings then come first.
	NoBindings bool
	// Remarks are sentences that explain the answers as a whole.
	Remarks []string
	// Blockers are the reasons why the bindings cannot be deleted, those that are no requests first, then the most requests first, and what else keeps a
	// credential from being confined. Each check that failed has at least one. Gaps are the checks that are unproven.
	Blockers, Gaps []Point
	// LogFirst says that the log has to have something first; "" where it has.
	LogFirst string
	// Then is the first step of the plan; nil where blockers or gaps of the first answer say what to do.
	Then *Step
	// Lines are further results, each with its name.
	Lines []Line
	// Notes counts the notes that are harmless.
	Notes int
}

// Answer is a question with its answer and why: Counts counts what stands in the way, Why also names the checks that failed. Only names the nodes that the
// answer is about; "" for all.
type Answer struct{ Ask, Head, Why, Counts, Only, Class string }

// Line is a result in a line.
type Line struct{ Name, Text string }

// Point is one blocker or one gap.
type Point struct {
	What string
	// Count says how much it is, Last when it was seen last: "" and zero where that does not apply.
	Count string
	Last  time.Time
	// Detail says more, Next what to do, in words or as a command.
	Detail, Next string

	weight   int64
	check    string // the check that fails because of it
	confined bool   // of the second question alone
	short    string // what stands in place of What where there is no room for Detail; "" for What
}

const (
	// commandBegin is how a next step begins that is a command.
	commandBegin = "nodetrail "
	// suggestCommand writes what the clients need.
	suggestCommand = commandBegin + "suggest --state <journal> --verify <audit log>"
)

// first is what to do first, in words or as a command; "" for nothing and where Then says it.
func (s *Summary) first() string {
	switch {
	case s.LogFirst != "":
		return s.LogFirst
	case s.Then != nil:
		return ""
	}
	for _, all := range [][]Point{s.Blockers, s.Gaps} {
		for i := range all {
			if all[i].Next != "" {
				return all[i].Next
			}
		}
	}
	return ""
}

// uncovered is for how long the state may not cover the beginning or the end of the log before the first screen says so, if that does not leave verdicts unknown and is
// not a tenth of the log.
const uncovered = 5 * time.Minute

// manyUnknown is the share of verdicts that may be unknown before the first screen says so, in percent.
const manyUnknown = 5

// missesMuch reports whether the state misses so much of the log that the first screen has to say so.
func (r *Report) missesMuch(by time.Duration) bool {
	w := &r.Window
	return by >= uncovered || r.Verdicts.Unknown > 0 && w.From != nil && 10*by >= w.To.Sub(*w.From)
}

// Summary sums the report up.
func (r *Report) Summary() Summary {
	s := Summary{Title: r.title(), NoBindings: r.Readiness.NoBindings, Notes: len(r.Readiness.OtherWarnings())}
	if r.urgent() {
		s.Remarks = append(s.Remarks, "Incidents: "+r.firstIncident(fmt.Sprintf("%d open", r.incidentsBy()[incidents.Open]))+".")
	}
	if s.NoBindings {
		s.Remarks = append(s.Remarks, wording.NoBindingLeft)
	}
	for i := range r.Readiness.Doubts {
		d := &r.Readiness.Doubts[i]
		remark := capital(d.Message) + "."
		switch d.Code {
		case codes.WindowShort:
		case codes.LogEmpty, codes.LogWithoutNodes:
			s.LogFirst = wording.LogNodesFirst
		case codes.WindowEmpty:
			s.LogFirst = wording.WindowFirst
		case codes.LogUnread:
		case codes.StateBeginsLate:
			if !r.missesMuch(d.Params.Duration(codes.ParamBy)) {
				continue
			}
			remark += " " + wording.StateToCover
		case codes.StateEndsEarly:
			if !d.Decides() && !r.missesMuch(d.Params.Duration(codes.ParamBy)) {
				continue
			}
			remark += " " + wording.StateTooOld
		case codes.LinesUnreadable:
			if at := r.Events.MalformedAt; len(at) > 0 {
				remark = wording.UnreadableAt(remark, at[0].File, at[0].Line, at[0].Cause)
			}
		default:
			continue
		}
		s.Remarks = append(s.Remarks, remark)
		if !d.Decides() {
			s.Notes--
		}
	}
	expired := int64(0)
	for i := range r.Waivers {
		if r.Waivers[i].Expired {
			expired++
		}
	}
	if expired > 0 {
		s.Remarks = append(s.Remarks, wording.WaiversExpired(expired))
	}
	if v := &r.Verdicts; 100*v.Unknown >= manyUnknown*v.all() && v.Unknown > 0 {
		s.Remarks = append(s.Remarks, wording.ManyUnknown(v.Unknown, v.all()))
	}
	if len(r.Readiness.Clients) > 0 {
		s.Remarks = append(s.Remarks, wording.UnknownClient)
	}
	for i := range r.Readiness.Clients {
		s.Blockers = append(s.Blockers, r.Readiness.Clients[i].point())
	}
	for i := range r.Readiness.Identities {
		s.Blockers = append(s.Blockers, r.Readiness.Identities[i].point())
	}
	told := map[string]bool{}
	for i := range s.Blockers {
		told[s.Blockers[i].check] = true
	}
	var first, confined []Point
	counts := map[string]int64{}
	titles := map[string]string{}
	for _, c := range checks.All() {
		titles[c.Name] = c.Title()
	}
	seen, gaps := map[string]bool{}, 0 // those that the first answer has
	for i, q := range r.Questions() {
		for _, c := range q.Checks {
			if seen[c.Name] {
				continue
			}
			seen[c.Name] = true
			counts[c.State]++
			p := c.point(titles[c.Name])
			if p.confined = i > 0; p.confined {
				p.What = wording.ConfinementOnly(p.What)
				if p.short != "" {
					p.short = wording.ConfinementOnly(p.short)
				}
			} else if c.State == checks.Unproven.String() {
				gaps++
			}
			switch {
			case c.State == checks.Unproven.String():
				s.Gaps = append(s.Gaps, p)
			case c.State != checks.Failed.String() || told[c.Name]:
			case i == 0 && p.weight > 0:
				s.Blockers = append(s.Blockers, p)
			case i == 0:
				first = append(first, p)
			default:
				confined = append(confined, p)
			}
		}
	}
	slices.SortStableFunc(s.Blockers, func(a, b Point) int { return cmp.Compare(b.weight, a.weight) })
	s.Blockers = slices.Concat(first, s.Blockers, confined)
	if plan := r.Readiness.Plan; len(s.Blockers)-len(confined)+gaps == 0 && len(plan) > 0 {
		s.Then = &plan[0]
	}
	for _, q := range r.Questions() {
		s.Answers = append(s.Answers, q.answer(len(s.Blockers)-len(confined)))
	}
	if only := s.Answers[0].Only; only != "" {
		s.Remarks = slices.Insert(s.Remarks, 0, wording.OnlyOf(only))
	}
	s.Lines = r.lines(counts)
	return s
}

// title is what the report is of, when and how much.
func (r *Report) title() []string {
	out := []string{"nodetrail"}
	if r.Cluster != "" {
		out = append(out, wording.Fit(r.Cluster, titleName))
	}
	if w := &r.Window; w.From != nil {
		form := "2006-01-02 15:04"
		if w.To.Sub(*w.From) < time.Hour {
			form += ":05"
		}
		from, to := w.From.UTC().Format(form), w.To.UTC().Format(form)
		if day := len(time.DateOnly) + 1; from[:day] == to[:day] {
			to = to[day:]
		}
		out = append(out, from+" to "+to+" UTC")
	}
	return append(out, wording.Plurals(int64(len(r.Nodes)), "node"), wording.PluralOf(wording.Large(r.Events.Judged), r.Events.Judged, "request"))
}

// answer is the question's answer; blockers counts what stands in the way of the bindings' deletion.
func (q Question) answer(blockers int) Answer {
	a := Answer{Ask: wording.AskReady, Head: q.Head(), Class: q.Class()}
	var states [4]int64
	var failed []string
	for i := range q.Checks {
		state := slices.IndexFunc(checks.States(), func(s checks.State) bool { return s.String() == q.Checks[i].State })
		if states[state]++; checks.State(state) == checks.Failed {
			failed = append(failed, q.Checks[i].Name)
		}
	}
	gaps := plural(states[checks.Unproven], "gap")
	switch {
	case q.Name == checks.Confined.String():
		a.Ask = wording.AskConfined
		a.Counts = wording.Counts(plural(states[checks.Failed], "failed check"), gaps)
		a.Why = wording.Counts(wording.Named(plural(states[checks.Failed], "failed check"), failed), gaps)
	default:
		a.Counts = wording.Counts(plural(int64(blockers), "blocker"), gaps)
		a.Why = a.Counts
	}
	if a.Counts == "" {
		a.Counts = wording.Counts(plural(states[checks.Waived], "waived check"), plural(states[checks.Passed], "passed check"))
		a.Why = a.Counts
	}
	if len(q.OnlyNodes) > 0 {
		var names []string
		for _, name := range q.OnlyNodes[:min(unseenNamed, len(q.OnlyNodes))] {
			names = append(names, wording.Fit(name, titleName))
		}
		a.Only = wording.Some(names, len(q.OnlyNodes), unseenNamed)
	}
	return a
}

// lines are the results that are neither blockers nor gaps. counts are of checks, by state.
func (r *Report) lines(counts map[string]int64) []Line {
	var of []string
	for _, state := range []checks.State{checks.Passed, checks.Failed, checks.Unproven, checks.Waived} {
		of = append(of, fmt.Sprintf("%d %s", counts[state.String()], state))
	}
	out := []Line{{"Checks", wording.Counts(of...)}, {"Findings", "none"}}
	if len(r.Findings) > 0 {
		by := map[string]int64{}
		for i := range r.Findings {
			by[r.Findings[i].Severity]++
		}
		of = of[:0]
		for s := rules.Critical; s > rules.None; s-- {
			of = append(of, fmt.Sprintf("%s %s", wording.Thousands(by[s.String()]), s))
		}
		out[1].Text = wording.Counts(of...)
		if f := &r.Findings[0]; f.Severity != rules.Low.String() && !r.Readiness.NoBindings {
			out[1].Text += "; worst: " + f.Message
		}
	}
	if r.FindingsHidden > 0 {
		out[1].Text = wording.FindingsHidden(out[1].Text, int64(r.FindingsHidden))
	}
	if len(r.Incidents) > 0 && !r.urgent() {
		out = append(out, Line{"Incidents", r.firstIncident(r.incidentCounts())})
	}
	g, v := &r.Agreement, &r.Verdicts
	out = append(out, Line{"Agreement", wording.Agreement(g.Agree, g.Compared, g.Races.Agree, g.Races.Compared)})
	if v.Unknown > 0 {
		out = append(out, Line{"Unknown", wording.UnknownVerdicts(v.Unknown, v.all())})
	}
	var excess int64
	for i := range r.Nodes {
		excess += r.Nodes[i].Excess
	}
	return append(out, Line{"Denials", wording.DeniedByNode(v.Deny, excess)})
}

func (c *Client) point() Point {
	p := Point{
		Count: wording.Plurals(c.Requests, "request"), Last: c.Last, Next: suggestCommand, weight: c.Requests, check: checks.NothingDepends,
	}
	node := ""
	var kinds []string
	for i := range c.Needs {
		node = c.Needs[i].Node
		if s := needWords(&c.Needs[i]); !slices.Contains(kinds, s) {
			kinds = append(kinds, s)
		}
	}
	p.What = wording.Blocked(clientName(c.UserAgent), int64(c.Nodes), node, c.Binding)
	p.Detail = wording.Some(kinds, len(kinds)+c.More, listedKinds)
	return p
}

// clientName quotes a name that is no plain word.
func clientName(s string) string {
	if plainWord(s) {
		return s
	}
	return strconv.Quote(s)
}

func (d *Identity) point() Point {
	return Point{
		What: wording.WrongIdentity(d.Identity, d.Code), Count: wording.Plurals(d.Requests, "request"), Last: d.Last, Detail: d.Message,
		Next: wording.Or(nil).Next(&checks.Next{Code: checks.NextFixIdentities}), weight: d.Requests, check: checks.IdentitiesConform,
	}
}

func (c *Check) point(title string) Point {
	p := Point{What: wording.CheckSays(c.Name, title, c.State), Next: c.Next, check: c.Name}
	items, more := c.those(1, func(state string) bool { return state == c.State })
	for i := range items {
		p.Detail = items[i].Message
	}
	if p.Detail != "" {
		p.short = c.Name + ": " + p.Detail
	}
	if more > 0 {
		p.Detail += fmt.Sprintf(" (and %d more)", more)
	}
	if c.Name == checks.RacesDecided { // its items are requests
		p.weight = int64(len(items) + more)
	}
	if p.Next == "" {
		p.Next = wording.See(c.Page)
	}
	return p
}

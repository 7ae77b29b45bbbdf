package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/wording"
)

// Confinement says whether a stolen kubelet credential is confined to its node.
type Confinement struct {
	// Verdict is a checks.Answer: "confined", "confined with waivers", "not confined" or "not enough evidence".
	Verdict string `json:"verdict"`
	// Waivers is how many waivers the verdict rests on.
	Waivers int `json:"waivers"`
	// OnlyNodes are the nodes that the verdict is about; none stands for all.
	OnlyNodes []string `json:"onlyNodes,omitempty"`
	Checks    []Check  `json:"checks"`
}

// Check is what came of a check.
type Check struct {
	Name string `json:"name"`
	// Question is "ready" or "confined", or both.
	Question string `json:"question"`
	// State is "passed", "failed", "unproven" or "waived".
	State    string      `json:"state"`
	Expected int64       `json:"expected"`
	Seen     int64       `json:"seen"`
	Evidence []CheckItem `json:"evidence"`
	// More counts the items beyond maxItems.
	More int `json:"more"`
	// NextCode is the code of the next step and Next the sentence, "" for a check that passed.
	NextCode string `json:"nextCode,omitempty"`
	Next     string `json:"next,omitempty"`
	Page     string `json:"page"`
}

// CheckItem is one piece of a check's evidence.
type CheckItem struct {
	State    string     `json:"state"`
	Code     string     `json:"code"`
	Message  string     `json:"message"`
	Node     string     `json:"node,omitempty"`
	Server   string     `json:"server,omitempty"`
	Line     string     `json:"line,omitempty"`
	Request  string     `json:"request,omitempty"`
	Object   string     `json:"object,omitempty"`
	Client   string     `json:"client,omitempty"`
	Value    string     `json:"value,omitempty"`
	From     *time.Time `json:"from,omitempty"`
	To       *time.Time `json:"to,omitempty"`
	Expected int64      `json:"expected,omitempty"`
	Seen     int64      `json:"seen,omitempty"`
	Count    int64      `json:"count,omitempty"`
	AuditIDs []string   `json:"auditIDs,omitempty"`
}

// Waiver is one that was given.
type Waiver struct {
	Check   string    `json:"check"`
	Owner   string    `json:"owner"`
	Reason  string    `json:"reason"`
	Expires time.Time `json:"expires"`
	// Covers is how many items it covers: 0 for one that is to be taken away. Expired is whether its last day is over.
	Covers  int  `json:"covers"`
	Expired bool `json:"expired"`
}

// maxItems bounds the items of one check in a report. Those that do not pass come first.
const maxItems = 200

// prove answers both questions and puts the checks into the report. Nothing else decides whether a report says ready or confined.
func (r *Report) prove(f *Facts) {
	ready, confined := checks.Conclude(checks.Ready, f.Checks, f.Waivers), checks.Conclude(checks.Confined, f.Checks, f.Waivers)
	x := &r.Readiness
	x.Verdict, x.Ready, x.Waivers, x.Evidence = string(ready.Answer), ready.Good(false), ready.Waivers, "sufficient"
	x.Outdated, x.OnlyNodes, r.Confinement.OnlyNodes = f.Outdated, f.Only, f.Only
	if len(ready.Unproven) > 0 {
		x.Evidence = "insufficient"
	}
	r.Confinement.Verdict, r.Confinement.Waivers = string(confined.Answer), confined.Waivers
	x.Checks, r.Confinement.Checks = f.checks(&ready), f.checks(&confined)
	r.Waivers = make([]Waiver, 0, len(f.Waivers))
	for i := range f.Waivers {
		w := &f.Waivers[i]
		r.Waivers = append(r.Waivers, Waiver{w.Waiver.Check, w.Waiver.Owner, w.Waiver.Reason, w.Waiver.Expires, len(w.Covers), w.Expired})
	}
	r.Paste = paste(f)
	for _, q := range r.Questions() {
		for i := range q.Checks {
			r.beforeLog(&q.Checks[i], f.Words)
		}
	}
}

// beforeLog says of what nothing shows that the log begins later, where that is the reason: to change the cluster would not help.
func (r *Report) beforeLog(c *Check, words wording.Words) {
	if r.Window.From == nil || c.State != checks.Unproven.String() {
		return
	}
	all, some := c.More == 0, false
	for i := range c.Evidence {
		item := &c.Evidence[i]
		if item.State != c.State {
			continue
		}
		switch before := item.To != nil && item.From.Before(*item.To) && !item.To.After(*r.Window.From); checks.Code(item.Code) {
		case checks.CodeModeUnknown, checks.CodeVersionUnknown, checks.CodeRestrictionNotSeen:
			if all = all && before; before {
				item.Message, some = wording.BeforeLog(*item.From, *item.To), true
			}
		default:
			all = false
		}
	}
	if all && some {
		c.Next = words.Next(&checks.Next{Code: checks.NextGetLog})
	}
}

// checks are those of a question, each with the state that the answer rests on.
func (f *Facts) checks(v *checks.Verdict) []Check {
	out := []Check{}
	for _, c := range checks.Of(v.Question) {
		state := v.State(c.Name)
		at := slices.IndexFunc(f.Checks, func(r checks.Result) bool { return r.Check == c.Name })
		if at < 0 { // nobody asked
			out = append(out, f.check(&checks.Result{Check: c.Name, Evidence: []checks.Item{{Code: checks.CodeNotLookedAt}}}, &c, state))
			continue
		}
		out = append(out, f.check(&f.Checks[at], &c, state))
	}
	return out
}

// Good reports whether the bindings can be deleted: proven without a waiver, or, if they are accepted, with some.
func (x *Readiness) Good(acceptWaivers bool) bool { return good(x.Verdict, acceptWaivers) }

// Good reports whether a credential is confined: proven without a waiver, or, if they are accepted, with some.
func (x *Confinement) Good(acceptWaivers bool) bool { return good(x.Verdict, acceptWaivers) }

func good(answer string, acceptWaivers bool) bool {
	return (&checks.Verdict{Answer: checks.Answer(answer)}).Good(acceptWaivers)
}

// validFor is for how long the waivers hold that a report offers.
const validFor = 90 * 24 * time.Hour

// paste is a file of waivers that would cover all that can be waived, "" for none. Owners and reasons are empty, so that it is refused until somebody has put them in.
func paste(f *Facts) string {
	if f.Now.IsZero() {
		return ""
	}
	all := checks.WaiversFor(f.Checks, "", "", f.Now.UTC().Truncate(24*time.Hour).Add(validFor))
	if len(all) == 0 {
		return ""
	}
	text, err := checks.WaiverText(all)
	if err != nil {
		return ""
	}
	return text
}

func (f *Facts) check(r *checks.Result, c *checks.Check, state checks.State) Check {
	out := Check{
		Name: r.Check, Question: c.Questions.String(), State: state.String(), Expected: r.Expected, Seen: r.Seen, Evidence: []CheckItem{}, Page: c.Page(),
	}
	if r.Next.Code != "" {
		out.NextCode, out.Next = string(r.Next.Code), f.Words.Next(&r.Next)
	}
	for _, state := range states() {
		for i := range r.Evidence {
			if r.Evidence[i].State != state {
				continue
			}
			if len(out.Evidence) == maxItems {
				out.More++
				continue
			}
			out.Evidence = append(out.Evidence, f.item(&r.Evidence[i]))
		}
	}
	return out
}

func (f *Facts) item(i *checks.Item) CheckItem {
	out := CheckItem{
		State: i.State.String(), Code: string(i.Code), Message: f.Words.Check(i), Node: i.Node, Server: i.Server, Line: i.Line, Request: i.Request,
		Object: i.Object, Client: i.Client, Value: i.Value, Expected: i.Expected, Seen: i.Seen, Count: i.Count, AuditIDs: i.AuditIDs,
	}
	if !i.From.IsZero() {
		from, to := i.From.UTC(), i.To.UTC()
		out.From, out.To = &from, &to
	}
	return out
}

// Question is one of the two with its answer and its checks.
type Question struct {
	// Name is "ready" or "confined".
	Name  string `json:"name"`
	Title string `json:"title"`
	// Answer is a checks.Answer, Waivers is how many waivers it rests on.
	Answer  string `json:"answer"`
	Waivers int    `json:"waivers"`
	// OnlyNodes are the nodes that the answer is about; none stands for all.
	OnlyNodes []string `json:"onlyNodes,omitempty"`
	Checks    []Check  `json:"checks"`
}

// Questions are both, in their order.
func (r *Report) Questions() []Question {
	return []Question{r.Readiness.Question(), r.Confinement.Question()}
}

// Question is whether the bindings can be deleted.
func (x *Readiness) Question() Question {
	return Question{checks.Ready.String(), "Checks for deleting the bindings", x.Verdict, x.Waivers, x.OnlyNodes, x.Checks}
}

// Question is whether a credential is confined.
func (x *Confinement) Question() Question {
	return Question{checks.Confined.String(), "Checks for confined credentials", x.Verdict, x.Waivers, x.OnlyNodes, x.Checks}
}

// Head is the verdict as a title, such as "Ready with 2 waivers".
func (x *Readiness) Head() string { return x.Question().Head() }

// Means is the verdict in a sentence without its end, with how the checks came out.
func (x *Readiness) Means() string { return x.Question().Means() }

// Head is the answer as a title.
func (q Question) Head() string { return wording.Answer(checks.Answer(q.Answer), q.Waivers) }

// Means is the answer in a sentence, with how the checks came out.
func (q Question) Means() string {
	var c wording.CheckCounts
	for i := range q.Checks {
		switch q.Checks[i].State {
		case checks.Passed.String():
			c.Passed++
		case checks.Failed.String():
			c.Failed++
		case checks.Waived.String():
			c.Waived++
		default:
			c.Unproven++
		}
	}
	of := checks.Ready
	if q.Name == checks.Confined.String() {
		of = checks.Confined
	}
	return wording.Means(checks.Answer(q.Answer), of, q.OnlyNodes, c)
}

// Class is "yes", "no" or "maybe".
func (q Question) Class() string {
	switch {
	case good(q.Answer, true):
		return "yes"
	case q.Answer == string(checks.AnswerNotEnough):
		return "maybe"
	}
	return "no"
}

// Open are the checks that did not pass, the worst first.
func (q Question) Open() []Check {
	var out []Check
	for _, state := range states() {
		for i := range q.Checks {
			if c := &q.Checks[i]; state != checks.Passed && c.State == state.String() {
				out = append(out, *c)
			}
		}
	}
	return out
}

// Open are the items because of which the check does not pass, at most so many, and how many more there are.
func (c *Check) Open(most int) (items []CheckItem, more int) {
	return c.those(most, func(state string) bool { return state != checks.Passed.String() })
}

// those are the items in some states.
func (c *Check) those(most int, in func(state string) bool) (items []CheckItem, more int) {
	for i := range c.Evidence {
		if !in(c.Evidence[i].State) {
			continue
		}
		if len(items) == most {
			more++
			continue
		}
		items = append(items, c.Evidence[i])
	}
	if len(c.Evidence) == maxItems && len(items)+more == maxItems {
		more += c.More
	}
	return items, more
}

// wrong is what keeps a check from passing, in a line.
func (c *Check) wrong() string {
	items, more := c.Open(3)
	var out []string
	for i := range items {
		out = append(out, items[i].Message)
	}
	if more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(out, "; ")
}

// checks lists the checks of both questions: what is open about those that did not pass, and the names of the others. What belongs to both questions
// is written out once.
func (t Text) checks(b *strings.Builder, r *Report) {
	told := map[string]bool{}
	for _, q := range r.Questions() {
		fmt.Fprintf(b, "\n%s\n  %s: %s\n", t.paint(bold, q.Title), strings.ToUpper(q.Head()), q.Means())
		for _, state := range states() {
			for i := range q.Checks {
				if c := &q.Checks[i]; c.State == state.String() {
					t.check(b, c, told[c.Name])
					told[c.Name] = true
				}
			}
		}
	}
	if len(r.Waivers) > 0 {
		fmt.Fprintf(b, "\n%s\n", t.paint(bold, "Waivers"))
	}
	for i := range r.Waivers {
		w := &r.Waivers[i]
		fmt.Fprintf(b, "  %s  %s\n", w.Check, wording.Visible(w.say()))
	}
	if r.Paste != "" {
		fmt.Fprintf(b, "\n%s\n", t.paint(bold, "Waivers for what is unproven, to be filled in (--waive FILE)"))
		for line := range strings.Lines(r.Paste) {
			fmt.Fprintf(b, "  %s\n", wording.Visible(strings.TrimSuffix(line, "\n")))
		}
	}
}

// states are all, the worst first.
func states() []checks.State {
	return []checks.State{checks.Failed, checks.Unproven, checks.Waived, checks.Passed}
}

// check writes a check, and what is open about it unless it was told before.
func (t Text) check(b *strings.Builder, c *Check, told bool) {
	const most = 3
	figures := fmt.Sprintf("%s of %s %s", wording.Thousands(c.Seen), wording.Thousands(c.Expected), wording.CheckCounted(c.Name))
	if c.Expected == 0 {
		figures = "no data"
	}
	if told && c.State != checks.Passed.String() {
		figures = "see above"
	}
	fmt.Fprintf(b, "  %s %s  %s\n", t.paint(stateColour(c.State), fmt.Sprintf("%-8s", c.State)), c.Name, t.paint(dim, figures))
	if told {
		return
	}
	items, more := c.Open(most)
	for j := range items {
		fmt.Fprintf(b, "             %s\n", wording.Visible(items[j].Message))
	}
	if more > 0 {
		fmt.Fprintf(b, "             %s\n", t.paint(dim, fmt.Sprintf("and %d more (-o json has them)", more)))
	}
	if c.Next != "" {
		fmt.Fprintf(b, "             -> %s\n", c.Next)
	}
}

// say tells what a waiver is worth.
func (w *Waiver) say() string {
	s := fmt.Sprintf("by %s until %s: %s", w.Owner, w.Expires.Format(time.DateOnly), w.Reason)
	switch {
	case w.Expired:
		return s + "; it has expired"
	case w.Covers == 0:
		return s + "; it covers nothing"
	}
	return s + fmt.Sprintf("; it covers %s", plural(int64(w.Covers), "item"))
}

func stateColour(state string) string {
	switch state {
	case checks.Passed.String():
		return green
	case checks.Failed.String():
		return red
	}
	return yellow
}

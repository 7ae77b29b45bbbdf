package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/wording"
)

// Confinement says whether a stolen kubelet credential is confined to its node.
type Confinement struct {
	// Verdict is a checks.Answer: "confined", "confined with waivers", "not confined" or "not enough evidence".
	Verdict string  `json:"verdict"`
	Checks  []Check `json:"checks"`
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

// proven puts the checks into the report.
func (r *Report) proven(f *Facts) {
	r.Readiness.Checks, r.Confinement.Checks = []Check{}, []Check{}
	answer := checks.Conclude(checks.Confined, f.Checks, f.Waivers)
	r.Confinement.Verdict = string(answer.Answer)
	r.Waivers = make([]Waiver, 0, len(f.Waivers))
	for i := range f.Waivers {
		w := &f.Waivers[i]
		r.Waivers = append(r.Waivers, Waiver{w.Waiver.Check, w.Waiver.Owner, w.Waiver.Reason, w.Waiver.Expires, len(w.Covers), w.Expired})
	}
	if len(f.Checks) == 0 {
		return
	}
	answer = checks.Conclude(checks.Ready, f.Checks, f.Waivers)
	r.ByChecks = string(answer.Answer)
	for _, c := range checks.All() {
		for i := range f.Checks {
			if f.Checks[i].Check != c.Name {
				continue
			}
			one := f.check(&f.Checks[i], &c)
			if c.Questions&checks.Ready != 0 {
				r.Readiness.Checks = append(r.Readiness.Checks, one)
			}
			if c.Questions&checks.Confined != 0 {
				r.Confinement.Checks = append(r.Confinement.Checks, one)
			}
		}
	}
	r.Paste = paste(f, r.Window.To)
}

// validFor is for how long the waivers hold that a report offers.
const validFor = 90 * 24 * time.Hour

// paste is a file of waivers that would cover all that can be waived, "" for none. It is one that is read as it is; who answers for them and why
// is to be put in.
func paste(f *Facts, end *time.Time) string {
	if end == nil {
		return ""
	}
	all := checks.WaiversFor(f.Checks, wording.WaiverOwner, wording.WaiverReason, end.Add(validFor))
	if len(all) == 0 {
		return ""
	}
	text, err := checks.WaiverText(all)
	if err != nil {
		return ""
	}
	return text
}

func (f *Facts) check(r *checks.Result, c *checks.Check) Check {
	out := Check{
		Name: r.Check, Question: c.Questions.String(), State: r.State.String(), Expected: r.Expected, Seen: r.Seen, Evidence: []CheckItem{}, Page: c.Page(),
	}
	if r.Next.Code != "" {
		out.NextCode, out.Next = string(r.Next.Code), f.Words.Next(&r.Next)
	}
	for _, state := range []checks.State{checks.Failed, checks.Unproven, checks.Waived, checks.Passed} {
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

// question is one of the two with its checks, for the forms of a report.
type question struct {
	Title, Verdict string
	Checks         []Check
}

// questions are those that were asked.
func (r *Report) questions() []question {
	if len(r.Readiness.Checks) == 0 {
		return nil
	}
	return []question{
		{"Checks for deleting the bindings", r.ByChecks, r.Readiness.Checks},
		{"Checks for confined credentials", r.Confinement.Verdict, r.Confinement.Checks},
	}
}

// open are the items because of which the check does not pass, at most so many, and how many more there are.
func (c *Check) open(most int) (items []CheckItem, more int) {
	for i := range c.Evidence {
		if c.Evidence[i].State == checks.Passed.String() {
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
	items, more := c.open(3)
	var out []string
	for i := range items {
		out = append(out, items[i].Message)
	}
	if more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(out, "; ")
}

// passed counts the checks that passed, or are waived.
func (q *question) passed() (n int) {
	for i := range q.Checks {
		if s := q.Checks[i].State; s == checks.Passed.String() || s == checks.Waived.String() {
			n++
		}
	}
	return n
}

// summary is the verdict by the checks in a line.
func (q *question) summary() string {
	return fmt.Sprintf("%s: %s, %d of %s", q.Title, q.Verdict, q.passed(), plural(int64(len(q.Checks)), "check"))
}

// checks lists the checks of both questions.
func (t Text) checks(b *strings.Builder, r *Report) {
	const most = 3
	for _, q := range r.questions() {
		fmt.Fprintf(b, "\n%s\n", t.paint(bold, q.summary()))
		for i := range q.Checks {
			c := &q.Checks[i]
			fmt.Fprintf(b, "  %s %s  %s\n", t.paint(stateColour(c.State), fmt.Sprintf("%-8s", c.State)), c.Name, t.paint(dim, fmt.Sprintf("%d of %d", c.Seen, c.Expected)))
			items, more := c.open(most)
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

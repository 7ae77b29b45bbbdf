package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/exceptions"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
	"github.com/nodetrail/nodetrail/wording"
)

// Exception is one that was given, with what it covers.
type Exception struct {
	exceptions.Exception
	Expired bool `json:"expired"`
	// Findings are the groups of findings that it matches, Requests those of them; of one that is expired they are hidden by it no more.
	Findings int   `json:"findings"`
	Requests int64 `json:"requests"`
}

// ExceptionExpired is the rule of findings that an exception has expired which still matches something.
const ExceptionExpired = "exception-expired"

// except marks the findings that exceptions cover, and adds a finding for each exception that is expired and matches something still.
func (r *Report) except(set *exceptions.Set, now time.Time) {
	r.Exceptions = []Exception{}
	for _, e := range set.All() {
		r.Exceptions = append(r.Exceptions, Exception{Exception: e, Expired: e.Expired(now)})
	}
	for i := range r.Findings {
		f := &r.Findings[i]
		of := f.fields()
		for _, n := range set.Matches(&of) {
			e := &r.Exceptions[n]
			e.Findings++
			e.Requests += f.Count
			f.Excepted = f.Excepted || !e.Expired
		}
	}
	for i := range r.Exceptions {
		if e := &r.Exceptions[i]; e.Expired && e.Findings > 0 {
			r.Findings = append(r.Findings, Finding{
				Rule: ExceptionExpired, Reason: ExceptionExpired, Severity: rules.Medium.String(), Count: 1, First: e.Expires.UTC(), Last: e.Expires.UTC(), Params: codes.Params{}, Origins: (&tally.Origins{}).Filled(),
				AuditIDs: []string{}, Runbook: "docs/exceptions.md", Detail: fmt.Sprint(i),
				Message: fmt.Sprintf("the exception of %s for %s expired on %s and matches %s", e.Owner, e.Rule, e.Expires.UTC().Format(time.DateOnly), plural(int64(e.Findings), "finding")),
			})
		}
	}
	slices.SortStableFunc(r.Findings, compareFindings)
}

// fields are what an expression of an exception sees.
func (f *Finding) fields() exceptions.Finding {
	return exceptions.Of(&f.key, &tally.Group{Reason: f.Reason, Severity: severityOf(f), Params: f.Params, Origins: f.Origins, Allowed: f.Authorized, Succeeded: f.Allowed})
}

// PasteException is an exception for the finding, as YAML whose owner and reason are to be filled in. It holds for 90 days from now on.
func (f *Finding) PasteException(now time.Time) string {
	of := f.fields()
	return exceptions.Paste(&of, now.AddDate(0, 0, 90))
}

// ExceptedCounts says what exceptions hide, "" for nothing.
func (r *Report) ExceptedCounts() string {
	n, requests := int64(0), int64(0)
	for i := range r.Findings {
		if r.Findings[i].Excepted {
			n++
			requests += r.Findings[i].Count
		}
	}
	if n == 0 && len(r.Exceptions) == 0 {
		return ""
	}
	return fmt.Sprintf("%s cover %s (%s)", plural(int64(len(r.Exceptions)), "exception"), plural(n, "finding"), plural(requests, "request"))
}

// exceptions lists the exceptions that were given.
func (t Text) exceptions(b *strings.Builder, r *Report) {
	if len(r.Exceptions) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s  %s\n", t.paint(bold, "Exceptions"), r.ExceptedCounts())
	for i := range r.Exceptions {
		fmt.Fprintf(b, "  %s\n", wording.Visible(r.Exceptions[i].Say()))
	}
}

// Say is the exception in a line.
func (e *Exception) Say() string {
	what := plural(int64(e.Findings), "finding")
	switch {
	case e.Expired && e.Findings == 0:
		what = "expired, matches nothing: remove it"
	case e.Expired:
		what = "expired, matches " + what
	case e.Findings == 0:
		what = "matches nothing: remove it, or correct its expression"
	default:
		what = "covers " + what
	}
	match := ""
	if e.Match != "" {
		match = " (" + e.Match + ")"
	}
	return fmt.Sprintf("%s%s: %s; %s, until %s: %s", e.Rule, match, what, e.Owner, e.Expires.UTC().Format(time.DateOnly), e.Reason)
}

// Baseline compares a report with one of before.
type Baseline struct {
	// New and Still count the groups of findings that the one of before does not have, or with a lower severity, and those that it has.
	New   int `json:"new"`
	Still int `json:"still"`
	// Gone are those that only the one of before has.
	Gone []Finding `json:"gone"`
}

// ReadBaseline reads a report as JSON, for [Report.Compare].
func ReadBaseline(r io.Reader) (*Report, error) {
	var head struct {
		Findings       *[]Finding `json:"findings"`
		FindingsHidden int        `json:"findingsHidden"`
		Window         *Window    `json:"window"`
	}
	err := json.NewDecoder(r).Decode(&head)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, errors.New("the report is cut off")
	}
	if err != nil || head.Findings == nil || head.Window == nil {
		return nil, errors.New("it is not a report as JSON: make one with `nodetrail report -o json`")
	}
	if head.FindingsHidden > 0 {
		return nil, fmt.Errorf("filters left %s out of the report, which would seem new: make one without --namespace, --client, --rule and --severity", plural(int64(head.FindingsHidden), "finding"))
	}
	return &Report{Window: *head.Window, Findings: *head.Findings}, nil
}

// baselineKey is what makes a finding the same in two reports.
type baselineKey struct {
	rule, node, verb, group, resource, sub, namespace, name, agent, detail string
	reason                                                                 rules.Reason
	binding                                                                Binding
}

func (f *Finding) baselineKey() baselineKey {
	k := baselineKey{f.Rule, f.Node, f.Verb, f.APIGroup, f.Resource, f.Subresource, f.Namespace, f.Name, f.UserAgent, f.Detail, "", Binding{}}
	if rules.ByReason(f.Rule) {
		k.reason = f.Reason
	}
	if f.Binding != nil {
		k.binding = *f.Binding
	}
	return k
}

// Compare marks the findings that are new since a report of before, and says what is gone.
func (r *Report) Compare(before *Report) {
	had := map[baselineKey]rules.Severity{}
	for i := range before.Findings {
		f := &before.Findings[i]
		had[f.baselineKey()] = severityOf(f)
	}
	r.Baseline = &Baseline{Gone: []Finding{}}
	has := map[baselineKey]bool{}
	for i := range r.Findings {
		f := &r.Findings[i]
		was, there := had[f.baselineKey()]
		has[f.baselineKey()] = true
		if f.New = !there || severityOf(f) > was; f.New {
			r.Baseline.New++
		} else {
			r.Baseline.Still++
		}
	}
	for i := range before.Findings {
		if !has[before.Findings[i].baselineKey()] {
			r.Baseline.Gone = append(r.Baseline.Gone, before.Findings[i])
		}
	}
}

func severityOf(f *Finding) rules.Severity {
	s, err := rules.ParseSeverity(f.Severity)
	if err != nil {
		return rules.None
	}
	return s
}

// Failing are the findings of at least a severity that --fail-on looks at: none that an exception covers, and with a baseline only new ones.
func (r *Report) Failing(least rules.Severity) (n int, worst rules.Severity) {
	for i := range r.Findings {
		f := &r.Findings[i]
		if s := severityOf(f); s >= least && !f.Excepted && (r.Baseline == nil || f.New) {
			n++
			worst = max(worst, s)
		}
	}
	return n, worst
}

// baseline says what is new and lists it.
func (t Text) baseline(b *strings.Builder, r *Report) {
	if r.Baseline == nil {
		return
	}
	fmt.Fprintf(b, "\n%s  %d new, %d still there, %d gone\n", t.paint(bold, "Since the baseline"), r.Baseline.New, r.Baseline.Still, len(r.Baseline.Gone))
	const most = 10
	list := func(what string, all []*Finding) {
		for i, f := range all {
			if i == most {
				fmt.Fprintf(b, "  and %s (-o json has all)\n", plural(int64(len(all)-most), "more "+what+" finding"))
				return
			}
			fmt.Fprintf(b, "  %-4s  %-8s %s: %s\n", what, f.Severity, f.Rule, wording.Visible(f.Message))
		}
	}
	var fresh, gone []*Finding
	for i := range r.Findings {
		if r.Findings[i].New {
			fresh = append(fresh, &r.Findings[i])
		}
	}
	for i := range r.Baseline.Gone {
		gone = append(gone, &r.Baseline.Gone[i])
	}
	list("new", fresh)
	list("gone", gone)
}

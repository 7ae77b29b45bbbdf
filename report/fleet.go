package report

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/wording"
)

// Fleet is the clusters that are stored in one database.
type Fleet struct {
	// Now is when they were read.
	Now      time.Time      `json:"now"`
	Clusters []FleetCluster `json:"clusters"`
}

// FleetCluster is one cluster, as its own analyzers describe it.
type FleetCluster struct {
	// Name is the cluster's, "" for a store without one. Schema is where its store is; no two clusters have the same.
	Name        string      `json:"name"`
	Schema      string      `json:"schema"`
	Readiness   FleetAnswer `json:"readiness"`
	Confinement FleetAnswer `json:"confinement"`
	// Current is whether the answers are of the last FleetCurrent. At is when they were given, nil if never.
	Current bool       `json:"current"`
	At      *time.Time `json:"at"`
	// Incidents are those that are open. Nodes are the cluster's, or those that made requests where no state is given.
	Incidents int `json:"incidents"`
	Nodes     int `json:"nodes"`
	// Last is the time of the last request, nil if there is none.
	Last *time.Time `json:"last"`
	// Trouble says why the store cannot be read, in a sentence without its end; "" if it can.
	Trouble string `json:"trouble"`
}

// FleetCurrent is for how long an answer counts. Analyzers repeat it every minute. One that is older is no evidence for what is now.
const FleetCurrent = 5 * time.Minute

// FleetAnswer is the answer to one question.
type FleetAnswer struct {
	// Verdict is a checks.Answer; "not enough evidence" where no analyzer gave an answer that is current. Said is the last answer that was given, "" for none.
	Verdict string `json:"verdict"`
	Said    string `json:"said"`
	// Waivers, Failed and Unproven are those of the answer that was given.
	Waivers  int `json:"waivers"`
	Failed   int `json:"failed"`
	Unproven int `json:"unproven"`
}

// AnswerIn is the answer of a verdict, which is current or not. What is no answer to the question is not enough evidence.
func AnswerIn(q checks.Question, said string, waivers, failed, unproven int, current bool) FleetAnswer {
	a := FleetAnswer{Verdict: string(checks.AnswerNotEnough), Waivers: max(0, waivers), Failed: max(0, failed), Unproven: max(0, unproven)}
	for _, known := range q.Answers() {
		if said == string(known) {
			if a.Said = said; current {
				a.Verdict = said
			}
		}
	}
	return a
}

// Head is the answer as a title.
func (a FleetAnswer) Head() string { return wording.Answer(checks.Answer(a.Verdict), a.Waivers) }

// Class is "yes", "no" or "maybe".
func (a FleetAnswer) Class() string { return Question{Answer: a.Verdict}.Class() }

// Note says in a sentence without its end what is wrong with what is known of the cluster; "" for nothing.
func (c *FleetCluster) Note() string {
	switch {
	case c.Trouble != "":
		return c.Trouble
	case c.At == nil:
		return "no analyzer gave an answer yet"
	case !c.Current:
		return fmt.Sprintf("no analyzer gave an answer since %s; the last ones were %q and %q", wording.Stamp(*c.At), cmp.Or(c.Readiness.Said, "unknown"), cmp.Or(c.Confinement.Said, "unknown"))
	}
	return ""
}

// Title is what the cluster is called.
func (c *FleetCluster) Title() string {
	return cmp.Or(wording.Visible(c.Name), "(no name, schema "+wording.Visible(c.Schema)+")")
}

// FleetSummary says how many clusters are ready and confined.
func (f *Fleet) FleetSummary() string {
	ready, confined, incidents := 0, 0, 0
	for i := range f.Clusters {
		c := &f.Clusters[i]
		if c.Readiness.Class() == "yes" {
			ready++
		}
		if c.Confinement.Class() == "yes" {
			confined++
		}
		incidents += c.Incidents
	}
	return fmt.Sprintf("%s: %d ready, %d confined, %s open", wording.Plural(int64(len(f.Clusters)), "cluster"), ready, confined, wording.Plural(int64(incidents), "incident"))
}

// WriteFleet writes the clusters as JSON, if that is the form, or as text, a line each.
func (t Text) WriteFleet(w io.Writer, form string, f *Fleet) error {
	if form == "json" {
		if err := wording.WriteJSON(w, f); err != nil {
			return fmt.Errorf("writing the clusters: %w", err)
		}
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", f.FleetSummary())
	if len(f.Clusters) > 0 {
		b.WriteString("\n")
		tab := tabwriter.NewWriter(&b, 0, 4, 2, ' ', 0)
		fmt.Fprintln(tab, "CLUSTER\tREADY\tCONFINED\tOPEN INCIDENTS\tNODES\tLAST REQUEST\tNOTE")
		for i := range f.Clusters {
			c := &f.Clusters[i]
			last := "-"
			if c.Last != nil {
				last = wording.Stamp(*c.Last)
			}
			fmt.Fprintf(tab, "%s\t%s\t%s\t%d\t%d\t%s\t%s\n", c.Title(), c.Readiness.Head(), c.Confinement.Head(), c.Incidents, c.Nodes, last, cmp.Or(wording.Visible(c.Note()), "-"))
		}
		if err := tab.Flush(); err != nil {
			return fmt.Errorf("writing the clusters: %w", err)
		}
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("writing the clusters: %w", err)
	}
	return nil
}

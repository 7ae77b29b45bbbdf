package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/incidents"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/wording"
)

// SayIncidents returns incidents with their sentences and commands. w is English if nil.
func SayIncidents(all []incidents.Incident, w wording.Words) []incidents.Incident {
	w = wording.Or(w)
	out := make([]incidents.Incident, len(all))
	for i := range all {
		in := all[i]
		in.Timeline, in.Contain = slices.Clone(in.Timeline), slices.Clone(in.Contain)
		for j := range in.Timeline {
			m := &in.Timeline[j]
			m.Message = w.Say(m.Code, m.Params)
		}
		for j := range in.Contain {
			s := &in.Contain[j]
			s.Message, s.Commands = w.Say(s.Code, s.Params), containCommands(s, j+1)
		}
		out[i] = in
	}
	return out
}

// containCommands are the commands of a step, for a shell. What they write has the step's number: several bindings are not kept in one file.
func containCommands(s *incidents.Step, number int) []string {
	node := shellWord(s.Params.Text(codes.ParamNode))
	switch s.Code {
	case incidents.Drain:
		return []string{"kubectl cordon " + node, "kubectl drain " + node + " --ignore-daemonsets --delete-emptydir-data"}
	case incidents.RemovePods:
		return []string{"kubectl delete pods --all-namespaces --field-selector spec.nodeName=" + node}
	case incidents.RemoveRights:
		b := Binding{Kind: s.Params.Text(codes.ParamBindingKind), Namespace: s.Params.Text(codes.ParamBindingNamespace), Name: s.Params.Text(codes.ParamBinding)}
		return BindingCommands(b, fmt.Sprintf("binding-%d.yaml", number), nil)
	case incidents.DeleteToken:
		_, id, _ := strings.Cut(s.Params.Text(codes.ParamNode), "bootstrap:")
		return []string{"kubectl delete secret -n kube-system " + shellWord("bootstrap-token-"+id)}
	case incidents.Expiry:
		return []string{"openssl x509 -noout -enddate -in /var/lib/kubelet/pki/kubelet-client-current.pem"}
	case incidents.LookFurther:
		return []string{fmt.Sprintf("nodetrail reach --node %s --state JOURNAL --since %s --until %s AUDIT_LOG", node,
			s.Params.Time(rules.ParamSince).Truncate(time.Second).Format(time.RFC3339), s.Params.Time(rules.ParamUntil).Add(time.Second).Format(time.RFC3339))}
	}
	return []string{}
}

// WhoseCredential says whose credential an incident is about.
func WhoseCredential(in *incidents.Incident) string {
	switch in.Kind {
	case incidents.OfNode:
		return "node " + in.Credential
	case incidents.OfBootstrap:
		return "bootstrap token " + in.Credential
	}
	return "user " + in.Credential
}

// IncidentCounts says what was asked for and reached, such as "40 requests succeeded, 500 were refused or failed".
func IncidentCounts(in *incidents.Incident) string {
	if in.Requests == 0 {
		return wording.Plurals(int64(in.Findings), "finding") + ", about no single object"
	}
	be := "were"
	if in.Refused == 1 {
		be = "was"
	}
	return fmt.Sprintf("%s succeeded, %s %s refused or failed", wording.Plurals(in.Succeeded, "request"), wording.Thousands(in.Refused), be)
}

// RowText is a row in short: the verb and the object.
func RowText(r *incidents.Row) string {
	if r.Wide {
		return "further requests"
	}
	return needWords(&Need{Verb: r.Verb, APIGroup: r.APIGroup, Resource: r.Resource, Subresource: r.Subresource, Namespace: r.Namespace, Name: r.Name})
}

// ObjectText names an object that is to be rotated.
func ObjectText(o *incidents.Object) string {
	switch {
	case o.Subresource == "token":
		return "tokens of service account " + joinName(o.Namespace, o.Name)
	case o.Name != "":
		return "secret " + joinName(o.Namespace, o.Name)
	case o.Namespace != "":
		return "all secrets in namespace " + o.Namespace
	}
	return "all secrets"
}

// listedIncidents is how many incidents the report lists, listedRows how many requests that succeeded are listed of one.
const (
	listedIncidents = 5
	listedRows      = 50
)

// incidents lists the open incidents, and counts the others.
func (t Text) incidents(b *strings.Builder, r *Report) {
	if len(r.Incidents) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s  %s\n", t.paint(bold, "Incidents"), r.incidentCounts())
	for i := range r.Incidents {
		if i == listedIncidents {
			fmt.Fprintf(b, "  and %s\n", plural(r.incidentCount()-int64(i), "more incident"))
			break
		}
		t.incidentHead(b, &r.Incidents[i], "  ")
	}
	fmt.Fprintf(b, "  next: nodetrail report --incidents (or analyze --incidents) shows each with its timeline and what to do\n")
}

// incidentCounts says how many incidents are in each state.
func (r *Report) incidentCounts() string {
	counts := r.incidentsBy()
	return fmt.Sprintf("%d open, %d quiet, %d closed", counts[incidents.Open], counts[incidents.Quiet], counts[incidents.Closed])
}

// incidentCount is how many incidents there are, listed or not.
func (r *Report) incidentCount() (n int64) {
	for _, of := range r.incidentsBy() {
		n += of
	}
	return n
}

// incidentsBy is how many incidents are in each state.
func (r *Report) incidentsBy() map[incidents.State]int64 {
	counts := map[incidents.State]int64{}
	for i := range r.Incidents {
		counts[r.Incidents[i].State]++
	}
	for state, n := range r.IncidentsMore {
		counts[state] += int64(n)
	}
	return counts
}

// firstIncident says which incident to look at first, after how many there are. There is one.
func (r *Report) firstIncident(counts string) string {
	first := &r.Incidents[0]
	return fmt.Sprintf("%s; look first at %s (%s); see --incidents", counts, wording.Visible(WhoseCredential(first)), first.Severity)
}

// urgent reports whether a critical incident is open: the first screen then says so before anything else.
func (r *Report) urgent() bool {
	return len(r.Incidents) > 0 && r.Incidents[0].State == incidents.Open && r.Incidents[0].Severity == rules.Critical.String()
}

// incidentHead is an incident in three lines.
func (t Text) incidentHead(b *strings.Builder, in *incidents.Incident, indent string) {
	fmt.Fprintf(b, "%s%s %-6s  %s\n", indent, t.paint(severityColour(in.Severity), fmt.Sprintf("%-8s", in.Severity)), in.State, t.paint(bold, "credential of "+wording.Visible(WhoseCredential(in))))
	fmt.Fprintf(b, "%s                 %s\n", indent, IncidentCounts(in))
	fmt.Fprintf(b, "%s                 %s to %s\n", indent, stamp(in.First), stamp(in.Last))
	if len(in.Addresses) > 0 {
		fmt.Fprintf(b, "%s                 from %s\n", indent, wording.Visible(someSeen(in.Addresses, 3)))
	}
}

// someSeen lists the first values.
func someSeen(all []incidents.Seen, most int) string {
	values := make([]string, len(all))
	for i := range all {
		values[i] = all[i].Value
	}
	return wording.Some(values, len(values), most)
}

// WriteIncidents writes the incidents in full, and says how many more there are.
func (t Text) WriteIncidents(w io.Writer, r *Report) error {
	var b strings.Builder
	all := r.Incidents
	if len(all) == 0 {
		fmt.Fprintf(&b, "No incidents.\n")
	}
	for i := range all {
		if i > 0 {
			b.WriteByte('\n')
		}
		t.incident(&b, &all[i])
	}
	if more := r.incidentCount() - int64(len(all)); more > 0 {
		fmt.Fprintf(&b, "\nand %s\n", plural(more, "more incident"))
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("writing the incidents: %w", err)
	}
	return nil
}

func (t Text) incident(b *strings.Builder, in *incidents.Incident) {
	fmt.Fprintf(b, "%s\n", t.paint(bold, "Incident "+in.ID))
	t.incidentHead(b, in, "  ")
	if len(in.UserAgents) > 0 {
		fmt.Fprintf(b, "                   user agents %s\n", wording.Visible(someSeen(in.UserAgents, 5)))
	}
	fmt.Fprintf(b, "                   rules %s\n", strings.Join(in.Rules, ", "))
	if in.Excepted > 0 {
		fmt.Fprintf(b, "                   exceptions cover %d of %d findings\n", in.Excepted, in.Findings)
	}
	fmt.Fprintf(b, "\n  %s\n", t.paint(bold, "Timeline"))
	for i := range in.Timeline {
		m := &in.Timeline[i]
		fmt.Fprintf(b, "    %s  %s\n", stamp(m.At), wording.Visible(m.Message))
	}
	list := func(title string, n int, row func(int) string, most int) {
		if n == 0 {
			return
		}
		fmt.Fprintf(b, "\n  %s\n", t.paint(bold, title))
		for i := range min(n, most) {
			fmt.Fprintf(b, "    %s\n", wording.Visible(row(i)))
		}
		if n > most {
			fmt.Fprintf(b, "    and %s (-o json)\n", plural(int64(n-most), "more row"))
		}
	}
	lists := [3][]*incidents.Row{} // succeeded, refused, related
	for i := range in.Reached {
		r, at := &in.Reached[i], 1
		switch {
		case r.Beside:
			at = 2
		case r.Succeeded:
			at = 0
		}
		lists[at] = append(lists[at], r)
	}
	for i, title := range []string{"Succeeded", "Refused or failed", "Also in that time (may be normal)"} {
		list(title, len(lists[i]), func(n int) string {
			r := lists[i][n]
			return fmt.Sprintf("%-8s  %s  x%d  (%s)", r.Severity, RowText(r), r.Requests, strings.Join(r.Rules, ", "))
		}, []int{listedRows, 10, 10}[i])
	}
	if in.More > 0 {
		fmt.Fprintf(b, "    and %s (-o json has the first 500)\n", plural(int64(in.More), "more row"))
	}
	list("Rotate", len(in.Rotate), func(i int) string { return ObjectText(&in.Rotate[i]) }, 200)
	fmt.Fprintf(b, "\n  %s\n", t.paint(bold, "Contain"))
	for i := range in.Contain {
		s := &in.Contain[i]
		fmt.Fprintf(b, "    %d. %s.\n", i+1, wording.Visible(s.Message))
		for _, c := range s.Commands {
			fmt.Fprintf(b, "         %s\n", c)
		}
	}
}

// WriteIncidentsJSON writes the incidents, and how many more there are, as an indented JSON object with the keys that they have in a report.
func WriteIncidentsJSON(w io.Writer, r *Report) error {
	err := wording.WriteJSON(w, struct {
		Incidents []incidents.Incident    `json:"incidents"`
		More      map[incidents.State]int `json:"incidentsMore,omitempty"`
	}{r.Incidents, r.IncidentsMore})
	if err != nil {
		return fmt.Errorf("writing the incidents: %w", err)
	}
	return nil
}

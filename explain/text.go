package explain

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// maxTextNodes and maxTextRows bound what the text lists of nodes and paths; JSON has more.
const (
	maxTextNodes   = 10
	maxTextGrants  = 10
	maxTextChanges = 20
	maxTextRows    = 50
)

// headline is in one line what became of the request: how the API server answered where the log or the finding tells, or else the verdict.
func (ex *Explanation) headline() string {
	if answer := ex.answer(); answer != "" {
		return ex.headed(answer)
	}
	return ex.headed(ex.verdictLine())
}

// answer says what the API server did; it is empty where nothing tells.
func (ex *Explanation) answer() string {
	switch {
	case ex.Event != nil:
		return ex.Event.answer()
	case ex.Outcome != nil:
		return ex.Outcome.answer()
	}
	return ""
}

// verdictLine says whose verdict it is: RBAC may have allowed what the Node authorizer denies.
func (ex *Explanation) verdictLine() string { return "Node authorizer: " + ex.verdict() }

// headed is a line that begins with an answer and names the request.
func (ex *Explanation) headed(answer string) string {
	return fmt.Sprintf("%s  %s by %s at %s", answer, ex.Request.What(), ex.Request.Who(), clock(ex.At))
}

// verdict is the Node authorizer's.
func (ex *Explanation) verdict() string {
	doubt := ""
	switch {
	case ex.Race:
		doubt = " (race)"
	case ex.StateEnd != nil && !ex.Static && (ex.Verdict == "allow" || ex.Verdict == "deny"):
		doubt = " if nothing changed since " + clock(*ex.StateEnd)
	}
	verdict := strings.ToUpper(ex.Verdict)
	if ex.Verdict == "none" {
		verdict = "NO NODE"
	}
	return verdict + doubt
}

// answer says what the API server did with the request, such as "ALLOWED by RBAC, 200 OK".
func (e *Event) answer() string {
	out := map[string]string{"allow": "ALLOWED", "forbid": "REFUSED"}[e.Decision]
	switch {
	case out == "" && e.Code == 0:
		return "NO ANSWER IN THE LOG"
	case out == "":
		out = "ANSWERED"
	case e.Decision == "allow" && e.Authorizer != "":
		out += " by " + authorizerWords[e.Authorizer]
	}
	if e.Code != 0 {
		if out != "ANSWERED" {
			out += ","
		}
		out += strings.TrimRight(fmt.Sprintf(" %d %s", e.Code, http.StatusText(int(e.Code))), " ")
	}
	return out
}

// authorizerWords name authorizers.
var authorizerWords = map[string]string{"node": "Node", "rbac": "RBAC", "other": "another authorizer"}

// rbacWords say what RBAC says, one sentence for each way.
func (ex *Explanation) rbacWords() []string {
	switch {
	case len(ex.RBAC.Grants) > 0:
		out := make([]string, 0, len(ex.RBAC.Grants))
		for i := range ex.RBAC.Grants {
			g := &ex.RBAC.Grants[i]
			out = append(out, fmt.Sprintf("RBAC: allowed by %s, %s.", g, g.when()))
		}
		return out
	case ex.RBAC.Known:
		return []string{"RBAC: no binding allows it."}
	}
	return []string{"RBAC: not known, the state has no roles and bindings of then."}
}

// lines writes lines of text, of which it makes what names may hold visible.
type lines struct{ b strings.Builder }

func (l *lines) add(format string, args ...any) {
	l.b.WriteString(visible(fmt.Sprintf(format, args...)))
	l.b.WriteByte('\n')
}

func (l *lines) head(s string) { l.b.WriteString("\n" + s + "\n") }

func (l *lines) writeTo(w io.Writer, what string) error {
	if _, err := io.WriteString(w, l.b.String()); err != nil {
		return fmt.Errorf("writing %s: %w", what, err)
	}
	return nil
}

// WriteText writes the explanation for a person.
func (ex *Explanation) WriteText(w io.Writer) error {
	l := &lines{}
	l.add("%s", ex.headline())
	if ex.answer() != "" {
		l.add("  %s", ex.verdictLine())
	}
	l.add("  %s", ex.Summary)
	if ex.Verdict == "deny" {
		if ex.Reason != "" {
			l.add("  reason: %s", ex.Reason)
		} else {
			l.add("  reason: none given: no static rule for nodes allows it")
		}
	}
	if e := ex.Event; e != nil {
		l.add("  audit event %s: %s", e.AuditID, e.words())
	}
	for _, s := range ex.Words {
		l.add("  %s", s)
	}
	if ex.NodeRestriction != nil {
		for _, s := range ex.NodeRestriction.Words {
			l.add("  %s", s)
		}
	}
	if ex.Verdict == "unknown" {
		l.add("  Give state from before then: a journal that begins earlier (--state), or an audit log with bodies (--audit-log).")
	}
	for _, s := range ex.Notes {
		l.add("  %s", s)
	}
	ex.textDrawing(l)
	ex.textHistory(l)
	ex.textRBAC(l)
	ex.textOthers(l)
	if len(ex.Consequences) > 0 {
		l.head("If the binding is deleted")
		for i := range ex.Consequences {
			c := &ex.Consequences[i]
			l.add("  without %s: %s", c.Without, c.Words)
		}
	}
	return l.writeTo(w, "the explanation")
}

func (e *Event) words() string {
	var parts []string
	switch {
	case e.Decision == "":
		parts = append(parts, "the log does not say what the API server decided")
	case e.Authorizer != "":
		parts = append(parts, fmt.Sprintf("the API server decided %s, by %s", e.Decision, authorizerWords[e.Authorizer]))
	default:
		parts = append(parts, "the API server decided "+e.Decision)
	}
	if e.Reason != "" {
		parts[0] += " (" + e.Reason + ")"
	}
	if e.Code != 0 {
		parts = append(parts, fmt.Sprintf("code %d", e.Code))
	}
	if e.UserAgent != "" {
		parts = append(parts, "user agent "+e.UserAgent)
	}
	if len(e.SourceIPs) > 0 {
		parts = append(parts, "from "+strings.Join(e.SourceIPs[:min(len(e.SourceIPs), 5)], ", "))
	}
	return strings.Join(parts, "; ")
}

func (ex *Explanation) textHistory(l *lines) {
	h := &ex.History
	if ex.Object == nil {
		return
	}
	l.head(fmt.Sprintf("What changed within %s before and after", shortDuration(ex.At.Sub(h.From))))
	if len(h.Changes) == 0 {
		l.add("  nothing, as far as the state knows")
		return
	}
	lo, hi := h.around(maxTextChanges)
	listed := func(i int) bool { return i >= lo && i < hi || h.Changes[i].Nearest != "" || h.Changes[i].Outside }
	earlier, later := h.Earlier, h.Later
	for i := range h.Changes {
		if !listed(i) {
			if h.Changes[i].Time.After(ex.At) {
				later++
			} else {
				earlier++
			}
		}
	}
	if earlier > 0 {
		l.add("  %s before", plural(earlier, "further change"))
	}
	now := false
	for i := range h.Changes {
		c := &h.Changes[i]
		if !now && c.Time.After(ex.At) {
			l.add("  %s  %9s  the request", moment(ex.At), "")
			now = true
		}
		if !listed(i) {
			continue
		}
		outside := ""
		if c.Outside {
			outside = ", outside of the window"
		}
		l.add("  %s  %9s  %s  (%s%s)", moment(c.Time), offset(c.Time.Sub(ex.At)), c.Words, c.source(), outside)
	}
	if !now {
		l.add("  %s  %9s  the request", moment(ex.At), "")
	}
	if later > 0 {
		l.add("  %s after", plural(later, "further change"))
	}
}

// around is the range of the changes nearest to the instant, as many as given.
func (h *History) around(most int) (lo, hi int) {
	middle := 0
	for i := range h.Changes {
		if h.Changes[i].Nearest == "before" || h.Changes[i].Nearest == "after" {
			middle = i
			break
		}
	}
	lo = max(0, min(middle-most/2, len(h.Changes)-most))
	return lo, min(len(h.Changes), lo+most)
}

func (c *Change) source() string {
	s := map[string]string{"audit": "audit log", "watch": "seen by a watch", "object": "the object's own timestamp"}[c.Source]
	if d := c.Until.Sub(c.Time); d > 0 {
		s += ", up to " + shortDuration(d) + " later"
	}
	return s
}

func offset(d time.Duration) string {
	if d < 0 {
		return "-" + shortDuration(-d)
	}
	return "+" + shortDuration(d)
}

// shortDuration is a duration with three digits or so.
func shortDuration(d time.Duration) string {
	switch {
	case d >= time.Hour:
		d = d.Round(time.Minute)
	case d >= time.Minute:
		d = d.Round(time.Second)
	case d >= time.Second:
		d = d.Round(10 * time.Millisecond)
	case d >= time.Millisecond:
		d = d.Round(100 * time.Microsecond)
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func (ex *Explanation) textRBAC(l *lines) {
	l.head("RBAC")
	for i, s := range ex.rbacWords() {
		if i == maxTextGrants {
			l.add("  and %s more", plural(len(ex.RBAC.Grants)-i+ex.RBAC.More, "way"))
			break
		}
		l.add("  %s", s)
	}
	for i := range ex.RBAC.Before[:min(3, len(ex.RBAC.Before))] {
		l.add("  before: %s, %s", &ex.RBAC.Before[i], ex.RBAC.Before[i].when())
	}
	for i := range ex.RBAC.After[:min(3, len(ex.RBAC.After))] {
		l.add("  after: %s, %s", &ex.RBAC.After[i], ex.RBAC.After[i].when())
	}
}

func (ex *Explanation) textOthers(l *lines) {
	l.head("Who else can")
	for i := range ex.Others.Nodes {
		o := &ex.Others.Nodes[i]
		if i == maxTextNodes {
			l.add("  and %s more", plural(len(ex.Others.Nodes)-i+ex.Others.More, "node"))
			break
		}
		more := ""
		if o.Paths > 1 {
			more = fmt.Sprintf(", and by %s", plural(o.Paths-1, "further path"))
		}
		l.add("  node %s by %s, %s%s", o.Node, o.Path.String(), lifetime(o.Path.From, o.Path.To), more)
	}
	if ex.Object != nil && len(ex.Others.Nodes) == 0 {
		other, known := " other", ""
		if ex.Verdict == "none" {
			other = ""
		}
		if !ex.Others.Known {
			known = ", as far as the state knows"
		}
		l.add("  no%s node%s", other, known)
	}
	ex.Subjects.text(l)
}

// text lists the subjects, one line for each binding.
func (s *Subjects) text(l *lines) {
	switch {
	case len(s.Grants) == 0 && s.Known:
		l.add("  nobody by RBAC")
	case len(s.Grants) == 0:
		l.add("  by RBAC: not known")
	}
	n := 0
	for i := 0; i < len(s.Grants); {
		g, k := &s.Grants[i], i
		var names []string
		for ; k < len(s.Grants) && s.Grants[k].Binding == g.Binding; k++ {
			if len(names) < 5 {
				names = append(names, s.Grants[k].Subject.String())
			}
		}
		if rest := k - i - len(names); rest > 0 {
			names = append(names, fmt.Sprintf("%d more", rest))
		}
		if n++; n > maxTextGrants {
			l.add("  and %s more by RBAC", plural(len(s.Grants)-i+s.More, "subject"))
			return
		}
		l.add("  %s by %s of %s", strings.Join(names, ", "), g.Binding, g.Role)
		i = k
	}
	if s.More > 0 {
		l.add("  and %s more by RBAC", plural(s.More, "subject"))
	}
}

// resource is what the reference names as arguments do.
func (o *ObjectRef) resource() string {
	if o.APIGroup == "" {
		return o.Resource
	}
	return o.Resource + "." + o.APIGroup
}

func (r *Reach) headline() string {
	name := nameOf(Step{Namespace: r.Object.Namespace, Name: r.Object.Name})
	when := ""
	switch {
	case !r.From.IsZero() && !r.To.IsZero():
		when = fmt.Sprintf(" from %s to %s", clock(r.From), clock(r.To))
	case !r.From.IsZero():
		when = " since " + clock(r.From)
	case !r.To.IsZero():
		when = " until " + clock(r.To)
	}
	return fmt.Sprintf("Who can reach %s %s%s", r.Object.resource(), name, when)
}

// summary is how many nodes there are.
func (r *Reach) summary() string {
	switch {
	case r.Kind == "":
		return "It is not in the graph of the Node authorizer."
	case r.Nodes == 0:
		return "No node could reach it."
	}
	return fmt.Sprintf("%s could reach it, by %s.", plural(r.Nodes, "node"), plural(len(r.Rows)+r.More, "path"))
}

// WriteText writes who can reach the object, for a person.
func (r *Reach) WriteText(w io.Writer) error {
	l := &lines{}
	l.add("%s", r.headline())
	l.add("  %s", r.summary())
	for _, s := range r.Words {
		l.add("  %s", s)
	}
	for i := range r.Rows {
		if i == maxTextRows {
			l.add("  and %s more", plural(len(r.Rows)-i+r.More, "path"))
			break
		}
		l.add("  node %s by %s, %s", r.Rows[i].Node, r.Rows[i].Path.String(), lifetime(r.Rows[i].Path.From, r.Rows[i].Path.To))
	}
	l.head("Who has access through RBAC")
	r.Subjects.text(l)
	return l.writeTo(w, "who can reach the object")
}

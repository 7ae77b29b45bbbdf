package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
)

// Verdict is what is said of one request, or expected to be.
type Verdict struct {
	// ID is the auditID; with an ending of #* it stands for all copies of a repeated line.
	ID string
	// Verdict is allow, deny, unknown, or none for a request of who is no node.
	Verdict string
	Race    bool
	// Observed is the Node authorizer's verdict by the annotations, allow, deny or empty.
	Observed string
	// Reason and Detail are as in a verdict line.
	Reason, Detail string
	// Findings are the rules with the severity, as in "rbac-excess-access(high)", in the order of the rules.
	Findings []string
}

// VerdictOf copies a judgement into the form in which it is compared.
func VerdictOf(j *pipeline.Judgement) Verdict {
	v := Verdict{
		ID: strings.Clone(j.Event.AuditID), Verdict: j.Answer.Verdict.String(), Race: j.Answer.Race,
		Reason: strings.Clone(j.Reason()), Detail: j.Detail(),
	}
	if j.Answer.Verdict == nodeauthz.NotNode {
		v.Verdict = "none"
	}
	if o := j.Observed.NodeVerdict; o == nodeauthz.Allow || o == nodeauthz.Deny {
		v.Observed = o.String()
	}
	for i := range j.Findings {
		f := &j.Findings[i]
		v.Findings = append(v.Findings, fmt.Sprintf("%s(%s)", f.Finding.Rule, f.Severity))
	}
	return v
}

// Collapse joins neighbours that are copies of one line and have the same verdict.
func Collapse(all []Verdict) []Verdict {
	var out []Verdict
	for _, v := range all {
		if base, _, ok := strings.Cut(v.ID, "#"); ok {
			v.ID = base + "#*"
			if n := len(out); n > 0 && out[n-1].String() == v.String() {
				continue
			}
		}
		out = append(out, v)
	}
	return out
}

// String returns the verdict as a line of a want section.
func (v *Verdict) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", v.ID, v.Verdict)
	if v.Race {
		b.WriteString(" race")
	}
	for _, x := range []struct{ key, value string }{{"reason", v.Reason}, {"detail", v.Detail}} {
		if x.key == "reason" && v.Observed != "" {
			b.WriteString(" observed=" + v.Observed)
		}
		if x.value != "" {
			fmt.Fprintf(&b, " %s=%s", x.key, strconv.Quote(x.value))
		}
	}
	if len(v.Findings) > 0 {
		b.WriteString(" findings=" + strings.Join(v.Findings, ","))
	}
	return b.String()
}

// ParseVerdict reads what String writes.
func ParseVerdict(line string) (v Verdict, err error) {
	words, err := cutWords(line)
	if err != nil {
		return v, err
	}
	if len(words) < 2 || !strings.HasSuffix(words[0].value, ":") || !slices.Contains([]string{"allow", "deny", "unknown", "none"}, words[1].value) {
		return v, fmt.Errorf("%.80q is not as in %q", line, "e1: deny race observed=deny reason=\"…\" findings=rule(severity)")
	}
	v.ID, v.Verdict = strings.TrimSuffix(words[0].value, ":"), words[1].value
	for _, w := range words[2:] {
		switch {
		case w.key == "" && w.value == "race" && !w.quoted:
			v.Race = true
		case w.key == "observed" && (w.value == "allow" || w.value == "deny"):
			v.Observed = w.value
		case w.key == "reason":
			v.Reason = w.value
		case w.key == "detail":
			v.Detail = w.value
		case w.key == "findings" && w.value != "":
			v.Findings = strings.Split(w.value, ",")
		default:
			return v, fmt.Errorf("a verdict has no %q", w.key+"="+w.value)
		}
	}
	return v, nil
}

package days

import (
	"slices"
	"strings"
)

// Stages are those at which an API server makes events of a request.
func Stages() []string { return []string{StageReceived, StageStarted, StageComplete, StagePanic} }

// OmitStages is the day as API servers log it whose audit policy leaves out those stages, as a whole or, if rules is true, in each of its rules. The day must
// have a policy, and is left as it is.
func OmitStages(day *Day, omit []string, rules bool) (*Day, error) {
	c := day.copyOf()
	line := "omitStages: [" + strings.Join(omit, ", ") + "]\n"
	c.Policy = strings.Replace(day.Policy, "omitStages: [RequestReceived]\n", line, 1)
	if rules {
		head, rest, _ := strings.Cut(strings.Replace(day.Policy, "omitStages: [RequestReceived]\n", "", 1), "\nrules:\n")
		lines := strings.SplitAfter(rest, "\n")
		for i, l := range lines {
			if strings.HasPrefix(l, "- level: ") && !strings.HasPrefix(l, "- level: None") {
				lines[i] = l + "  " + line
			}
		}
		c.Policy = head + "\nrules:\n" + strings.Join(lines, "")
	}
	seen := map[string]bool{}
	for _, e := range day.Events {
		if seen[e.AuditID] || e.Received.Before(day.From) {
			continue
		}
		seen[e.AuditID] = true
		r := *e
		r.Stage, r.Staged, r.Code, r.Message, r.Reason, r.Decision, r.DecisionReason, r.Issued = StageReceived, e.Received, 0, "", "", "", "", ""
		r.Request, r.Impersonated = nil, nil
		c.Events = append(c.Events, &r)
	}
	sortEvents(c.Events)
	var err error
	c.Events, err = logged(c.Policy, slices.Clone(c.Events))
	return c, err
}

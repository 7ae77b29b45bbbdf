package explain

import (
	"slices"

	"github.com/nodetrail/nodetrail/tally"
	"github.com/nodetrail/nodetrail/wording"
)

// Outcome is how the API server answered the requests of a finding, of which the request is the latest. Nothing tells which answer that one got.
type Outcome struct {
	// Count is how many requests there were.
	Count int64 `json:"count"`
	// Succeeded says that one of them succeeded, Authorized that one passed authorization.
	Succeeded  bool `json:"succeeded"`
	Authorized bool `json:"authorized"`
	// Answers are the HTTP statuses; 0 stands for requests of which the log has no response.
	Answers []int32 `json:"answers"`
	// Binding is the one that the finding names; nil if it names none.
	Binding *Binding `json:"binding"`
}

// OutcomeOf returns how the API server answered the requests of a finding. The binding has no name if the finding names none.
func OutcomeOf(count int64, succeeded, authorized bool, answers []int32, binding Binding) *Outcome {
	o := &Outcome{Count: count, Succeeded: succeeded, Authorized: authorized, Answers: answers}
	if binding.Name != "" {
		o.Binding = &binding
	}
	return o
}

// answer says what the API server did, such as "ALLOWED by RBAC, 200 OK"; it is empty where nothing tells.
func (o *Outcome) answer() string {
	refused := slices.Contains(o.Answers, 401) || slices.Contains(o.Answers, 403)
	var out string
	switch {
	case o.Authorized:
		if out = "ALLOWED"; o.Binding != nil {
			out += " by RBAC"
		}
		if refused {
			out += " at least once"
		}
	case refused:
		out = "REFUSED"
	case slices.ContainsFunc(o.Answers, func(code int32) bool { return code != 0 }):
		out = "ANSWERED"
	default:
		return ""
	}
	if said := wording.Answered(&tally.Origins{Answers: o.Answers}); said != "" {
		out += ", " + said
	}
	return out
}

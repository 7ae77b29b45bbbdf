package rules

// OwnPage documents rules that users write.
const OwnPage = "docs/own-rules.md"

// The reasons of the rules that users write.
const (
	// OwnMatch means that the request matches the rule's expression.
	OwnMatch Reason = "own-rule"
	// OwnFailed and OwnCostly mean that nobody knows whether it does: the expression failed, or was stopped because of its cost.
	OwnFailed Reason = "own-rule-failed"
	OwnCostly Reason = "own-rule-too-costly"
)

// ParamLimit is the key of the bound of an expression's cost.
const ParamLimit = "limit"

// OwnReasons are the reasons of each rule that users write.
func OwnReasons() []ReasonDoc {
	return []ReasonDoc{
		{Reason: OwnMatch, Doc: "the request matches the rule's expression"},
		{Reason: OwnFailed, Doc: "the expression failed on the request, so that nobody knows whether it matches (low)"},
		{Reason: OwnCostly, Doc: "the expression was stopped because of its cost, so that nobody knows whether it matches (low)"},
	}
}

// Own are rules that users write. Safe for concurrent use.
type Own interface {
	// All are the rules, in their order. They have neither Check nor NewDetector.
	All() []*Rule
	// Checker returns what checks requests by them, with a memory of its own.
	Checker() OwnChecker
}

// OwnChecker checks requests. Not safe for concurrent use; what it finds of a request does not depend on the requests before it.
type OwnChecker interface {
	// Check returns what the rules find, in their order. It is valid until the next call.
	Check(r *Request, s State, m *Memory) []OwnFinding
}

// OwnFinding is a finding with the rule.
type OwnFinding struct {
	Finding Finding
	Rule    *Rule
}

var builtIn = func() map[string]bool {
	out := map[string]bool{}
	for _, r := range All() {
		out[r.Name] = true
	}
	return out
}()

// BuiltIn reports whether nodetrail has a rule of that name. Any other is one that users wrote.
func BuiltIn(name string) bool { return builtIn[name] }

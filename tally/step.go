package tally

import "time"

// Step is what was counted of requests in one step of time. [Step.Excess] counts those that need RBAC.
type Step struct {
	// At is when the step begins, UTC.
	At                           time.Time
	Allow, Deny, Unknown, Excess int64
}

// Package rules says what is worth telling somebody about a judged request.
//
// What goes in: one [Request] at a time, with the verdict of the Node authorizer, RBAC's part and the API server's own word, in the
// order in which the stream gives them. What comes out: findings. A [Rule] is a value; its Doc is the text of its page under
// docs/rules, its runbook. Time is always the request's, never the clock's.
//
// A rule looks at single requests (Check), at several together (NewDetector), or both. What several requests show is a [Detection], made by
// the rules' [Detectors], which take requests in any order within a lateness and find the same in each. What they remember has bounds,
// and the caller stores it with what was found ([Remembered]).
//
// The package imports audit, nodeauthz and rbac.
package rules

//go:generate go run ../internal/cmd/gen ../docs/rules

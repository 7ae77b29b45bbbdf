// Package checks concludes what an audit log proves: whether the bindings can be deleted (READY), and whether a stolen kubelet credential is confined
// to its node (CONFINED).
//
// In: an [Input], plain data: the ledger of package evidence and facts about state, findings, policy and versions. Out: one [Result] for each check
// of the list [All], with figures, evidence as codes and parameters, and the next step as a code; and for each question a [Verdict].
//
// # No other path
//
// [Conclude] goes through the list of checks, not through the results: a check without a result is unproven. A result is passed only if nothing in it
// failed or is unproven and if it saw what it expects; the zero value of everything here is unproven. A [Waiver] covers unproven items only.
//
// A check's Doc is the text of its page under docs/checks. There are no sentences in results: package report makes them.
//
// All functions are pure; the clock is an argument. Of ours the package imports evidence and rbac.
package checks

//go:generate go run ../internal/cmd/gen checks ../docs/checks

// Package ownrules has the rules that users write: an expression in CEL (github.com/google/cel-go) over a request, the verdict on it, what admission says
// of it, and the state of the cluster.
//
// What goes in: a file of rules and tests, and then judged requests. What comes out: findings, on the same path as those of the built-in rules, and the
// results of the tests. An expression is type-checked and bounded in cost when it is read, and stopped when it costs more than its bound on a
// request; then the finding says so. A rule changes neither a verdict nor a check.
//
// A [Set] is read only. Its [Set.Checker] remembers which rules a value of one field excludes, so that most rules cost nothing on most requests. The
// package imports codes, internal/expr, internal/nodeid, internal/spelling, nodeadmission, nodeauthz and rules.
package ownrules

// Package rules says what is worth telling somebody about a judged request.
//
// What goes in: one [Request] at a time, with the verdict of the Node authorizer, RBAC's part and the apiserver's own word, in the
// order in which the stream gives them. What comes out: findings. A [Rule] is a value; its Doc is the text of its page under
// docs/rules, its runbook. Rules that must remember (an address seen before) keep it in a [Memory] that the caller owns and that
// has bounds; time is always the request's, never the clock's.
//
// The package imports audit, nodeauthz and rbac.
package rules

//go:generate go run ../internal/gen ../docs/rules

// Package metrics is what Prometheus scrapes.
//
// What goes in: each stored commit ([Metrics.Stored]), and functions that tell the figures of the other parts when they are scraped
// ([Input]). What comes out: a registry of its own and its [Metrics.Handler]. [All] describes every metric; docs/metrics.md is made from it.
// No label has values that an attacker or churn can multiply: each has a bound, beyond which the value is "other".
//
// The package imports sinks, tally, nodeauthz, rbac and rules.
package metrics

//go:generate go run ../../internal/cmd/gen ../../docs/metrics.md

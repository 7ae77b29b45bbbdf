// Package tally is what judged requests add up to: counts by verdict, agreement with the API server, nodes, and findings in groups.
//
// What goes in: an [Entry] for each judged request ([Tally.Add]); what comes out: a [Tally], which the report is made of and which the
// store keeps by the hour. Tallies can be merged, in any order, with the same sums. The package imports rules, nodeauthz and rbac.
package tally

// Package incidents puts findings about one credential together that follow each other: an on-call engineer looks at one incident, not at the rows of
// each object that a thief read.
//
// What goes in: groups of findings as they were in each hour, or shorter step of time ([Book.Add]), from a store or from [Hours]. What comes out: the
// incidents ([Book.Incidents]), the same whatever the order in which the groups came. The package is pure: time is an argument. It imports audit,
// codes, internal/nodeid, rbac, rules and tally.
package incidents

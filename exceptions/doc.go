// Package exceptions says which findings somebody answers for: they are counted and listed as before, and hidden from alerts and from --fail-on.
//
// What goes in: exceptions as a file has them, and findings as values of their fields. What comes out: which exception covers a finding. An exception
// is a rule and an expression in CEL (github.com/google/cel-go), which is type-checked and bounded in cost when it is read. The package is pure: time
// is an argument. It imports internal/expr, rules and tally.
package exceptions

// Package sinks is what all sinks of findings have in common.
//
// What goes in: entries that are stored ([Grouper.Add]). What comes out: [Finding] values, given to each sink's [Sender] by a [Queue] of its
// own, which is bounded, tries again while the sink is down, and never makes the caller wait. What is in a queue when the process is
// killed does not reach the sink; the store has it all the same.
//
// The package imports tally, rules and rbac. Its subpackages are the sinks, and sinktest the suite that each passes.
package sinks

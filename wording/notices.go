package wording

import (
	"fmt"
	"time"
)

// NothingInWindow says that no request lies in the window that was asked for.
func NothingInWindow(first, last time.Time) string {
	return fmt.Sprintf("no request of a node lies in the window that --since and --until leave; the log goes from %s to %s",
		first.UTC().Format(time.RFC3339), last.UTC().Format(time.RFC3339))
}

// CannotKeep says that a binding cannot be kept.
func CannotKeep(name string) string {
	return fmt.Sprintf("--keep %s has no effect: the binding gives system:node, or a copy of it, to the group system:nodes, and the migration deletes every such binding", Visible(name))
}

// Continues says that the log has events of nodes behind the window.
func Continues(events int64, last time.Time) string {
	return fmt.Sprintf("the log continues after --until, to %s; the report says nothing about its %s of nodes after that time",
		last.UTC().Format(time.RFC3339), Plurals(events, "event"))
}

// GoesBack says that an input is not in the order of time.
func GoesBack(input string, from, to time.Time) string {
	return fmt.Sprintf("%s: the log goes back in time, from %s to %s", Visible(input), stamp(from), stamp(to))
}

// LeftOut says what follows from that.
func LeftOut(requests int64) string {
	return fmt.Sprintf("the log is not in the order of time: the rules that look at several requests left %s of nodes out. They may have missed a second user of a credential, "+
		"and silences that they report (node-silent) may be wrong. Give the log of each API server as a file of its own, or sort the log by stageTimestamp", Plurals(requests, "request"))
}

// ClocksApart says that requests outside of races were decided by a state that is at most so far away in time, and which skew makes races of them.
func ClocksApart(requests int64, most, skew time.Duration) string {
	return fmt.Sprintf("the API server decided %s as if pods had come or gone up to %s earlier or later than the state says. The clock of an API server or of the recorder is wrong, "+
		"so requests at that time can be findings, and 'agreement' fails. Synchronize the clocks, and analyze this log with '--skew %s'",
		Plurals(requests, "request"), most.Round(100*time.Millisecond), skew)
}

// ClocksMayBeApart is ClocksApart for so few requests that they may be chance.
func ClocksMayBeApart(requests int64, most, skew time.Duration) string {
	return fmt.Sprintf("'agreement' fails, and the API server decided %s as if pods had come or gone up to %s earlier or later than the state says. If the clocks of the API servers and of the recorder "+
		"can differ by that much, analyze this log with '--skew %s'", Plurals(requests, "request"), most.Round(100*time.Millisecond), skew)
}

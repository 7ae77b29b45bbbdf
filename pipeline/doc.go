// Package pipeline is the stream of audit events: each is fed to the cluster's state, and each request of a node is judged as of its
// own time, once, and handed on.
//
// What goes in: decoded audit events in the order of the log, in batches ([Stream.Batch]). What comes out: one [Judgement] for each
// request (auditID), to a function that the caller gives. Sources (pipeline/file and its like) and sinks satisfy the one-method
// interfaces here and never import this package.
//
// # Order
//
// An audit log is written when requests end, and a request is judged as of when it began, with races told by what happened up to the
// skew later. So a request waits until the log has gone on for the skew and a slack beyond it. The wait is in the log's time and
// bounded in number; a log whose times stand still or jump costs accuracy of the race mark, never a verdict.
//
// The package imports audit, nodeauthz, rbac and rules.
package pipeline

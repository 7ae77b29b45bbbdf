// Package pipeline is the stream of audit events: each is fed to the cluster's state, and each request of a node is judged as of its
// own time, once, and handed on.
//
// There are two streams over one [Judge]. [Stream] is for finished logs: batches go in, in the order of the log, judgements come out, and
// nothing is remembered. [Engine] is for log that grows: sources of every kind give it batches (it is their source.Intake), what was
// judged is stored together with the sources' positions (a tally.Store), and only then the sources acknowledge. What comes out of either
// is one [Judgement] for each request (auditID), whatever stages are logged and however often.
//
// # Order
//
// An audit log is written when requests end, and a request is judged as of when it began, with races decided by what happened up to the
// skew later. So a request waits until the log has advanced for the skew and a slack beyond it. The wait is in the log's time and
// bounded in number; a log whose times stand still or jump costs accuracy of the race mark, never a verdict.
//
// A log that grows may stand still while a request waits, so there the clock decides, too: see [Engine].
//
// # Evidence
//
// Both streams show each event to a ledger of evidence as it comes in, before anything is known of its request. The engine stores what that changes
// with the commit that completes the event's batch, or with an earlier one, so that what is acknowledged has its evidence stored. A commit that fails
// is tried again with the same evidence, even if all of its partitions are lost meanwhile.
//
// # The parts
//
// The life of a request is a state machine, with its table in life.go. Both streams share the scheduler, which moves requests through it; each
// sets its own pace. Only [Engine] has partitions, whose batches wait for requests, and a committer.
//
// The package imports audit, cluster, evidence, nodeauthz, rbac, rules, tally and the contract of sources, pipeline/source.
package pipeline

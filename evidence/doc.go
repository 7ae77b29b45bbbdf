// Package evidence keeps what an audit log shows by node, API server and hour: the ledger from which the checks of package checks conclude
// what the log can prove.
//
// In: one audit event at a time ([Ledger.Observe]), in any order, any number of times. Out: for each node and hour when its Lease was renewed,
// which watches were live and what was read ([NodeHour]); for each API server and hour when its identity Lease was renewed, its starts and
// versions ([ServerHour]); for each source of events and hour which authorizer decided ([SourceHour]).
//
// # Merging
//
// All that is kept is a set: of slots of 5 seconds, of parts of 5 minutes, of names. Ledgers merge by union, so that the order of events, an event
// that comes twice, a restart and several analyzers on one store change nothing. A bound drops names and hours by their own order, never by the
// order of arrival, and leaves a mark ([Overflow], [Ledger.Dropped]): what was dropped must not look like what never was.
//
// # Storing
//
// [Ledger.Changes] hands out what changed since the last call, as records of a key and some dozens of bytes; [Ledger.Put] merges one.
//
// A Ledger is used by one goroutine. Time is an argument. Of ours it imports audit and internal/nodeid.
package evidence

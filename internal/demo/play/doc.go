// Package play sends a finished audit log as if it happened now.
//
// In go an audit log and the journal of the cluster's state that belongs to it. All times of both are moved by one and the same mapping, so that
// the log's first event is at a given time and what came between goes by at a given speed. Out come events for a webhook, a file or Kafka, each
// when it is due, and the moved journal, over which they are judged as the original was.
//
// At speed 1 times move by whole seconds and nothing else changes: the verdicts are the same. At other speeds objects' own times, which have
// whole seconds, are rounded, and so is what is a race.
//
// It imports audit and internal/loopback.
package play

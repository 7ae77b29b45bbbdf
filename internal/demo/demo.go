// Package demo holds a capture of a real cluster, for nodetrail play. README.md says what happens in it.
//
// It takes nothing in; bytes come out. It imports none of ours.
package demo

import _ "embed"

//go:embed capture/audit.log.gz
var auditLog []byte

//go:embed capture/journal.jsonl.gz
var journal []byte

// AuditLog returns the capture's audit log, gzipped: audit.k8s.io/v1 events, one a line. Leave the bytes as they are.
func AuditLog() []byte { return auditLog }

// Journal returns what a watcher saw of the cluster at the same time, gzipped: a watch event a line. Leave the bytes as they are.
func Journal() []byte { return journal }

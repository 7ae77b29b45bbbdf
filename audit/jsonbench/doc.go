// Package jsonbench holds nothing but benchmarks: how fast JSON libraries get the fields that nodetrail uses out of audit events,
// next to the decoder of package audit. It is a module of its own, so that none of those libraries is a requirement of nodetrail.
//
// In: the real events of audit/testdata. Run it with `go test -bench .`, and with GOEXPERIMENT=jsonv2 for encoding/json/v2.
package jsonbench

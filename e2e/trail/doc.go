// Package trail runs nodetrail as users do, next to a control plane of e2e/plane, and reads what it says: readiness, metrics, the report, verdict
// lines, findings.
//
// What goes in: a configuration. What comes out: an [Instance]. It builds the program from the repository; with the environment variable
// NODETRAIL_E2E_OVERLAY, which names a file for go build -overlay, a nodetrail that is broken on purpose.
package trail

// Package conformance holds nodetrail's authorizers against those of Kubernetes itself.
//
// What goes in: k8s.io/kubernetes of one minor, chosen by the module file (go.mod for the newest, go.1.33.mod and so on with
// -modfile), and nodetrail's nodeauthz and rbac. What comes out: tests that fail on the first decision or reason that differs, with
// a small scenario that shows it, and figures for docs/conformance.md.
//
// A [History] is a list of [Step] values (an object appears, changes or goes) and of requests. A [World] plays it to both sides at
// once: to the reference through its own informer handlers, to ours with the time of each step. The package may import anything
// that the reference needs; nothing imports it. Where the API of the reference differs from minor to minor, it is in the files
// api_*.go.
package conformance

// Package nodeadmission is the NodeRestriction admission plugin with a memory: it says what kube-apiserver's own plugin
// (k8s.io/kubernetes/plugin/pkg/admission/noderestriction) answers to a write of a node at a given instant in the past.
//
// What goes in: the attributes of the request, its body if the log has it, and the objects that the plugin looks up, as they were at
// the instant ([State]). What comes out: an [Answer] (allow, deny with code and message, unknown with what is missing, or none because
// the plugin is not asked), and whether it is a race. [Observe] tells from a response what the plugin of the API server said. A
// [Store] remembers the objects with their versions over time, read by [ReadPod] and the like; any other State will do as well.
//
// # What is missing
//
// Each check runs in upstream's order. The first one that needs something that is not there ends the evaluation with [Unknown], so
// that less input gives the same answer or Unknown, never another one. An update, patch or deletion of an object that the state does not
// cover counts as one of an object that exists, because storage looks before the plugin does: [Request.NotFound] says otherwise.
//
// # Patches
//
// An audit event has a patch but not its type. The patch is applied to the old object as each type that it can be. Where the answers
// differ, or where it can be a server-side apply, the answer is Unknown.
//
// # Versions
//
// The plugin changed within minors, so [Version] has the patch. Upstream's sources of 1.28 to 1.37 were read for it; the conformance
// module compares them.
//
// The package imports nothing of nodetrail's but what is small and below internal, and of Kubernetes only types that exist since k8s.io minor 0.28. An [Admission] has no state
// of its own; it and a Store may be used concurrently.
package nodeadmission

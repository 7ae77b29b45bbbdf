// Package version finds out from an audit log which Kubernetes version wrote it, with which feature gates.
//
// What goes in: annotated requests of nodes, each with what the API server decided and why, and with what the Node authorizer would have said under
// any hypothesis; and user agents of the control plane. What comes out: for each hour the hypothesis that fits, as data ([Conclusion]).
//
// Decisions and reasons come first: a hypothesis that contradicts the API server outside of races is out. User agents only order what remains, since
// any client can claim to be any other.
//
// Few requests tell two versions apart, so only those cost more than one decision that contradict the hypothesis in force, and a bounded sample.
package version

// Package nodeauthz is the Kubernetes Node authorizer with a memory: it says what the reference authorizer
// (k8s.io/kubernetes/plugin/pkg/auth/authorizer/node) would have said of a kubelet's request at a given instant in the past.
//
// What goes in: pods, persistent volumes, volume attachments, resource slices and pod certificate requests, each with the time at
// which it became so ([Graph]); and the attributes of a request with its time. What comes out: an [Answer] (allow,
// deny or unknown, whether it is a race, and the reference's reason byte for byte), and on demand an [Explanation] with the path
// through the graph, or which nodes can reach the object.
//
// # Lifetimes
//
// The reference keeps one graph, that of now. Here each edge has a lifetime [from, to). All edges point towards nodes, as there:
//
//	node <- pod, volume attachment, resource slice, pod certificate request
//	pod  <- secret, configmap, persistent volume claim, service account, resource claim
//	pvc  <- pv
//	pv   <- secret
//
// A request is allowed at t if a path of edges that were all alive at t leads from the object to the node. Times are estimates
// ([Stamp]), and kubelets act within milliseconds of a change, so an answer that would be another one within the authorizer's skew
// of t is marked as a race.
//
// # Order
//
// Different objects may come in any order, and so may the first observation of an object's successor under its name. Of one object
// the observations should come in the order of time, but for these: a deletion with a UID may come before the pod, attachment, slice
// or request itself; a better estimate of when one was bound or deleted may follow at any time; and all may come again. What comes in
// another order is taken in as well as it can be and never does harm beyond that object.
//
// # What is known
//
// A graph is complete from the instant given to [Graph.CoverFrom] on: an object that it has not seen then does not exist. Before
// that, and in a graph for which it was never called, a path that is known still allows, but the absence of one proves nothing:
// the answer is [Unknown]. The same holds within the skew of a time in which nobody watched ([Graph.Uncovered]): of an object that was made
// and deleted in it there is no trace. It is said of each kind of object apart, and counts for what such an object can lead to: a hole in
// the watch of pods for all but volume attachments, resource slices and pod certificate requests, one of persistent volumes for these
// and for secrets. A path whose end lies in such a time, and nobody knows where, is Unknown there, too; and where a state ends ([Graph.EndsAt]) every
// path is.
//
// The package imports nothing of nodetrail's but what is small and below internal, and of Kubernetes only types that are there since k8s.io minor 0.28.
package nodeauthz

// Package admission holds nodetrail's nodeadmission against the NodeRestriction plugin of Kubernetes itself.
//
// What goes in: k8s.io/kubernetes of one version, chosen by the module file as for the package above. What comes out: tests that fail on
// the first answer that differs in decision, status code or message.
//
// A [World] has the same objects for both sides: as informers' indexers for the plugin, as the interfaces of nodeadmission for ours. A
// [Write] goes to the plugin as kube-apiserver's handlers would give it: decoded, with defaults, patches applied, owner references
// without duplicates. Ours gets what an audit event has of it. Then inputs are taken away, and ours must give the same answer or unknown.
//
// The package imports nothing that differs between minors in its API; nothing imports it.
package admission

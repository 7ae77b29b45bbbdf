// Package plane runs a real Kubernetes control plane on the loopback interface: etcd, kube-apiserver, kube-controller-manager, kube-scheduler and
// hollow kubelets, built from their Go modules (e2e/kube, e2e/etcd).
//
// What goes in: [Options]. What comes out: a [Plane] with clients for any identity ([Plane.As]), the API server's audit log ([AuditLog]) and its own
// log. Everything it starts belongs to a [Work], which ends it by process id and removes its files, also when the test is interrupted. It imports
// none of ours.
package plane

// Package score holds the manifests of this repository against kube-score. It is a module of its own, as kube-score needs older packages of Kubernetes
// than the rest.
package score

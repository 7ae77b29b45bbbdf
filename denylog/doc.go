// Package denylog reads the NODE DENY lines of kube-apiserver's own log and matches them with requests of the audit log.
//
// What goes in: log files in klog's text or JSON form, also as a container runtime stores them, and the requests that the Node authorizer refused or
// may have refused. What comes out: each line with the audit ID of its request, or listed as unmatched.
//
// The formats are those of upstream's plugin/pkg/auth/authorizer/node, Kubernetes 1.28 to 1.37. Names in a line are not escaped, so the text of an error
// is not taken apart: a request is turned into the texts that upstream writes for it, and those are looked up. Only the node authorizer's
// own lines count, by the source file in klog's header. A matched line never changes a verdict.
package denylog

//go:build k8s1_29

package conformance

import "k8s.io/kubernetes/plugin/pkg/auth/authorizer/node"

// Kubernetes 1.28 and 1.29: the reference does not know resource slices.

func addHandlers(g *node.Graph, t *taps, _, _ bool) {
	node.AddGraphEventHandlers(g, nodeInformer{&t.nodes}, podInformer{&t.pods}, pvInformer{&t.volumes}, attachmentInformer{&t.attachments})
}

func sliceObject(*OnNode) any { return nil }

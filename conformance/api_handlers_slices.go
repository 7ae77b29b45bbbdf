//go:build k8s1_33 && !k8s1_29

package conformance

import "k8s.io/kubernetes/plugin/pkg/auth/authorizer/node"

// Kubernetes 1.30 to 1.33.

func addHandlers(g *node.Graph, t *taps, slices, _ bool) {
	var s slicesInformer
	if slices {
		s = sliceInformer{&t.slices}
	}
	node.AddGraphEventHandlers(g, nodeInformer{&t.nodes}, podInformer{&t.pods}, pvInformer{&t.volumes}, attachmentInformer{&t.attachments}, s)
}

//go:build !k8s1_33

package conformance

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/node"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

// Kubernetes 1.34 and later: pod certificate requests and extended resource claims.

func addHandlers(g *node.Graph, t *taps, slices, requests bool) {
	var s slicesInformer
	if slices {
		s = sliceInformer{&t.slices}
	}
	var r requestsInformer
	if requests {
		r = requestInformer{&t.requests}
	}
	node.AddGraphEventHandlers(g, nodeInformer{&t.nodes}, podInformer{&t.pods}, pvInformer{&t.volumes}, attachmentInformer{&t.attachments}, s, r)
}

func extendedClaim(p *corev1.Pod) string {
	if s := p.Status.ExtendedResourceClaimStatus; s != nil {
		return s.ResourceClaimName
	}
	return ""
}

// setExtendedClaim takes the status away where both texts are empty.
func setExtendedClaim(p *corev1.Pod, name, mapping string) {
	p.Status.ExtendedResourceClaimStatus = nil
	if name == "" && mapping == "" {
		return
	}
	s := &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: name}
	if mapping != "" {
		s.RequestMappings = []corev1.ContainerExtendedResourceRequest{{ContainerName: "c", ResourceName: "r", RequestName: mapping}}
	}
	p.Status.ExtendedResourceClaimStatus = s
}

func extendedClaimOf(p *corev1.Pod) *nodeauthz.ExtendedClaim {
	s := p.Status.ExtendedResourceClaimStatus
	if s == nil {
		return nil
	}
	out := &nodeauthz.ExtendedClaim{ClaimName: s.ResourceClaimName}
	for _, m := range s.RequestMappings {
		out.Mappings = append(out.Mappings, nodeauthz.ExtendedClaimMapping{Container: m.ContainerName, Resource: m.ResourceName, Request: m.RequestName})
	}
	return out
}

// extendedClaimsEqual is what the reference since 1.37 compares.
func extendedClaimsEqual(a, b *corev1.Pod) bool {
	return equality.Semantic.DeepEqual(a.Status.ExtendedResourceClaimStatus, b.Status.ExtendedResourceClaimStatus)
}

//go:build k8s1_30

package conformance

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

// Kubernetes 1.30 and older: a claim's names are in a struct of their own.

func podClaim(name string, claim, template *string) corev1.PodResourceClaim {
	return corev1.PodResourceClaim{Name: name, Source: corev1.ClaimSource{ResourceClaimName: claim, ResourceClaimTemplateName: template}}
}

func claimsOf(p *corev1.Pod) (claims nodeauthz.PodClaims) {
	for _, c := range p.Spec.ResourceClaims {
		claims.Claims = append(claims.Claims, nodeauthz.PodClaim{Name: c.Name, ClaimName: c.Source.ResourceClaimName, TemplateName: c.Source.ResourceClaimTemplateName})
	}
	return claims
}

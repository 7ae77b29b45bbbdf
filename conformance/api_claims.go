//go:build !k8s1_30

package conformance

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

// Kubernetes 1.31 and later.

func podClaim(name string, claim, template *string) corev1.PodResourceClaim {
	return corev1.PodResourceClaim{Name: name, ResourceClaimName: claim, ResourceClaimTemplateName: template}
}

func claimsOf(p *corev1.Pod) (claims nodeauthz.PodClaims) {
	for _, c := range p.Spec.ResourceClaims {
		claims.Claims = append(claims.Claims, nodeauthz.PodClaim{Name: c.Name, ClaimName: c.ResourceClaimName, TemplateName: c.ResourceClaimTemplateName})
	}
	claims.Extended = extendedClaimOf(p)
	return claims
}

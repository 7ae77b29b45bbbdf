//go:build k8s1_33

package conformance

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

// Kubernetes 1.33 and older: no pod certificate requests, no extended resource claims.

func requestObject(*OnNode) any { return nil }

func extendedClaim(*corev1.Pod) string { return "" }

func setExtendedClaim(*corev1.Pod, string, string) {}

func extendedClaimOf(*corev1.Pod) *nodeauthz.ExtendedClaim { return nil }

func extendedClaimsEqual(_, _ *corev1.Pod) bool { return true }

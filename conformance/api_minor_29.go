//go:build k8s1_29 && !k8s1_28

package conformance

// Minor is that of the Kubernetes that this was built with, which before 1.31 no package tells.
func Minor() int { return 29 }

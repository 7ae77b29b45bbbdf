//go:build k8s1_30 && !k8s1_29

package conformance

// Minor is that of the Kubernetes that this was built with, which before 1.31 no package tells.
func Minor() int { return 30 }

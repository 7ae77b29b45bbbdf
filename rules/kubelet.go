package rules

import "slices"

// IsKubelet reports whether a user agent's product is a kubelet's: one of those that are known, or a further one of the caller's.
func IsKubelet(product string, further []string) bool {
	return slices.Contains(kubeletProducts(), product) || slices.Contains(further, product)
}

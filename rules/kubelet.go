package rules

import "slices"

// IsKubelet reports whether a kubelet is behind a user agent's product: its own, on Windows with the suffix of the program, kubemark's, that of a distribution that compiles it into one
// binary, or a further one of the caller's.
func IsKubelet(product string, further []string) bool {
	switch product {
	case "kubelet", "kubelet.exe", "hollow-kubelet", "k3s", "rke2", "kubelite", "k0s", "hyperkube":
		return true
	}
	return slices.Contains(further, product)
}

package rules

import (
	"slices"
	"strings"
)

// IsKubelet reports whether a kubelet is behind a user agent's product: its own, kubemark's, that of a distribution that compiles it into one binary, or a further one of the
// caller's. On Windows a product is the name of the program's file.
func IsKubelet(product string, further []string) bool {
	switch program(product) {
	case "kubelet", "hollow-kubelet", "k3s", "rke2", "kubelite", "k0s", "hyperkube", "microshift":
		return true
	}
	return slices.Contains(further, product) || slices.Contains(further, program(product))
}

// program is the product without the suffix that the files of programs have on Windows.
func program(product string) string { return strings.TrimSuffix(product, ".exe") }

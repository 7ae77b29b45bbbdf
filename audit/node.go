package audit

import (
	"slices"
	"strings"
)

const (
	nodeUserPrefix = "system:node:"
	nodesGroup     = "system:nodes"
)

// NodeIdentity returns the node that a user is the identity of: the user name begins with "system:node:" and the groups hold
// "system:nodes", both, as k8s.io/kubernetes/pkg/auth/nodeidentifier wants it. The name is what follows the prefix and may be empty.
func NodeIdentity(username string, groups []string) (node string, isNode bool) {
	node, ok := strings.CutPrefix(username, nodeUserPrefix)
	if !ok || !slices.Contains(groups, nodesGroup) {
		return "", false
	}
	return node, true
}

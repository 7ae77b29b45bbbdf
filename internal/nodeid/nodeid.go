// Package nodeid tells which users are nodes, by the rule of upstream's k8s.io/kubernetes/pkg/auth/nodeidentifier. It imports none of ours, so that every
// room can use it.
package nodeid

import (
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
)

// UserPrefix begins the user name of every node identity. The rest of the user name is the name of the Node object.
const UserPrefix = "system:node:"

// Of returns the node that a user is the identity of: the user name begins with [UserPrefix] and the groups hold [user.NodesGroup], both.
// The name of the node may be empty.
func Of(username string, groups []string) (node string, isNode bool) {
	node, ok := strings.CutPrefix(username, UserPrefix)
	if !ok || !slices.Contains(groups, user.NodesGroup) {
		return "", false
	}
	return node, true
}

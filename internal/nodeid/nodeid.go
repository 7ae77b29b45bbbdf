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

// Resembles reports whether a user has the name or the group of nodes, one of them or both.
func Resembles(username string, groups []string) bool {
	return strings.HasPrefix(username, UserPrefix) || slices.Contains(groups, user.NodesGroup)
}

// ComponentPrefix begins the user names of programs of the control plane, such as kube-scheduler.
const ComponentPrefix = "system:kube-"

// MaxName is the longest name that a Node can have, in bytes.
const MaxName = 253

// CanBeName reports whether s can be the name of a Node: a DNS subdomain (k8s.io/apimachinery/pkg/util/validation, IsDNS1123Subdomain).
func CanBeName(s string) bool {
	if s == "" || len(s) > MaxName {
		return false
	}
	start := true // of a part between dots
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
			start = false
		case c == '.':
			if start || s[i-1] == '-' {
				return false
			}
			start = true
		case c == '-':
			if start {
				return false
			}
		default:
			return false
		}
	}
	return !start && s[len(s)-1] != '-'
}

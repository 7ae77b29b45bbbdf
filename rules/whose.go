package rules

import (
	"fmt"
	"strings"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/internal/nodeid"
)

// whose tells whose credential the request came with: the node's plain name, or the name of a user who is no node. It is who was authenticated, and nothing that
// the client chose: no impersonated user, no name of an object, and nothing in a body.
func whose(ev *audit.Event) string { return plainNode(ev.User.Username) }

// plainNode is the name of the node that a user is, or the user's.
func plainNode(name string) string {
	if node, is := strings.CutPrefix(name, nodeid.UserPrefix); is && node != "" {
		return node
	}
	return name
}

// maxAsked bounds a name that a client chose, and maxListed how many of them a finding names.
const (
	maxAsked  = 128
	maxListed = 4
)

// someOf are the first of names that a client chose, each cut, and how many others there are.
func someOf(names []string) (out []string) {
	for _, n := range names[:min(len(names), maxListed)] {
		out = append(out, codes.Bound(n, maxAsked))
	}
	if more := len(names) - maxListed; more > 0 {
		out = append(out, fmt.Sprintf("%d others", more))
	}
	return out
}

// subject are the parameters of what is to be signed, bounded: the common name, and each organization.
func (s *Signing) subject() codes.Params {
	out := codes.Params{codes.Text(ParamName, codes.Bound(s.CommonName, maxAsked))}
	for _, o := range someOf(s.Organizations) {
		out = append(out, codes.Text(ParamGroup, o))
	}
	return out
}

package checks

import (
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/rbac"
)

// EndedRight is what a binding gave for a part of the window only, and of which no request shows whether somebody used it. Right is the first such right.
type EndedRight struct {
	rbac.BindingInfo
	Right    string
	From, To time.Time
}

// EndedDuring returns what ended in a time of the rights that bindings gave in it, and that lets a node act beyond its own objects without a request that
// shows it: kubelets are asked for it, or admission or a signer asks about it.
func EndedDuring(rights []rbac.Right, to time.Time) (out []EndedRight) {
	for i := range rights {
		r := &rights[i]
		if !r.Ended(to) {
			continue
		}
		if right := unshown(&r.BindingInfo); right != "" {
			out = append(out, EndedRight{BindingInfo: r.BindingInfo, Right: right, From: r.From, To: r.To})
		}
	}
	return out
}

// unshown is the first dangerous right of a binding that no request shows in use; "" if there is none. An audience of tokens by its name is none.
func unshown(b *rbac.BindingInfo) string {
	rights := slices.DeleteFunc(dangers(), func(a atom) bool { return !a.aside() })
	given := atomsOf(b.Rules)
	inForce(b, given)
	if right, is := firstGiven(given, possible(b, append(rights, atom{verb: "get", resource: "nodes/log"}))); is {
		return right.String()
	}
	least := ""
	for a := range given {
		if text := a.String(); a.verb == verbAudience && a.group == "" && !a.audience() && (least == "" || text < least) {
			least = text
		}
	}
	return least
}

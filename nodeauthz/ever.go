package nodeauthz

import (
	"sync"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// EverRuled reports whether the rules for nodes of any supported version, with all feature gates on, have the request's verb and resource. They have what kubelets
// need, whatever the object: what they do not have, and a node asks for, is hardly a kubelet's.
func EverRuled(attrs authorizer.Attributes) bool { return everRules().allow(attrs) }

var everRules = sync.OnceValue(func() staticRules {
	all := staticRules{}
	for minor := OldestMinor; minor <= NewestMinor; minor++ {
		f := Features{Minor: minor}
		for _, g := range gates() {
			*g.field(&f) = true
		}
		for k, verbs := range newStaticRules(f) {
			all[k] |= verbs
		}
	}
	return all
})

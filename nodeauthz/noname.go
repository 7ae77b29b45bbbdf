package nodeauthz

import (
	"slices"
	"strings"
)

// NoName reports whether no object can have the name, since it is no segment of a path (k8s.io/apimachinery/pkg/api/validate/content, IsPathSegmentName). Kubernetes does not
// check the names that pods give: one may name an image pull secret "registry/team".
func NoName(name string) bool {
	return name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/%")
}

// maxNoNames bounds how many such names are kept. Once there were more, nothing is known of any.
const maxNoNames = 10_000

// noNames are the secrets that pods name and that cannot be there.
type noNames struct {
	needed map[NamespacedName]bool // whether a pod names it otherwise than as an image pull secret
	full   bool
}

// see takes in what a pod on a node names.
func (n *noNames) see(p *Pod) {
	if len(p.NoPulls) == 0 && len(p.NoSecrets) == 0 || p.Mirror {
		return
	}
	if n.needed == nil {
		n.needed = map[NamespacedName]bool{}
	}
	for _, all := range []struct {
		names  []string
		needed bool
	}{{p.NoPulls, false}, {p.NoSecrets, true}} {
		for _, name := range all.names {
			k := NamespacedName{Namespace: p.Namespace, Name: name}
			if n.full = n.full || len(n.needed) >= maxNoNames; n.full {
				return
			}
			n.needed[k] = n.needed[k] || all.needed
		}
	}
}

// OnlyPulls reports whether pods on nodes name a secret that cannot be there as an image pull secret, and no pod names it otherwise. A kubelet passes over an image pull secret
// that it cannot get (pkg/kubelet, getPullSecretsForPod), whatever the reason. It does not pass over a secret of a variable or of a volume, even of an optional one, unless
// the answer says that there is none.
func (g *Graph) OnlyPulls(namespace, name string) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	needed, there := g.noNames.needed[NamespacedName{Namespace: namespace, Name: name}]
	return there && !needed && !g.noNames.full
}

// noNamesOf are those of the names that no object can have.
func noNamesOf(names []string) (out []string) {
	for _, n := range names {
		if n != "" && NoName(n) {
			out = append(out, strings.Clone(n))
		}
	}
	return out
}

// NameSecrets sets the secrets: those that the pod names for its images, and all others.
func (p *Pod) NameSecrets(pulls, others []string) {
	p.Secrets = slices.Concat(pulls, others)
	p.NoPulls, p.NoSecrets = noNamesOf(pulls), noNamesOf(others)
}

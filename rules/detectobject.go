package rules

import (
	"cmp"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// deniedObject is what was asked for.
type deniedObject struct {
	Verb        string `json:"v,omitzero"`
	APIGroup    string `json:"g,omitzero"`
	Resource    string `json:"r,omitzero"`
	Subresource string `json:"s,omitzero"`
	Namespace   string `json:"ns,omitzero"`
	Name        string `json:"n,omitzero"`
	Path        string `json:"p,omitzero"`
}

func objectOf(a *authorizer.AttributesRecord) deniedObject {
	if !a.ResourceRequest {
		return deniedObject{Verb: a.Verb, Path: a.Path}
	}
	return deniedObject{Verb: a.Verb, APIGroup: a.APIGroup, Resource: a.Resource, Subresource: a.Subresource, Namespace: a.Namespace, Name: a.Name}
}

// is reports whether the object is the one asked for, as [objectOf] has it, without making that.
func (o *deniedObject) is(a *authorizer.AttributesRecord) bool {
	if !a.ResourceRequest {
		return *o == deniedObject{Verb: a.Verb, Path: a.Path}
	}
	return o.Name == a.Name && o.Namespace == a.Namespace && o.Resource == a.Resource && o.Verb == a.Verb && o.Subresource == a.Subresource &&
		o.APIGroup == a.APIGroup && o.Path == ""
}

// String names the object in short: "secrets shop/db", "secrets shop/*" for those of a namespace, "secrets *" for those of the cluster, or a path.
func (o *deniedObject) String() string {
	if o.Resource == "" {
		return o.Path
	}
	return string(o.append(make([]byte, 0, 128)))
}

// append appends what String returns of an object that has a resource.
func (o *deniedObject) append(b []byte) []byte {
	b = append(o.appendKind(b), ' ')
	if o.Namespace != "" {
		b = append(append(b, o.Namespace...), '/')
	}
	return append(b, cmp.Or(o.Name, "*")...)
}

// kind is the resource with subresource and group.
func (o *deniedObject) kind() string {
	if o.Resource == "" {
		return "paths"
	}
	return string(o.appendKind(make([]byte, 0, 128)))
}

func (o *deniedObject) appendKind(b []byte) []byte {
	b = append(b, o.Resource...)
	if o.Subresource != "" {
		b = append(append(b, '/'), o.Subresource...)
	}
	if o.APIGroup != "" {
		b = append(append(b, '.'), o.APIGroup...)
	}
	return b
}

// lost reports whether a kubelet was refused the watch or the token of what its node could reach when it heard of the cluster last, as when it comes back and its pods were
// deleted by force meanwhile: it keeps watches and renews tokens until it has heard of that. It got nothing that it did not have. What the state allows throughout is not lost.
func (d *denial) lost(s State, kubelets []string) bool {
	o := d.Object
	return !d.Allowed && d.Lagged == 0 && o.Path == "" && lostBy(d.Product, kubelets, s, &authorizer.AttributesRecord{
		Verb: o.Verb, APIGroup: o.APIGroup, APIVersion: "v1", Resource: o.Resource, Subresource: o.Subresource, Namespace: o.Namespace, Name: o.Name, ResourceRequest: true,
	}, d.Node, d.First)
}

// lostBy reports whether a client that calls itself a kubelet watches what the node could reach when its kubelet heard of the cluster last, or asks for a token of that.
func lostBy(product string, kubelets []string, s State, a *authorizer.AttributesRecord, node string, t time.Time) bool {
	return s != nil && (a.Verb == "watch" || a.Verb == "list" || a.Verb == "create" && isToken(a)) && a.Name != "" && IsKubelet(product, kubelets) && s.Had(a, node, t)
}

// detection has the object of the denial.
func (d *denial) detection(rule *Rule) *Detection {
	o := d.Object
	return &Detection{
		Finding: Finding{Rule: rule.Name, Severity: rule.Severity, Subject: d.Node, Allowed: d.Allowed},
		Verb:    o.Verb, APIGroup: o.APIGroup, Resource: o.Resource, Subresource: o.Subresource, Namespace: o.Namespace,
		Name: cmp.Or(o.Name, o.Path), Product: d.Product,
	}
}

const (
	hashSeed  uint64 = 14695981039346656037
	hashPrime uint64 = 0x9e3779b97f4a7c15
)

// hash takes in eight bytes at a time; the last ones of a string come with its length, which keeps the strings apart. It is stored, and so has
// to stay as it is. Somebody who makes two objects with the same hash gains that they count as one.
func hash(h uint64, s string) uint64 {
	length := uint64(len(s)) << 56
	for ; len(s) >= 8; s = s[8:] {
		h = (h ^ (uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 | uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 |
			uint64(s[7])<<56)) * hashPrime
		h ^= h >> 29
	}
	var rest uint64 // at most seven
	shift := 0
	if len(s) >= 4 {
		rest = uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24
		s, shift = s[4:], 32
	}
	for i := range len(s) {
		rest |= uint64(s[i]) << shift
		shift += 8
	}
	h = (h ^ rest ^ length) * hashPrime
	return h ^ h>>29
}

// idOf is the hash of the request's node, of which the hash is given, and its object. Reads are alike: what was denied to a get is allowed to the watch that follows.
func idOf(r *Request, node uint64) uint64 {
	if r.object != 0 {
		return r.object
	}
	a, h := r.Attrs, node
	if !a.ResourceRequest {
		return hash(hash(h, a.Verb), a.Path)
	}
	verb := a.Verb
	switch verb {
	case "get", "list", "watch":
		verb = "read"
	}
	h = hash(hash(h, verb), a.Resource)
	if a.APIGroup != "" || a.Subresource != "" {
		h = hash(hash(h, a.APIGroup), a.Subresource)
	}
	return hash(hash(h, a.Namespace), a.Name)
}

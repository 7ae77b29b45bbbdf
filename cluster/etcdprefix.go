package cluster

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// knownPrefixes are what keys of Kubernetes begin with unless an API server has the flag --etcd-prefix: the default, and OpenShift's.
var knownPrefixes = [...]string{"/registry", "/kubernetes.io"}

// CheckEtcdPrefix returns a value of --etcd-prefix as keys have it, with a slash at its beginning and none at its end, as the API server does; "" is none.
func CheckEtcdPrefix(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	clean := "/" + strings.Trim(s, "/")
	if clean == "/" || strings.Contains(clean, "//") || len(clean) > maxPrefix || strings.ContainsFunc(clean, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return "", fmt.Errorf("%q is not a prefix of keys such as /registry", s)
	}
	return clean, nil
}

const (
	maxPrefix = 256
	// maxPrefixes bounds the prefixes that are remembered.
	maxPrefixes = 16
)

// etcdPrefix finds out what the keys of Kubernetes begin with. All of a cluster's keys have one prefix; an etcd with two of them holds two clusters, or what is
// left of one, and what is under one says nothing about the other.
type etcdPrefix struct {
	given string // by the user; "" to be found
	seen  [len(knownPrefixes)]bool
	// others are prefixes of a namespace kube-system, which every cluster has.
	others map[string]bool
}

var systemNamespaceKey = []byte("/namespaces/kube-system")

// cut cuts the prefix off a key that has it.
func (p *etcdPrefix) cut(r *etcdRecord) (rest []byte, ok bool) {
	if p.given != "" {
		if rest, ok = bytes.CutPrefix(r.key, []byte(p.given)); ok {
			rest, ok = bytes.CutPrefix(rest, []byte("/"))
		}
		if ok {
			return rest, true
		}
	} else {
		for i, known := range knownPrefixes {
			if len(r.key) > len(known) && string(r.key[:len(known)]) == known && r.key[len(known)] == '/' {
				rest = r.key[len(known)+1:]
				if _, matters := kindOfKey(rest); matters || bytes.HasPrefix(r.value, []byte("k8s\x00")) {
					p.seen[i] = true
				}
				return rest, true
			}
		}
	}
	if before, is := bytes.CutSuffix(r.key, systemNamespaceKey); is && len(before) > 0 && len(before) <= maxPrefix && len(p.others) < maxPrefixes {
		p.others[string(before)] = true
	}
	return nil, false
}

// settle says which prefix it is once all keys were seen; matters is whether any of them was of an object that matters. It is the one that was given, "" for a
// known one, or another one, with which the keys are to be read again.
func (p *etcdPrefix) settle(matters bool) (string, error) {
	all := slices.Sorted(maps.Keys(p.others))
	if p.given == "" {
		for i, known := range knownPrefixes {
			if p.seen[i] {
				all = append(all, known)
			}
		}
		slices.Sort(all)
	}
	// A namespace or an object may be called like what every cluster has: below another prefix it is not one.
	tops := slices.DeleteFunc(slices.Clone(all), func(x string) bool {
		return slices.ContainsFunc(all, func(y string) bool { return strings.HasPrefix(x, y+"/") })
	})
	switch {
	case p.given != "" && matters:
		return p.given, nil
	case p.given != "" && len(tops) > 0:
		return "", fmt.Errorf("it holds no Kubernetes objects under %q, but under %s", p.given, quotedPrefixes(tops))
	case p.given != "":
		return "", fmt.Errorf("it holds no Kubernetes objects under %q", p.given)
	case len(tops) > 1:
		return "", fmt.Errorf("%w, under %s: choose one with --etcd-prefix", errPrefixes, quotedPrefixes(tops))
	case matters:
		return "", nil
	case len(tops) == 1 && !slices.Contains(knownPrefixes[:], tops[0]):
		return tops[0], nil
	}
	return "", errNoKeys
}

func quotedPrefixes(all []string) string {
	var out []string
	for _, s := range all {
		out = append(out, fmt.Sprintf("%q", s))
	}
	return strings.Join(out, " and ")
}

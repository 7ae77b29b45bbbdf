package tally

import (
	"cmp"
	"slices"
	"strings"
)

// MaxOrigins bounds each list of [Origins]. A client may have any number of groups and addresses.
const MaxOrigins = 16

// Origin is who made a request, from where, and how the API server answered. Its strings may alias memory that is used again.
type Origin struct {
	// User and Groups are the authenticated user's; Impersonated is as whom it acts, "" for itself.
	User         string
	Groups       []string
	Impersonated string
	Address      Address
	// Code is the HTTP status of the response, 0 where the log has none.
	Code int32
	// Several says that a finding is of several requests: Code says nothing.
	Several bool
}

// Address is where a request came from: the address of the connection, never what the client claims in a header.
type Address struct {
	Address string `json:"address"`
	// Node is the node whose Node object has the address, "" for none, or where several have it.
	Node string `json:"node"`
}

// Origins are the distinct values of the [Origin] of many requests, each list in order. Of more than MaxOrigins values the first in order are kept.
type Origins struct {
	Users        []string  `json:"users"`
	Groups       []string  `json:"groups"`
	Impersonated []string  `json:"impersonated"`
	Addresses    []Address `json:"addresses"`
	// Answers are HTTP statuses of responses; 0 stands for requests of which the log has no response.
	Answers []int32 `json:"answers"`
}

// NotBy reports whether all users that made the requests are known, and none of them is this one.
func (all *Origins) NotBy(user string) bool {
	return len(all.Users) > 0 && len(all.Users) < MaxOrigins && !slices.Contains(all.Users, user)
}

// Add adds those of one request. Nothing of o is kept.
func (all *Origins) Add(o *Origin) {
	if o.User == "" && o.Address.Address == "" {
		return // a finding without a request
	}
	addString(&all.Users, o.User)
	for _, g := range o.Groups {
		addString(&all.Groups, g)
	}
	if o.Impersonated != "" {
		addString(&all.Impersonated, o.Impersonated)
	}
	if o.Address.Address != "" {
		insert(&all.Addresses, o.Address, compareAddresses, (*Address).bounded)
	}
	if !o.Several {
		insert(&all.Answers, o.Code, cmp.Compare, func(*int32) {})
	}
}

// Merge adds others, which stay as they are.
func (all *Origins) Merge(o *Origins) {
	for i, to := range all.texts() {
		for _, s := range *o.texts()[i] {
			addString(to, s)
		}
	}
	for _, a := range o.Addresses {
		insert(&all.Addresses, a, compareAddresses, (*Address).bounded)
	}
	for _, c := range o.Answers {
		insert(&all.Answers, c, cmp.Compare, func(*int32) {})
	}
}

func (all *Origins) texts() [3]*[]string {
	return [3]*[]string{&all.Users, &all.Groups, &all.Impersonated}
}

// Filled returns a copy whose lists are its own and never nil.
func (all *Origins) Filled() Origins {
	return Origins{
		append([]string{}, all.Users...), append([]string{}, all.Groups...), append([]string{}, all.Impersonated...), append([]Address{}, all.Addresses...),
		append([]int32{}, all.Answers...),
	}
}

func addString(to *[]string, s string) {
	insert(to, s, strings.Compare, func(s *string) { own(s) })
}

// insert puts a value in its place, unless it is there or comes after as many as are kept.
func insert[T comparable](to *[]T, v T, compare func(a, b T) int, own func(*T)) {
	if slices.Contains(*to, v) { // as it almost always is
		return
	}
	i, there := slices.BinarySearchFunc(*to, v, compare)
	if there || i >= MaxOrigins {
		return
	}
	owned := v // which alone is on the heap
	own(&owned)
	if i, there = slices.BinarySearchFunc(*to, owned, compare); there { // cut, it is another value
		return
	}
	*to = slices.Insert(*to, i, owned)
	*to = (*to)[:min(len(*to), MaxOrigins)]
}

func compareAddresses(a, b Address) int {
	return cmp.Or(strings.Compare(a.Address, b.Address), strings.Compare(a.Node, b.Node))
}

func (a *Address) bounded() { own(&a.Address, &a.Node) }

// own copies the strings, bounded.
func (o *Origin) own() {
	own(&o.User, &o.Impersonated, &o.Address.Address, &o.Address.Node)
	groups := make([]string, min(len(o.Groups), MaxOrigins))
	copy(groups, o.Groups)
	for i := range groups {
		own(&groups[i])
	}
	o.Groups = groups
}

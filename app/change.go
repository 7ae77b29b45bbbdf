package app

import (
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/nodetrail/nodetrail/app/judging"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/report"
)

// ChangeOptions are logs, and a change of RBAC that is tried on them. Only Logs is needed.
type ChangeOptions struct {
	Authorization
	Input
	// Without is what goes: clusterrolebinding/NAME, rolebinding/NAMESPACE/NAME, group/NAME or user/NAME. Without any it is all that bindings
	// give to the group system:nodes and to users named system:node:...
	Without []string
	// With are manifest files of RBAC objects that are added, or replace those of their name; "-" is Stdin.
	With []string
	// ThenMode are the authorizers that the cluster will run: Node,RBAC or RBAC,Node or RBAC. "" or "auto" is as the log shows, with Node
	// before RBAC where Node is missing.
	ThenMode string
	// KubeletUserAgents are further user agents that are a kubelet's, without version.
	KubeletUserAgents []string
}

func (o *ChangeOptions) validate() error {
	if err := o.Authorization.validate(); err != nil {
		return err
	}
	if err := o.Input.validate(); err != nil {
		return err
	}
	if err := o.validateSkew(&o.Authorization); err != nil {
		return err
	}
	if _, err := thenMode(o.ThenMode); err != nil {
		return err
	}
	if _, err := parseRemoval(o.Without); err != nil {
		return err
	}
	return oneStdin(o.State, o.With, o.Logs)
}

// thenMode reads the authorizers that a cluster will run.
func thenMode(s string) ([]string, error) {
	if s == "" {
		s = "auto"
	}
	then, ok := report.ParseThen(s)
	if !ok {
		return nil, optionError("ThenMode", "%q is none of auto, Node,RBAC, RBAC,Node, RBAC", s)
	}
	return then, nil
}

// change is a change of RBAC, read, with the logs that it is tried on.
type change struct {
	*passage
	without *removal
	with    *rbac.Objects
	then    []string
}

func (o *ChangeOptions) prepare() (*change, error) {
	c := &change{with: &rbac.Objects{}}
	var err error
	if c.without, err = parseRemoval(o.Without); err != nil {
		return nil, err
	}
	if c.then, err = thenMode(o.ThenMode); err != nil {
		return nil, err
	}
	if c.passage, err = o.Input.prepare(&o.Authorization); err != nil {
		return nil, err
	}
	c.judged.Kubelets = o.KubeletUserAgents
	for _, path := range o.With {
		objects, err := readManifest(path, o.Stdin)
		if err != nil {
			return nil, optionError("With", "%s: %w", path, err)
		}
		if objects.Len() == 0 {
			return nil, optionError("With", "%s: no RBAC object (%s) in it", path, "rbac.authorization.k8s.io/v1")
		}
		c.with.ClusterRoles = append(c.with.ClusterRoles, objects.ClusterRoles...)
		c.with.Roles = append(c.with.Roles, objects.Roles...)
		c.with.ClusterRoleBindings = append(c.with.ClusterRoleBindings, objects.ClusterRoleBindings...)
		c.with.RoleBindings = append(c.with.RoleBindings, objects.RoleBindings...)
	}
	return c, nil
}

func readManifest(path string, stdin io.Reader) (*rbac.Objects, error) {
	if path == "-" {
		objects, _, err := report.ReadManifest(stdin)
		return objects, err
	}
	f, err := os.Open(path)
	if err != nil {
		var pathError *os.PathError
		if errors.As(err, &pathError) {
			err = pathError.Err // the path is named already
		}
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	objects, _, err := report.ReadManifest(f)
	return objects, err
}

// over is the change over a state.
func (c *change) over(s *judging.Setup) *report.WhatIf {
	return &report.WhatIf{RBAC: s.State.RBAC, Change: s.State.RBAC.Change(c.without.removes, c.with), Then: c.then, Mode: c.judged.Mode, Kubelets: c.judged.Kubelets, Everybody: c.everybody()}
}

// everybody reports whether what goes may have let others than nodes through, so that their requests are read, too.
func (c *change) everybody() bool { return len(c.without.items) > 0 }

// removal is what goes; without any items it is every grant to nodes.
type removal struct {
	items []removed
	met   []bool // those that met a grant
	// named are what the log's annotations name, of those kinds: bounded.
	named map[string]bool
}

type removed struct {
	text    string
	binding rbac.BindingRef
	subject rbac.SubjectRef
}

func parseRemoval(list []string) (*removal, error) {
	r := &removal{met: make([]bool, len(list))}
	for _, s := range list {
		kind, name, _ := strings.Cut(s, "/")
		item := removed{text: s}
		switch strings.ToLower(kind) {
		case "clusterrolebinding", "clusterrolebindings", "rolebinding", "rolebindings":
			var err error
			if item.binding, err = rbac.ParseBindingRef(s); err != nil {
				return nil, optionError("Without", "%w", err)
			}
		case "group":
			item.subject = rbac.SubjectRef{Kind: "Group", Name: name}
		case "user":
			item.subject = rbac.SubjectRef{Kind: "User", Name: name}
		}
		if name == "" || item.binding == (rbac.BindingRef{}) && item.subject == (rbac.SubjectRef{}) {
			return nil, optionError("Without", "%q is none of clusterrolebinding/NAME, rolebinding/NAMESPACE/NAME, group/NAME, user/NAME", s)
		}
		r.items = append(r.items, item)
	}
	return r, nil
}

// removes reports whether the grant goes.
func (r *removal) removes(g rbac.Grant) bool {
	if len(r.items) == 0 {
		return g.ForNodes()
	}
	gone := false
	for i := range r.items {
		if x := &r.items[i]; g.Binding == x.binding || x.subject.Kind != "" && g.Subject == x.subject {
			r.met[i], gone = true, true
		}
	}
	return gone
}

// words says what goes.
func (r *removal) words() []string {
	if len(r.items) == 0 {
		return []string{"all that bindings give to the group system:nodes and to users named system:node:..."}
	}
	var out []string
	for i := range r.items {
		out = append(out, r.items[i].text)
	}
	return out
}

// maxNamed bounds how many names of the log are kept: to propose one of them, or as those of bindings that the state lacks.
const maxNamed = 10_000

// subjectName is how an item names a subject; empty for one that it cannot name.
func subjectName(s rbac.SubjectRef) string {
	if s.Kind == rbacv1.GroupKind || s.Kind == rbacv1.UserKind {
		return strings.ToLower(s.Kind) + "/" + s.Name
	}
	return ""
}

// see takes in a grant that the log names.
func (r *removal) see(g *rbac.Grant) {
	if len(r.items) == 0 {
		return
	}
	r.removes(*g)
	for _, name := range []string{g.Binding.String(), subjectName(g.Subject)} {
		if name != "" && len(r.named) < maxNamed && !r.named[name] {
			if r.named == nil {
				r.named = map[string]bool{}
			}
			r.named[strings.Clone(name)] = true
		}
	}
}

// unknown is the error of the first item that neither the log nor the state has, whenever it was; nil if there is none.
func (r *removal) unknown(s *rbac.Store) error {
	if !slices.Contains(r.met, false) {
		return nil
	}
	all := maps.Clone(r.named)
	if all == nil {
		all = map[string]bool{}
	}
	for b := range s.BindingsDuring(time.Time{}, time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)) {
		all[b.Binding.String()] = true
		for i := range r.items {
			r.met[i] = r.met[i] || b.Binding == r.items[i].binding
		}
		for _, subject := range b.Subjects {
			r.removes(rbac.Grant{Binding: b.Binding, Role: b.Role, Subject: subject})
			if name := subjectName(subject); name != "" {
				all[name] = true
			}
		}
	}
	for i := range r.items {
		if !r.met[i] {
			return &UnknownError{What: "binding or subject", Name: r.items[i].text, Where: "the state or the log", Known: slices.Sorted(maps.Keys(all))}
		}
	}
	return nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/pipeline/file"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/rules"
)

// replayFlags are the flags of the commands that go through finished logs with another RBAC.
type replayFlags struct {
	analyzeFlags
	without []string
	with    []string
	then    string
}

func (f *replayFlags) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringArrayVar(&f.without, "without", nil, "what goes: clusterrolebinding/`NAME`, rolebinding/NAMESPACE/NAME, group/NAME or user/NAME; may be repeated "+
		"(default: all that bindings give to system:nodes or to users named system:node:...)")
	fs.StringArrayVar(&f.with, "with", nil, "a manifest `FILE` of RBAC objects that are added, or replace those of their name; may be repeated")
	fs.StringVar(&f.then, "then-mode", "auto", "the authorizers that the cluster will run: Node,RBAC or RBAC,Node or RBAC "+
		"(default: as the log shows, with Node before RBAC where Node is missing)")
	fs.StringArrayVar(&f.state, "state", nil, "cluster state: a journal (nodetrail record, kubectl get -w), a snapshot (kubectl get -o json|yaml), a folder of such, or -; may be repeated")
	fs.BoolVar(&f.fromAudit, "state-from-audit", true, "learn state from the bodies of audit events too")
	f.authzFlags.register(fs)
	fs.StringVar(&f.mode, "authorization-mode", "auto", "the apiserver's --authorization-mode during the log, or auto to infer it")
	fs.StringVar(&f.since, "since", "", "look only at requests from then on: RFC 3339, or a duration before the log's end")
	fs.StringVar(&f.until, "until", "", "look only at requests before then: RFC 3339, or a duration before the log's end")
	fs.IntVar(&f.maxEventBytes, "max-event-bytes", audit.DefaultMaxEventBytes, "events longer than this are malformed")
	fs.StringSliceVar(&f.kubelets, "kubelet-user-agent", nil, "further user-agent products that are a kubelet's")
	for name, values := range map[string][]string{
		"then-mode": {"auto", "Node,RBAC", "RBAC,Node", "RBAC"}, "authorization-mode": {"auto", "Node,RBAC", "RBAC,Node", "RBAC", "Node"},
		"kubernetes-version": {"1.33", "1.34", "1.35", "1.36"},
	} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	}
}

// replay is one run through the logs, its flags understood.
type replay struct {
	*analysis
	flags   *replayFlags
	without *removal
	with    *rbac.Objects
	then    []string
}

func (f *replayFlags) prepare(args []string, std streams) (*replay, error) {
	f.analyzeFlags.output = "text" // the commands check their own
	a, err := f.analyzeFlags.prepare(args, std)
	if err != nil {
		return nil, err
	}
	p := &replay{analysis: a, flags: f}
	var ok bool
	if p.then, ok = report.ParseThen(f.then); !ok {
		return nil, fmt.Errorf("--then-mode: %q is none of auto, Node,RBAC, RBAC,Node, RBAC", f.then)
	}
	if p.without, err = parseRemoval(f.without); err != nil {
		return nil, err
	}
	return p, oneStdin(slices.Concat(f.state, f.with, args))
}

// readManifests reads what --with names.
func (p *replay) readManifests() error {
	p.with = &rbac.Objects{}
	for _, path := range p.flags.with {
		objects, err := p.readManifest(path)
		if err != nil {
			return fmt.Errorf("--with: %s: %w", path, err)
		}
		if objects.Len() == 0 {
			return fmt.Errorf("--with: %s: no RBAC object (%s) in it", path, "rbac.authorization.k8s.io/v1")
		}
		p.with.ClusterRoles = append(p.with.ClusterRoles, objects.ClusterRoles...)
		p.with.Roles = append(p.with.Roles, objects.Roles...)
		p.with.ClusterRoleBindings = append(p.with.ClusterRoleBindings, objects.ClusterRoleBindings...)
		p.with.RoleBindings = append(p.with.RoleBindings, objects.RoleBindings...)
	}
	return nil
}

func (p *replay) readManifest(path string) (*rbac.Objects, error) {
	if path == "-" {
		objects, _, err := report.ReadManifest(p.std.in)
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

// run reads the logs. begin is called once, when the state is there and before the first judgement; each judgement goes to out.
func (p *replay) run(ctx context.Context, begin func(*cluster.State), out func(*pipeline.Judgement) error) (report.Facts, *file.Result, error) {
	var facts report.Facts
	var state *cluster.State
	res, counts, err := p.read(ctx, func(s *cluster.State) *pipeline.Stream {
		state = s
		stream := p.stream(state, out)
		begin(state)
		return stream
	})
	if err != nil {
		return facts, nil, err
	}
	facts = p.facts(res, state, counts)
	return facts, res, errors.Join(res.Errors...)
}

// stream is analyze's without its rules.
func (p *replay) stream(state *cluster.State, out func(*pipeline.Judgement) error) *pipeline.Stream {
	auth := nodeauthz.NewAuthorizer(state.Graph, p.features, p.skew)
	judge := &pipeline.Judge{Node: auth, RBAC: state.RBAC, State: pipeline.NewView(state, auth), Memory: rules.NewMemory(), Mode: p.am}
	var sink pipeline.StateSink
	if p.fromAudit {
		sink = state
	}
	return pipeline.NewStream(judge, sink, pipeline.Options{Skew: p.skew, Window: p.window}, out)
}

// whatIf is the question of the flags over a state.
func (p *replay) whatIf(state *cluster.State, with *rbac.Objects) *report.WhatIf {
	return &report.WhatIf{RBAC: state.RBAC, Change: state.RBAC.Change(p.without.removes, with), Then: p.then, Mode: p.am}
}

// removal is what --without names; without any it is every grant to nodes.
type removal struct {
	items []removed
	met   []bool // those that met a grant
}

type removed struct {
	text    string
	binding rbac.BindingRef
	subject rbac.SubjectRef
}

func parseRemoval(list []string) (*removal, error) {
	r := &removal{met: make([]bool, len(list))}
	for _, s := range list {
		kind, name, ok := strings.Cut(s, "/")
		item := removed{text: s}
		switch strings.ToLower(kind) {
		case "clusterrolebinding", "clusterrolebindings":
			item.binding = rbac.BindingRef{Kind: rbac.KindClusterRoleBinding, Name: name}
		case "rolebinding", "rolebindings":
			var namespace string
			if namespace, name, ok = strings.Cut(name, "/"); !ok || namespace == "" {
				return nil, fmt.Errorf("--without: %q lacks the namespace: rolebinding/NAMESPACE/NAME", s)
			}
			item.binding = rbac.BindingRef{Kind: rbac.KindRoleBinding, Namespace: namespace, Name: name}
		case "group":
			item.subject = rbac.SubjectRef{Kind: "Group", Name: name}
		case "user":
			item.subject = rbac.SubjectRef{Kind: "User", Name: name}
		default:
			ok = false
		}
		if !ok || name == "" {
			return nil, fmt.Errorf("--without: %q is none of clusterrolebinding/NAME, rolebinding/NAMESPACE/NAME, group/NAME, user/NAME", s)
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

// unmet are the items that no grant was met of.
func (r *removal) unmet() (out []string) {
	for i := range r.items {
		if !r.met[i] {
			out = append(out, r.items[i].text)
		}
	}
	return out
}

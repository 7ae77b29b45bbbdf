package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline/file"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/report"
)

type explainFlags struct {
	authzFlags
	state    []string
	logs     []string
	node     string
	at       string
	selector string
}

func newExplain(std streams) *cobra.Command {
	var f explainFlags
	cmd := &cobra.Command{
		Use:   "explain --state PATH --node NODE [flags] VERB RESOURCE [[NAMESPACE/]NAME]",
		Short: "Say why a node may or may not do something, and who else can",
		Long: `explain prints the verdict on one request of a node as of an instant, with the path through the graph by which it is allowed, or who
does lead to the object and when this node last did; and what RBAC says of it.

RESOURCE is RESOURCE[.GROUP][/SUBRESOURCE], as in secrets, serviceaccounts/token or leases.coordination.k8s.io; short names and kinds
of the common ones are understood. A path such as /healthz stands for itself. NAMESPACE/ is the whole namespace, for list and watch.`,
		Example: `  nodetrail explain --state journal.jsonl --node worker-1 get secret shop/db
  nodetrail explain --state journal.jsonl --node worker-1 --at 2026-11-21T06:04:19.448Z watch configmap shop/settings
  nodetrail explain --state journal.jsonl --node worker-1 --field-selector spec.nodeName=worker-1 list pods`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 || len(args) > 3 {
				return usageError{cmd.CommandPath(), errors.New("VERB RESOURCE [[NAMESPACE/]NAME] is needed, as in: get secret shop/db")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, std, args) },
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringArrayVar(&f.state, "state", nil, "cluster state: a journal, a snapshot, a folder of such, or -; may be repeated")
	fs.StringArrayVar(&f.logs, "audit-log", nil, "learn state from the bodies in this audit log too; may be repeated")
	fs.StringVar(&f.node, "node", "", "the node's name")
	fs.StringVar(&f.at, "at", "", "the instant, RFC 3339 (default: the state's last observation)")
	fs.StringVar(&f.selector, "field-selector", "", "the request's field selector, for list, watch and deletecollection")
	f.register(fs)
	_ = cmd.RegisterFlagCompletionFunc("kubernetes-version", cobra.FixedCompletions([]string{"1.33", "1.34", "1.35", "1.36"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (f *explainFlags) run(cmd *cobra.Command, std streams, args []string) error {
	usage := func(err error) error { return usageError{cmd.CommandPath(), err} }
	features, err := f.features()
	if err != nil {
		return usage(err)
	}
	if f.node == "" {
		return usage(errors.New("--node is missing: the name of the node"))
	}
	if len(f.state)+len(f.logs) == 0 {
		return usage(errors.New("--state is missing: a journal or a snapshot of the cluster's objects"))
	}
	if err := oneStdin(append(slices.Clone(f.state), f.logs...)); err != nil {
		return usage(err)
	}
	// The name of the identity is what logs show, and as good as the node's.
	node := strings.TrimPrefix(f.node, "system:node:")
	attrs, err := requestOf(node, f.selector, args)
	if err != nil {
		return usage(err)
	}
	var at time.Time
	if f.at != "" {
		if at, err = time.Parse(time.RFC3339Nano, f.at); err != nil {
			return usage(fmt.Errorf("--at: %q is not a time such as 2026-11-21T06:04:19.448Z", f.at))
		}
	}
	state, err := startLoading(f.state, std.in).wait(cmd.Context())
	if err != nil {
		return err
	}
	last, err := f.learn(cmd, state, std)
	if err != nil {
		return err
	}
	if at.IsZero() {
		at = state.Summary().To
		if last.After(at) {
			at = last
		}
		if at.IsZero() {
			at = time.Now()
		}
	}
	a := nodeauthz.NewAuthorizer(state.Graph, features, f.skew)
	return explain(std.out, node, attrs, at, a, state.RBAC)
}

// learn takes state from audit logs and returns the time of their last event.
func (f *explainFlags) learn(cmd *cobra.Command, state *cluster.State, std streams) (time.Time, error) {
	if len(f.logs) == 0 {
		return time.Time{}, nil
	}
	inputs, err := file.Expand(f.logs, std.in)
	if err != nil {
		return time.Time{}, err
	}
	res, err := file.Read(cmd.Context(), inputs, file.Options{Want: audit.Want{State: true}}, func(b file.Batch) error {
		for i := range b.Events {
			if audit.ChangesState(&b.Events[i]) {
				state.ApplyAudit(&b.Events[i])
			}
		}
		b.Release()
		return nil
	})
	if err != nil {
		return time.Time{}, err
	}
	if err := errors.Join(res.Errors...); err != nil {
		return time.Time{}, err
	}
	if res.Counts.Read == 0 {
		return time.Time{}, fmt.Errorf("--audit-log: no audit event in %s", strings.Join(f.logs, ", "))
	}
	return res.Last, nil
}

// explain prints the verdict and its evidence.
func explain(w io.Writer, node string, attrs *authorizer.AttributesRecord, at time.Time, a *nodeauthz.Authorizer, store *rbac.Store) error {
	ex := a.Explain(attrs, at)
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	race := ""
	if ex.Race {
		race = " (race)"
	}
	line("%s%s  %s %s by node %s at %s", strings.ToUpper(ex.Verdict.String()), race, attrs.Verb, what(attrs), report.Visible(node),
		at.UTC().Format(time.RFC3339Nano))
	if ex.Verdict == nodeauthz.Deny {
		if reason := ex.Reason; reason != "" {
			line("  reason: %s", report.Visible(reason))
		} else {
			line("  reason: none given: no static rule for nodes allows it")
		}
	}
	if ex.Detail != "" {
		line("  %s", report.Visible(ex.Detail))
	}
	switch {
	case ex.Object == nil && ex.Verdict == nodeauthz.Allow:
		line("  by a static rule of the authorizer, whatever the graph says")
	case ex.Path != nil:
		line("  path: %s", report.Visible(ex.Path.String()))
		line("        %s", lifetime(ex.Path))
	case ex.Object != nil:
		evidence(line, node, &ex)
	}
	if ex.Verdict == nodeauthz.Unknown {
		line("  to know it takes state from before then: a journal that begins earlier (--state), or an audit log with bodies (--audit-log)")
	}
	rbacPart(line, attrs, at, store)
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("writing the explanation: %w", err)
	}
	return nil
}

func evidence(line func(string, ...any), node string, ex *nodeauthz.Explanation) {
	switch {
	case len(ex.Leads) == 0 && ex.Verdict == nodeauthz.Unknown:
		// What the state does not reach is no evidence.
	case len(ex.Leads) == 0:
		line("  nothing led from %s to any node then", report.Visible(ex.Object.String()))
	default:
		line("  who did lead to it:")
		for i := range ex.Leads {
			line("    %s, %s", report.Visible(ex.Leads[i].String()), lifetime(&ex.Leads[i]))
		}
		if ex.Others > 0 {
			line("    and %d more", ex.Others)
		}
	}
	if ex.Last == nil && ex.Next == nil && ex.Verdict != nodeauthz.Unknown {
		line("  node %s never did, as far as the state knows", report.Visible(node))
	}
	if ex.Last != nil {
		line("  node %s last did by %s, %s", report.Visible(node), report.Visible(ex.Last.String()), lifetime(ex.Last))
	}
	if ex.Next != nil {
		line("  node %s did later by %s, %s", report.Visible(node), report.Visible(ex.Next.String()), lifetime(ex.Next))
	}
}

func rbacPart(line func(string, ...any), attrs *authorizer.AttributesRecord, at time.Time, store *rbac.Store) {
	n := 0
	for g := range store.Grants(attrs, at) {
		if n++; n > nodeauthz.MaxLeads {
			line("  and further bindings")
			return
		}
		line("  %s", report.Visible(rbac.FormatReason(g)))
	}
	if n == 0 {
		if store.Covers(at) {
			line("  RBAC: no binding allows it")
		} else {
			line("  RBAC: not known (the state has no roles and bindings of then)")
		}
	}
}

// what names what is asked for as the arguments do.
func what(a *authorizer.AttributesRecord) string {
	if !a.ResourceRequest {
		return report.Visible(a.Path)
	}
	s := a.Resource
	if a.APIGroup != "" {
		s += "." + a.APIGroup
	}
	if a.Subresource != "" {
		s += "/" + a.Subresource
	}
	switch {
	case a.Namespace != "":
		s += " " + a.Namespace + "/" + a.Name
	case a.Name != "":
		s += " " + a.Name
	}
	return report.Visible(s)
}

func lifetime(p *nodeauthz.Path) string {
	from, to := "from before the state begins", "to the state's end"
	if !p.From.IsZero() {
		from = "from " + p.From.Format(time.RFC3339Nano)
	}
	if !p.To.IsZero() {
		to = "until " + p.To.Format(time.RFC3339Nano)
	}
	return from + " " + to
}

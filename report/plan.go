package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nodetrail/nodetrail/rbac"
)

// Step is one of the plan, in the order in which they are to be taken.
type Step struct {
	What string `json:"what"`
	// Commands are for a shell, with the names of this cluster; what stands in angle brackets is to be filled in.
	Commands []string `json:"commands"`
}

// planNames bounds how many of many things a step has commands for.
const planNames = 10

// plan are the steps from what the report found to the bindings' deletion. nodeOff says that the Node authorizer is not in force,
// restricted that nothing shows that NodeRestriction is not.
func plan(r *Report, x *Readiness, bindings []NodeBinding, nodeOff, restricted bool) []Step {
	p := []Step{}
	add := func(what string, commands ...string) { p = append(p, Step{what, append([]string{}, commands...)}) }
	if nodeOff || !restricted {
		what := "Enable the Node authorizer before RBAC and the admission plugin NodeRestriction on every apiserver; the bindings stay meanwhile, and nothing breaks"
		if !nodeOff {
			what = "Enable the admission plugin NodeRestriction on every apiserver"
		}
		add(what, "kube-apiserver --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction <the flags that it has>")
	}
	closeHoles(x, add)
	conform(x, add)
	if len(x.Clients) > 0 {
		var names []string
		for i := range x.Clients {
			if name := strconv.Quote(x.Clients[i].UserAgent); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		add(fmt.Sprintf("Give what needs a binding a service account and a role of its own, and move it there: %s. Whatever reached what it should not is to be looked at first",
			someOf(names, planNames)),
			"nodetrail suggest --state <journal> --verify <audit log> > rbac.yaml", "kubectl apply --dry-run=server -f rbac.yaml", "kubectl apply -f rbac.yaml")
	}
	if nodeOff || len(x.Blockers) > 0 || x.Evidence != "sufficient" {
		add("Let a week of ordinary work go by, with deployments, drains and a node that joins, and ask again: this report must say \"ready\"",
			"nodetrail report --window 7d")
	}
	going := bindingsToGo(x, bindings)
	var keep, remove, without []string
	for i, b := range going {
		if i == planNames {
			break
		}
		keep, remove = append(keep, "kubectl get "+kubectlName(b)+" -o yaml > "+fmt.Sprintf("binding-%d.yaml", i+1)), append(remove, "kubectl delete "+kubectlName(b))
		without = append(without, "--without "+shellWord(strings.ToLower(b.Kind)+"/"+joinName(b.Namespace, b.Name)))
	}
	if len(going) == 0 {
		what := "No binding is known that gives nodes the role system:node, or that they used; look whether there is one"
		if bindings != nil {
			what = "The state holds no binding any more that gives nodes the role system:node, or that they used; look whether that is so"
		}
		add(what,
			"kubectl get clusterrolebindings,rolebindings -A -o wide | grep -E 'system:nodes?'")
		return p
	}
	more := ""
	if n := len(going) - planNames; n > 0 {
		more = fmt.Sprintf(" (and of %s that nodes use)", plural(int64(n), "more binding"))
	}
	add("See what their deletion would change, and keep a copy to go back with"+more,
		append([]string{"nodetrail what-if --state <journal> " + strings.Join(without, " ") + " --fail-on breaks <audit log>"}, keep...)...)
	add("Delete what gives nodes more than the Node authorizer does"+more+". If a binding also binds others, take only the subjects out that are nodes", remove...)
	add("Watch for denials for a day; to go back, apply the copies", "nodetrail report --window 24h", "kubectl apply -f binding-1.yaml")
	return p
}

// closeHoles says how each kind of hole is closed.
func closeHoles(x *Readiness, add func(string, ...string)) {
	has := func(kind string) bool {
		return slices.ContainsFunc(x.Holes, func(h Hole) bool { return h.Kind == kind })
	}
	if has(HoleRule) {
		add("Check every rule that decides: nothing is found by one that is disabled", "nodetrail analyze --state <journal> <audit log>")
	}
	if has(HoleMode) {
		add("Say how the apiserver decides: its flag is the truth", "nodetrail analyze --authorization-mode Node,RBAC --state <journal> <audit log>")
	}
	if has(HolePolicy) {
		add("Have the audit policy log all requests of nodes at level Metadata, by this as the first of its rules, and check it",
			`printf '%s\n' '- level: Metadata' '  userGroups: ["system:nodes"]'`,
			"nodetrail analyze --audit-policy <policy.yaml> --state <journal> <audit log>")
	}
	if has(HoleLog) {
		add("Get the part of the log that is missing, from every apiserver, rotated files included",
			"nodetrail analyze --state <journal> '/var/log/kubernetes/audit/*.log*'")
	}
	if has(HoleNode) {
		what, commands := "See why nodes are silent: down, cut off, or served by an apiserver whose log is missing", []string{}
		for _, name := range x.Unseen[:min(len(x.Unseen), planNames)] {
			commands = append(commands, "kubectl get node "+shellWord(name))
		}
		if len(commands) == 0 {
			commands = []string{"kubectl get nodes"}
		}
		add(what, commands...)
	}
	if has(HoleState) || has(HoleAgreement) {
		add("Record the whole state of the cluster for the time of the log", "nodetrail record --output <journal>")
	}
}

// conform says how identities are made to conform.
func conform(x *Readiness, add func(string, ...string)) {
	if len(x.Identities) == 0 {
		return
	}
	reasons := map[string]bool{}
	for i := range x.Identities {
		reasons[x.Identities[i].Reason] = true
	}
	add(fmt.Sprintf("Issue certificates of their own to the kubelets of %s that %s not conform (%s): O=system:nodes and CN=system:node:<name of the Node object>",
		plural(int64(len(x.Identities)), "identity"), map[bool]string{true: "does", false: "do"}[len(x.Identities) == 1], listed(reasons, 8)),
		"kubectl get nodes -o name",
		"openssl x509 -noout -subject -in /var/lib/kubelet/pki/kubelet-client-current.pem")
}

// nodeRole is the role that gives every node what the Node authorizer gives each for its own objects.
const nodeRole = "system:node"

// bindingsToGo are those that give the role of nodes, and those that let requests through which would break; of what is known only what
// is still there. Others stay: kubeadm's let nodes renew their certificates and read what they join by.
func bindingsToGo(x *Readiness, known []NodeBinding) []Binding {
	there := map[Binding]bool{}
	var out []Binding
	for _, b := range known {
		if there[b.Binding] = true; b.Role == nodeRole {
			out = append(out, b.Binding)
		}
	}
	for i := range x.Clients {
		b := x.Clients[i].ref
		if (b.Kind == rbac.KindClusterRoleBinding || b.Kind == rbac.KindRoleBinding) && (known == nil || there[b]) { // the log may say anything
			out = append(out, b)
		}
	}
	slices.SortFunc(out, func(a, b Binding) int { return compareBindings(&a, &b) })
	return slices.Compact(out)
}

func kubectlName(b Binding) string {
	s := strings.ToLower(b.Kind) + " " + shellWord(b.Name)
	if b.Namespace != "" {
		s += " -n " + shellWord(b.Namespace)
	}
	return s
}

// shellWord quotes a name from a log for a shell. What no shell or terminal can take as it is comes out as escapes, which name nothing.
func shellWord(s string) string {
	s = Visible(s)
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._:/@", r)
	}
	if s != "" && s[0] != '-' && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	if strings.HasPrefix(s, "-") {
		s = "./" + s // no name of an object begins so, and no flag is to be smuggled in
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

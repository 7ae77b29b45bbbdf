package report

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/wording"
)

// Step is one of the plan, in the order in which they are to be taken.
type Step struct {
	Code   codes.Code   `json:"code"`
	Params codes.Params `json:"params"`
	// What is the step in words.
	What string `json:"what"`
	// Commands are for a shell, with the names of this cluster; what stands in angle brackets is to be filled in.
	Commands []string `json:"commands"`
}

// planNames bounds how many of many things a step has commands for.
const planNames = 10

// steps gathers a plan.
type steps struct {
	all   []Step
	words wording.Words
}

func (s *steps) add(code codes.Code, p codes.Params, commands ...string) {
	s.all = append(s.all, Step{code, paramsOf(p), s.words.Say(code, p), append([]string{}, commands...)})
}

// plan are the steps from what the report found to the bindings' deletion. nodeOff says that the Node authorizer is not in force,
// restricted that nothing shows that NodeRestriction is not.
func plan(x *Readiness, f *Facts, nodeOff, restricted bool) []Step {
	p := &steps{all: []Step{}, words: f.Words}
	if nodeOff || !restricted {
		code := codes.EnableNodeAuthorizer
		if !nodeOff {
			code = codes.EnableNodeRestriction
		}
		p.add(code, nil, "kube-apiserver --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction <the flags that it has>")
	}
	p.closeHoles(x)
	p.conform(x)
	p.clients(x.Clients, f.Kubelets)
	if !x.Good(true) {
		p.add(codes.AskAgain, nil, "nodetrail report --window 7d")
	}
	p.deletion(bindingsToGo(x, f.Bindings), f.Bindings, "")
	return p.all
}

// clients are the steps for the clients that need a binding. A kubelet needs none, so what calls itself one is to be found, and not to be given rights.
func (s *steps) clients(all []Client, further []string) {
	var kubelets, others []string
	for i := range all {
		name, of := all[i].UserAgent, &others
		if rules.IsKubelet(name, further) {
			of = &kubelets
		}
		if !slices.Contains(*of, name) {
			*of = append(*of, name)
		}
	}
	named := func(names []string) codes.Params {
		return append(codes.Params{codes.Int(codes.ParamTotal, len(names))}, codes.List(codes.ParamClient, names[:min(len(names), planNames)])...)
	}
	if len(kubelets) > 0 {
		s.add(codes.FindKubelets, named(kubelets), "nodetrail explain --state <journal> --audit-id <audit ID of a request> <audit log>")
	}
	if len(others) > 0 {
		s.add(codes.MoveClients, named(others),
			"nodetrail suggest --state <journal> --verify <audit log> > rbac.yaml", "kubectl apply --dry-run=server -f rbac.yaml", "kubectl apply -f rbac.yaml")
	}
}

// deletion are the steps for the bindings that go, of those that are known. with is what what-if is given in addition.
func (s *steps) deletion(going []Binding, known []NodeBinding, with string) {
	var keep, remove, without, restore []string
	var more, checked codes.Params
	if n := len(going) - planNames; n > 0 {
		more = codes.Params{codes.Int(codes.ParamMore, n)}
	}
	for i, b := range going[:min(len(going), planNames)] {
		copied := fmt.Sprintf("binding-%d.yaml", i+1)
		keep, restore = append(keep, "kubectl get "+kubectlName(b)+" -o yaml > "+copied), append(restore, "kubectl apply -f "+copied)
		command, precondition := deletionOf(b, known)
		if remove = append(remove, command); precondition {
			checked = codes.Params{codes.Text(codes.ParamChecked, "true")}
		}
		without = append(without, "--without "+shellWord(strings.ToLower(b.Kind)+"/"+joinName(b.Namespace, b.Name)))
	}
	if len(going) == 0 {
		var p codes.Params
		if known != nil {
			p = codes.Params{codes.Text(codes.ParamNone, "true")}
		}
		s.add(codes.FindBindings, p, "kubectl get clusterrolebindings,rolebindings -A -o wide | grep -E 'system:nodes?'")
		return
	}
	s.add(codes.PreviewDeletion, more,
		append([]string{"nodetrail what-if --state <journal> " + strings.Join(without, " ") + with + " --fail-on breaks <audit log>"}, keep...)...)
	s.add(codes.DeleteBindings, slices.Concat(more, checked), remove...)
	s.add(codes.WatchDenials, nil, append([]string{"nodetrail report --window 1h", "nodetrail report --window 24h"}, restore...)...)
}

// deletionOf is the command that deletes a binding, or only the subjects that are nodes, and whether it deletes only the object that was looked at.
func deletionOf(b Binding, known []NodeBinding) (command string, precondition bool) {
	i := slices.IndexFunc(known, func(k NodeBinding) bool { return k.Binding == b })
	if i >= 0 && len(known[i].NodeSubjects) > 0 {
		return removalOf(b, known[i].NodeSubjects), false
	}
	if i < 0 || !plainWord(known[i].UID) || !plainWord(known[i].ResourceVersion) {
		return "kubectl delete " + kubectlName(b), false
	}
	path := "/apis/" + rbacv1.GroupName + "/v1/"
	if b.Namespace != "" {
		path += "namespaces/" + url.PathEscape(b.Namespace) + "/"
	}
	path += strings.ToLower(b.Kind) + "s/" + url.PathEscape(b.Name)
	options := `{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"` + known[i].UID + `","resourceVersion":"` + known[i].ResourceVersion + `"}}`
	return "echo " + shellWord(options) + " | kubectl delete --raw " + shellWord(path) + " -f -", true
}

// removalOf is the command that removes subjects from a binding, each only if it is still in its place.
func removalOf(b Binding, subjects []NodeSubject) string {
	var ops []string
	for _, s := range slices.Backward(subjects) { // the places of those before stay as they are
		for _, of := range [...][2]string{{"kind", s.Kind}, {"name", s.Name}} {
			value, _ := json.Marshal(of[1]) // of a string
			ops = append(ops, fmt.Sprintf(`{"op":"test","path":"/subjects/%d/%s","value":%s}`, s.Place, of[0], value))
		}
		ops = append(ops, fmt.Sprintf(`{"op":"remove","path":"/subjects/%d"}`, s.Place))
	}
	return "kubectl patch " + kubectlName(b) + " --type=json -p " + shellWord("["+strings.Join(ops, ",")+"]")
}

// closeHoles says how each kind of gap is closed.
func (s *steps) closeHoles(x *Readiness) {
	has := func(kind codes.Kind) bool {
		return slices.ContainsFunc(x.Holes, func(h Hole) bool { return h.Kind == kind })
	}
	if has(codes.Rule) {
		s.add(codes.CheckAllRules, nil, "nodetrail analyze --state <journal> <audit log>")
	}
	if has(codes.Mode) {
		s.add(codes.GiveMode, nil, "nodetrail analyze --authorization-mode Node,RBAC --state <journal> <audit log>")
	}
	if has(codes.Policy) {
		s.add(codes.FixPolicy, nil,
			`printf '%s\n' '- level: Metadata' '  userGroups: ["system:nodes"]'`,
			"nodetrail analyze --audit-policy <policy.yaml> --state <journal> <audit log>")
	}
	if slices.ContainsFunc(x.Holes, func(h Hole) bool {
		return h.Kind == codes.Log && h.Code != codes.WindowShort && h.Code != codes.NamesTogether
	}) { // time alone mends a short log
		s.add(codes.CompleteLog, nil, "nodetrail analyze --state <journal> '/var/log/kubernetes/audit/*.log*'")
	}
	if has(codes.Node) {
		var commands []string
		for _, name := range x.Unseen[:min(len(x.Unseen), planNames)] {
			commands = append(commands, "kubectl get node "+shellWord(name))
		}
		if len(commands) == 0 {
			commands = []string{"kubectl get nodes"}
		}
		s.add(codes.LookAtNodes, nil, commands...)
	}
	if has(codes.State) || has(codes.Agreement) {
		s.add(codes.RecordState, nil, "nodetrail record --output <journal>")
	}
}

// conform says how identities are made to conform.
func (s *steps) conform(x *Readiness) {
	if len(x.Identities) == 0 {
		return
	}
	reasons := map[string]bool{}
	for i := range x.Identities {
		reasons[string(x.Identities[i].Code)] = true
	}
	s.add(codes.IssueCertificates, append(codes.Params{codes.Int(codes.ParamCount, len(x.Identities))},
		codes.List(codes.ParamReason, slices.Sorted(maps.Keys(reasons)))...),
		"kubectl get nodes -o name",
		"openssl x509 -noout -subject -in /var/lib/kubelet/pki/kubelet-client-current.pem")
}

// bindingsToGo are those that the migration deletes. Where no binding is known, they are those by which requests got through that would break.
func bindingsToGo(x *Readiness, known []NodeBinding) []Binding {
	var out []Binding
	for i := range known {
		if known[i].Fate == checks.Goes.String() {
			out = append(out, known[i].Binding)
		}
	}
	for i := range x.Clients {
		if b := x.Clients[i].ref; known == nil && (b.Kind == rbac.KindClusterRoleBinding || b.Kind == rbac.KindRoleBinding) { // the log may say anything
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

// plainWord reports whether a shell takes s as it is, for a word and no flag.
func plainWord(s string) bool {
	odd := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-._:/@", r)
	}
	return s != "" && s[0] != '-' && strings.IndexFunc(s, odd) < 0
}

// shellWord quotes a name from a log for a shell. What no shell or terminal can take as it is comes out as escapes, which name nothing.
func shellWord(s string) string {
	s = wording.Visible(s)
	if plainWord(s) {
		return s
	}
	if strings.HasPrefix(s, "-") {
		s = "./" + s // no name of an object begins so, and no flag is to be smuggled in
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

package coverage

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/nodeadmission"
	"github.com/nodetrail/nodetrail/wording"
)

// gapsOf is what a policy hides, a line each: "cause: message", with "minor " before it where it is.
func gapsOf(t *testing.T, text string, o PolicyOptions) []string {
	t.Helper()
	p, err := ParsePolicy([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Warnings) > 0 {
		t.Errorf("warnings: %q", p.Warnings)
	}
	var out []string
	for _, g := range p.Gaps(o) {
		line := string(g.Code) + ": " + wording.English{}.Say(g.Code, g.Params)
		if !g.Decides() {
			line = "minor " + line
		}
		out = append(out, line)
	}
	return out
}

// policyOf makes a policy of its rules.
func policyOf(rules string) string {
	return "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n" + rules
}

func TestGCEPolicy(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("testdata", "policies", "gce.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"policy-hidden: rules[2] (line 17) of the audit policy keeps these requests of nodes out of the log: get nodes",
		"minor policy-hidden: rules[4] (line 30) of the audit policy keeps these requests of nodes out of the log: get /version; no binding is needed for them",
		"minor policy-hidden: rules[5] (line 32) of the audit policy keeps these requests of nodes out of the log: create events; no binding is needed for them",
		"minor policy-no-write-bodies: rules[7] (line 43) of the audit policy logs these writes of nodes without their body, so that what NodeRestriction says of them is " +
			"unknown: create serviceaccounts/token",
		"minor policy-no-write-bodies: rules[10] (line 62) of the audit policy logs these writes of nodes without their body, so that what NodeRestriction says of them is " +
			"unknown: create resourceslices.resource.k8s.io, create podcertificaterequests.certificates.k8s.io",
	}
	if diff := cmp.Diff(want, gapsOf(t, string(b), PolicyOptions{StateFromAudit: true})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestGaps(t *testing.T) {
	for _, c := range []struct {
		name, policy string
		state        bool
		want         []string // parts of the lines, in their order
	}{
		{name: "everything at Metadata", policy: policyOf("- level: Metadata\n")},
		{name: "RequestReceived left out", policy: "omitStages: [RequestReceived]\n" + policyOf("- level: Metadata\n")},
		{name: "others' requests hidden", policy: policyOf("- level: None\n  users: [system:kube-proxy, system:apiserver]\n- level: Metadata\n")},
		{name: "other groups hidden", policy: policyOf("- level: None\n  userGroups: [system:serviceaccounts, system:masters]\n- level: Metadata\n")},
		{name: "probes hidden", policy: policyOf("- level: None\n  nonResourceURLs: [/healthz*, /livez*, /readyz*]\n- level: Metadata\n")},
		{name: "a rule that comes too late", policy: policyOf("- level: Metadata\n- level: None\n  userGroups: [system:nodes]\n")},
		{
			name: "nodes hidden", policy: policyOf("- level: None\n  userGroups: [system:nodes]\n- level: Metadata\n"),
			want: []string{"policy-hidden: rules[0] (line 4) of the audit policy keeps these requests of nodes out of the log: get/list/watch secrets", "minor policy-hidden: rules[0]"},
		},
		{
			name: "all authenticated users hidden", policy: policyOf("- level: None\n  userGroups: [system:authenticated]\n  verbs: [get]\n- level: Metadata\n"),
			want: []string{"get secrets", "minor "},
		},
		{
			name: "reads hidden", policy: policyOf("- level: None\n  verbs: [get, list, watch]\n- level: Metadata\n"),
			want: []string{"get/list/watch secrets, get/list/watch configmaps", "minor "},
		},
		{
			name: "no rule for secrets", policy: policyOf("- level: Metadata\n  resources: [{group: '', resources: [pods, pods/*, nodes, nodes/*, configmaps, serviceaccounts/token]}]\n"),
			want: []string{"policy-hidden: the audit policy, whose rules do not match them, keeps these requests of nodes out of the log: get/list/watch secrets", "minor "},
		},
		{
			name: "secrets of one namespace", policy: policyOf("- level: None\n  namespaces: [vault]\n  resources: [{group: '', resources: [secrets]}]\n- level: Metadata\n"),
			want: []string{"out of the log: get/list/watch secrets in vault"},
		},
		{
			name: "secrets of all other namespaces", policy: policyOf("- level: Metadata\n  namespaces: [kube-system]\n- level: None\n  resources: [{group: '', resources: [secrets]}]\n- level: Metadata\n"),
			want: []string{"rules[1] (line 6) of the audit policy keeps these requests of nodes out of the log: get/list/watch secrets in most namespaces"},
		},
		{
			name: "one node", policy: policyOf("- level: None\n  users: ['system:node:master-1']\n  verbs: [get]\n  resources: [{group: '', resources: [secrets]}]\n- level: Metadata\n"),
			want: []string{"get secrets by system:node:master-1"},
		},
		{
			name: "leases", policy: policyOf("- level: None\n  resources: [{group: coordination.k8s.io, resources: [leases]}]\n- level: Metadata\n"),
			want: []string{"create/get/update/patch/delete leases.coordination.k8s.io"},
		},
		{
			name: "no decision", policy: "omitStages: [ResponseComplete]\n" + policyOf("- level: Metadata\n"),
			want: []string{
				"policy-no-decision: rules[0] (line 5) of the audit policy leaves out the stage ResponseComplete, so that the API server's decision is missing for: get/list secrets",
				"minor policy-no-decision",
			},
		},
		{
			name: "watches are decided when they end", policy: policyOf("- level: Metadata\n  omitStages: [ResponseStarted]\n  resources: [{group: '', resources: [secrets]}]\n- level: Metadata\n"),
			want: []string{"policy-late-decision: rules[0] (line 4) of the audit policy leaves out the stage ResponseStarted, so that these watches are in the log " +
				"with the API server's decision only when they end, and not while they are open: watch secrets"},
		},
		{
			name: "watches are logged when they end", policy: policyOf("- level: Metadata\n  omitStages: [RequestReceived, ResponseStarted]\n  verbs: [watch]\n  resources: [{group: '', resources: [secrets, services]}]\n- level: Metadata\n"),
			want: []string{
				"policy-late-decision: rules[0] (line 4) of the audit policy leaves out the stage ResponseStarted, so that these watches are in the log with the API server's decision " +
					"only when they end, and not while they are open: watch secrets",
				"minor policy-late-decision: rules[0] (line 4) of the audit policy leaves out the stage ResponseStarted, so that these watches are in the log with the API server's decision " +
					"only when they end, and not while they are open: watch services; no binding is needed for them",
			},
		},
		{
			name: "no stage is left", policy: policyOf("- level: Metadata\n  omitStages: [RequestReceived, ResponseStarted, ResponseComplete]\n  resources: [{group: '', resources: [secrets]}]\n- level: Metadata\n"),
			want: []string{"policy-hidden: rules[0] (line 4) of the audit policy keeps these requests of nodes out of the log: get/list/watch secrets"},
		},
		{name: "no bodies, and state is given", policy: policyOf("- level: Metadata\n")},
		{
			name: "no bodies, and state is learned from them", policy: policyOf("- level: Metadata\n"), state: true,
			want: []string{"policy-no-bodies: rules[0] (line 4) of the audit policy logs these requests without their body, and no other state is given: create pods, create pods/binding"},
		},
		{
			name: "bodies of pods alone", policy: policyOf("- level: Request\n  verbs: [create]\n  resources: [{group: '', resources: [pods, pods/binding]}]\n- level: Metadata\n"), state: true,
			want: []string{"no other state is given: create persistentvolumes, create volumeattachments.storage.k8s.io"},
		},
		{
			name: "the scheduler's bindings hidden", policy: policyOf("- level: None\n  users: [system:kube-scheduler]\n- level: RequestResponse\n"), state: true,
			want: []string{"create pods by system:kube-scheduler, create pods/binding by system:kube-scheduler"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := slices.DeleteFunc(gapsOf(t, c.policy, PolicyOptions{StateFromAudit: c.state}), func(g string) bool {
				return strings.HasPrefix(g, "minor policy-no-write-bodies") // TestWriteBodies
			})
			ok := len(got) == len(c.want)
			for i := 0; ok && i < len(got); i++ {
				ok = strings.Contains(got[i], c.want[i])
			}
			if !ok {
				t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(c.want, "\n  "))
			}
		})
	}
}

// TestWriteBodies wants a gap, and one that decides nothing, for each policy that leaves out a body that NodeRestriction reads.
func TestWriteBodies(t *testing.T) {
	const gap = "minor policy-no-write-bodies: rules[0] (line 4) of the audit policy logs these writes of nodes without their body, so that what " +
		"NodeRestriction says of them is unknown: "
	for policy, want := range map[string]string{
		"- level: Metadata\n": gap + "create/update/patch nodes, update/patch nodes/status, create pods, create serviceaccounts/token, " +
			"update/patch persistentvolumeclaims/status, create resourceslices.resource.k8s.io, create podcertificaterequests.certificates.k8s.io",
		"- level: Metadata\n  resources: [{group: '', resources: [serviceaccounts/token]}]\n- level: Request\n": gap + "create serviceaccounts/token",
		"- level: Request\n": "",
		"- level: Metadata\n  userGroups: [system:masters]\n- level: Request\n": "",
	} {
		got := slices.DeleteFunc(gapsOf(t, policyOf(policy), PolicyOptions{}), func(g string) bool { return !strings.Contains(g, "write-bodies") })
		if strings.Join(got, "\n") != want {
			t.Errorf("%s: %q, want %q", policy, got, want)
		}
	}
	own, err := os.ReadFile(filepath.Join("..", "deploy", "audit-policy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range gapsOf(t, string(own), PolicyOptions{}) {
		if strings.Contains(g, "write-bodies") {
			t.Errorf("deploy/audit-policy.yaml: %s", g)
		}
	}
	questions := writeQuestions()
	for i := range questions {
		for _, verb := range strings.Fields(questions[i].verbs) {
			a := questions[i].attributes(nodeUser(anyNode), verb, anyNamespace)
			if !nodeadmission.ReadsBody(verb, a.APIGroup, a.Resource, a.Subresource, "a") {
				t.Errorf("%s %s: NodeRestriction does not read the body", verb, questions[i].resource)
			}
		}
	}
}

func TestParsePolicy(t *testing.T) {
	for name, c := range map[string]struct{ policy, want string }{
		"empty":               {"", "it does not say that it is a Policy"},
		"not YAML":            {"{", "unexpected end of JSON input"},
		"no kind":             {"rules: [{level: None}]", "it does not say that it is a Policy"},
		"an older version":    {"apiVersion: audit.k8s.io/v1beta1\nkind: Policy\nrules: [{level: None}]", "it does not say that it is a Policy of audit.k8s.io/v1"},
		"a misspelt kind":     {"apiVersion: audit.k8s.io/v1\nkind: Polciy\nrules: [{level: None}]", "it does not say that it is a Policy of audit.k8s.io/v1 (line 2)"},
		"another kind":        {"apiVersion: audit.k8s.io/v1\nkind: EventList\nitems: []", "it does not say that it is a Policy of audit.k8s.io/v1 (line 2)"},
		"no rules":            {"apiVersion: audit.k8s.io/v1\nkind: Policy", "it has no rules"},
		"no level":            {policyOf("- verbs: [get]\n"), "rules[0].level (line 4): Required value"},
		"a misspelt level":    {policyOf("- lvl: None\n"), "rules[0].level (line 4): Required value; unknown field \"rules[0].lvl\""},
		"a level in rule 2":   {policyOf("- level: None\n\n- verbs: [get]\n  level: Some\n"), "rules[1].level (line 7): Unsupported value"},
		"a level of its own":  {policyOf("- level: Some\n"), "Unsupported value: \"Some\""},
		"both kinds of rules": {policyOf("- level: None\n  nonResourceURLs: [/x]\n  namespaces: [a]\n"), "rules cannot apply to both"},
		"a wrong type":        {policyOf("- level: [None]\n"), "rules.level (line 4) is a list, and must be a string"},
		"a verb for verbs":    {policyOf("- level: None\n  verbs: [get]\n- level: None\n  verbs: get\n"), "rules.verbs (line 7) is a string, and must be a list"},
		"rules are a mapping": {policyOf("  level: None\n"), "rules (line 4) is a mapping, and must be a list"},
		"a number":            {policyOf("- level: None\n  namespaces: [1]\n"), "namespaces"},
		"too long":            {strings.Repeat("#", MaxPolicyBytes+1), "longer than"},
	} {
		if _, err := ParsePolicy([]byte(c.policy)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q in it", name, err, c.want)
		}
	}
	p, err := ParsePolicy([]byte(policyOf("- level: Metadata\n  verb: [get]\n")))
	if err != nil || len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], `unknown field "rules[0].verb"`) {
		t.Errorf("an unknown field: %v, warnings %q", err, p.Warnings)
	}
	if _, err := ReadPolicy(filepath.Join(t.TempDir(), "none.yaml")); err == nil {
		t.Error("a file that is not there is read")
	}
	if _, err := ReadPolicy(filepath.Join("testdata", "policies", "gce.yaml")); err != nil {
		t.Error(err)
	}
}

// Whatever the file holds: no panic, bounded messages, and the same answer twice.
func FuzzParsePolicy(f *testing.F) {
	gce, err := os.ReadFile(filepath.Join("testdata", "policies", "gce.yaml"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(gce)
	f.Add([]byte(policyOf("- level: None\n  userGroups: [system:nodes]\n  resources: [{group: '*', resources: ['*/status', 'pods/*'], resourceNames: [x]}]\n")))
	f.Add([]byte(`{"apiVersion":"audit.k8s.io/v1","kind":"Policy","omitStages":["ResponseComplete"],"rules":[{"level":"Metadata","users":["system:node:a"]}]}`))
	f.Add([]byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nx: &a [1]\nrules: *a\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := ParsePolicy(b)
		if err != nil {
			if len(err.Error()) > 1000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		got := p.Gaps(PolicyOptions{StateFromAudit: true})
		if diff := cmp.Diff(got, p.Gaps(PolicyOptions{StateFromAudit: true})); diff != "" {
			t.Error(diff)
		}
		for _, g := range got {
			if say := (wording.English{}).Say(g.Code, g.Params); len(say) > 4000 || len(g.Params) > codes.MaxParams {
				t.Errorf("a message of %d bytes", len(say))
			}
		}
	})
}

// A policy that is read again is the same one until its file changes.
func TestReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(policyOf("- level: None\n"))
	one, err := ReadPolicy(path)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := one.Again(path); err != nil || again != one {
		t.Errorf("%p is read again as %p, %v", one, again, err)
	}
	write(policyOf("- level: Metadata\n"))
	other, err := one.Again(path)
	if err != nil || other == one || len(other.Hides(nodeUser(anyNode), Harmless{}).Requests) > 0 {
		t.Errorf("of another text: %p, %v", other, err)
	}
	write("rules:")
	if p, err := other.Again(path); err == nil {
		t.Errorf("of a text that is no policy: %+v", p)
	}
}

// Of others than nodes a kind of request is logged only if it is of everybody whom the policy names, and of anybody else.
func TestLogsOfOthers(t *testing.T) {
	const metadata = "- level: Metadata\n"
	for rules, want := range map[string]bool{
		metadata: true,
		"- level: None\n  resources: [{group: \"\", resources: [events]}]\n" + metadata:                         true,
		"- level: None\n  userGroups: [\"system:nodes\"]\n" + metadata:                                          true,
		"- level: None\n  users: [\"system:node:worker-1\"]\n" + metadata:                                       true,
		"- level: None\n  users: [\"system:kube-scheduler\"]\n  verbs: [get]\n" + metadata:                      true,
		"- level: None\n  users: [\"system:kube-scheduler\"]\n" + metadata:                                      false,
		"- level: None\n  userGroups: [\"system:serviceaccounts\"]\n" + metadata:                                false,
		"- level: None\n  userGroups: [\"system:serviceaccounts:ci\"]\n" + metadata:                             false,
		"- level: None\n  namespaces: [ci]\n" + metadata:                                                        false,
		"- level: None\n  resources: [{group: \"\", resources: [\"pods/*\"]}]\n" + metadata:                     false,
		"- level: Metadata\n  userGroups: [\"system:nodes\"]\n":                                                 false,
		"- level: Metadata\n  omitStages: [ResponseComplete]\n  users: [jane]\n" + metadata:                     false,
		"- level: Metadata\n  resources: [{group: \"\", resources: [pods, \"pods/binding\"]}]\n- level: None\n": true,
	} {
		p, err := ParsePolicy([]byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n" + rules))
		if err != nil {
			t.Fatal(err)
		}
		if got := p.LogsOfOthers("create", "pods/binding"); got != want {
			t.Errorf("%s: %t", rules, got)
		}
	}
}

// Reviews are logged if those of everybody are, but for programs of the control plane, of which it is known what they ask.
func TestLogsReviews(t *testing.T) {
	const metadata = "- level: Metadata\n"
	const reviews = "  resources: [{group: authorization.k8s.io, resources: [%s]}]\n"
	for rules, want := range map[string]bool{
		metadata: true,
		"- level: None\n  users: [\"system:kube-scheduler\", \"system:kube-controller-manager\", \"system:apiserver\"]\n" + metadata: true,
		"- level: None\n  users: [\"system:serviceaccount:monitoring:proxy\"]\n" + metadata:                                          false,
		"- level: None\n  userGroups: [\"system:serviceaccounts\"]\n" + metadata:                                                     false,
		"- level: None\n" + fmt.Sprintf(reviews, "subjectaccessreviews") + metadata:                                                  false,
		"- level: None\n" + fmt.Sprintf(reviews, "localsubjectaccessreviews") + metadata:                                             false,
		"- level: None\n" + fmt.Sprintf(reviews, "selfsubjectaccessreviews") + metadata:                                              true,
	} {
		p, err := ParsePolicy([]byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n" + rules))
		if err != nil {
			t.Fatal(err)
		}
		if got := p.LogsReviews(); got != want {
			t.Errorf("%s: %t", rules, got)
		}
	}
}

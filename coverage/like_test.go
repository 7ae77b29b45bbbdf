package coverage

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	internal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// A request of anybody that a policy hides is hidden as well if one of those that Like returns makes it.
func TestLikeMissesNobody(t *testing.T) {
	rng := rand.New(rand.NewPCG(19, 2026))
	pick := func(all ...string) string {
		var out []string
		for _, s := range all {
			if rng.IntN(3) == 0 {
				out = append(out, s)
			}
		}
		return strings.Join(out, ", ")
	}
	names := []string{"jane", "ci", "cni"}
	groups := []string{"ops", "staff", "dev", user.AllAuthenticated}
	hidden := 0
	for range 3000 {
		var b strings.Builder
		b.WriteString("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n")
		for range 1 + rng.IntN(4) {
			fmt.Fprintf(&b, "- level: %s\n", []string{"None", "Metadata"}[rng.IntN(2)])
			for field, words := range map[string]string{"users": pick(names...), "userGroups": pick(groups...), "verbs": pick("get", "list"), "namespaces": pick("shop", "kube-system")} {
				if words != "" {
					fmt.Fprintf(&b, "  %s: [%s]\n", field, words)
				}
			}
		}
		b.WriteString("- level: Metadata\n")
		p, err := ParsePolicy([]byte(b.String()))
		if err != nil {
			t.Fatalf("%s\n%v", b.String(), err)
		}
		hides := func(u user.Info, verb, namespace string) bool {
			return p.levels.EvaluatePolicyRule(&authorizer.AttributesRecord{
				User: u, Verb: verb, Namespace: namespace, Resource: "secrets", Name: "db", APIVersion: "v1", ResourceRequest: true,
			}).Level == internal.LevelNone
		}
		base := []string{groups[rng.IntN(3)], user.AllAuthenticated}
		name := AnyName
		if rng.IntN(3) == 0 {
			name = names[rng.IntN(3)]
		}
		like := p.Like(&user.DefaultInfo{Name: name, Groups: base}, true)
		who := &user.DefaultInfo{Name: name, Groups: slices.Clone(base)}
		if name == AnyName {
			who.Name = append(names, "somebody")[rng.IntN(4)]
		}
		for _, g := range groups {
			if rng.IntN(2) == 0 {
				who.Groups = append(who.Groups, g)
			}
		}
		for _, verb := range []string{"get", "list"} {
			for _, namespace := range []string{"shop", "kube-system", "other"} {
				if !hides(who, verb, namespace) {
					continue
				}
				hidden++
				if !slices.ContainsFunc(like, func(u *user.DefaultInfo) bool { return hides(u, verb, namespace) }) {
					t.Fatalf("%s\nhides %s %s of %+v, and of none like %s in %q", b.String(), verb, namespace, who, name, base)
				}
			}
		}
	}
	if hidden < 1000 {
		t.Errorf("only %d requests were hidden", hidden)
	}
}

func TestLikeOfAccounts(t *testing.T) {
	p := parsed(t, policyOf("- level: None\n  users: ['system:serviceaccount:ops:d', 'system:kube-scheduler', jane]\n- level: None\n  users: [ci]\n  userGroups: [staff, 'system:masters']\n- level: Metadata\n"))
	for _, c := range []struct {
		name   string
		groups string
		own    bool
		want   string
	}{
		{"system:serviceaccount:ops:x", "system:serviceaccounts system:serviceaccounts:ops", false, ""},
		{AnyName, "system:serviceaccounts:ops", true, "system:serviceaccount:ops:d"},
		{AnyName, "system:serviceaccounts:dev", false, ""},
		{AnyName, user.AllAuthenticated, false, "system:serviceaccount:ops:d jane ci ci+staff"},
		{AnyName, "team", true, "system:serviceaccount:ops:d system:kube-scheduler jane ci ci+staff ci+system:masters"},
		{"ci", "team", false, "ci+staff"},
		{"jane", "team", true, ""},
	} {
		var got []string
		for _, u := range p.Like(&user.DefaultInfo{Name: c.name, Groups: append(strings.Fields(c.groups), user.AllAuthenticated)}, c.own)[1:] {
			text := u.Name
			for _, g := range []string{"staff", "system:masters"} {
				if slices.Contains(u.Groups, g) {
					text += "+" + g
				}
			}
			if strings.HasPrefix(u.Name, "system:serviceaccount:") && !slices.Contains(u.Groups, "system:serviceaccounts:ops") {
				t.Errorf("%s is not in the group of its namespace: %q", u.Name, u.Groups)
			}
			got = append(got, text)
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s in %s: %q, want %q", c.name, c.groups, s, c.want)
		}
	}
}

// Beyond the first namespaces that a policy names, each that other rules name counts, and of too many none is passed over in silence.
func TestNamespacesBeyondTheFirst(t *testing.T) {
	spaces := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprint("team-", i))
		}
		return strings.Join(all, ", ")
	}
	reviews := func(rules string) bool { return parsed(t, policyOf(rules+"- level: Metadata\n")).LogsReviews() }
	hides := "- level: None\n  namespaces: [payments]\n"
	for _, n := range []int{0, 19, 20, 500} {
		if rules := fmt.Sprintf("- level: Metadata\n  namespaces: [%s]\n", cmp.Or(spaces(n), "x")); reviews(rules+hides) || !reviews(rules) {
			t.Errorf("after %d namespaces, payments counts: %t; without it all is logged: %t", n, !reviews(rules+hides), reviews(rules))
		}
	}
	var apart strings.Builder
	for i := range maxApart + 1 {
		fmt.Fprintf(&apart, "- level: Metadata\n  namespaces: [team-%d]\n", i)
	}
	if reviews(apart.String()) {
		t.Error("more namespaces than are asked about count as logged")
	}
	who := &user.DefaultInfo{Name: "jane", Groups: []string{user.AllAuthenticated}}
	if p := parsed(t, policyOf(apart.String()+"- level: Metadata\n")); !p.HidesAsNode(who, Harmless{}).TooMany {
		t.Error("more namespaces than are asked about are not reported")
	}
}

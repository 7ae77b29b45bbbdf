package coverage

import (
	internal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// anybody are users of every kind that the policy tells apart, as far as it names them: any user, and each user and group that it names.
func (p *Policy) anybody() []user.Info {
	who := []user.Info{
		&user.DefaultInfo{Name: "nodetrail-example", Groups: []string{user.AllAuthenticated}}, nodeUser(anyNode),
		&user.DefaultInfo{Name: "system:bootstrap:abcdef", Groups: []string{"system:bootstrappers", user.AllAuthenticated}},
		&user.DefaultInfo{Name: user.KubeControllerManager, Groups: []string{user.AllAuthenticated}},
		&user.DefaultInfo{
			Name:   "system:serviceaccount:kube-system:certificate-controller",
			Groups: []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", user.AllAuthenticated},
		},
	}
	for i := range p.rules {
		for _, name := range p.rules[i].Users {
			who = append(who, &user.DefaultInfo{Name: name, Groups: []string{user.AllAuthenticated}})
		}
		for _, name := range p.rules[i].UserGroups {
			who = append(who, &user.DefaultInfo{Name: "nodetrail-example", Groups: []string{name, user.AllAuthenticated}})
		}
	}
	return who
}

// LogsBirths reports whether the policy logs each request that makes, approves or signs a CertificateSigningRequest with its body, whoever makes it, in any
// version of the API server.
func (p *Policy) LogsBirths() bool {
	for _, u := range p.anybody() {
		for _, sub := range []string{"", "approval", "status"} {
			for _, verb := range []string{"create", "update", "patch"} {
				if verb == "create" && sub != "" || verb != "create" && sub == "" {
					continue
				}
				a := authorizer.AttributesRecord{
					User: u, Verb: verb, APIGroup: "certificates.k8s.io", APIVersion: "v1", Resource: "certificatesigningrequests", Subresource: sub, Name: "nodetrail-example", ResourceRequest: true,
				}
				for _, by := range p.versions() {
					if rule, lost := p.decidedBy(by, &a); lost != "" || p.rules[rule].Level.Less(internal.LevelRequest) {
						return false
					}
				}
			}
		}
	}
	return true
}

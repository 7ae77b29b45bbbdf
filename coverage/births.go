package coverage

import (
	internal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// anybody are users of every kind that the policy tells apart, as far as it names them.
func (p *Policy) anybody() []user.Info {
	who := []user.Info{
		nodeUser(anyNode), &user.DefaultInfo{Name: "system:bootstrap:abcdef", Groups: []string{"system:bootstrappers", user.AllAuthenticated}},
		&user.DefaultInfo{Name: user.KubeControllerManager, Groups: []string{user.AllAuthenticated}},
		&user.DefaultInfo{
			Name:   "system:serviceaccount:kube-system:certificate-controller",
			Groups: []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", user.AllAuthenticated},
		},
	}
	for _, u := range p.Like(&user.DefaultInfo{Name: AnyName, Groups: []string{user.AllAuthenticated}}, true) {
		who = append(who, u)
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
					User: u, Verb: verb, APIGroup: "certificates.k8s.io", APIVersion: "v1", Resource: "certificatesigningrequests", Subresource: sub, Name: AnyName, ResourceRequest: true,
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

package rules

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/internal/test/effort"
)

// asking is a certificate request of a test.
type asking struct {
	cn     string
	orgs   []string
	names  []string
	signer string
	user   string
	groups []string
	denied bool
	cert   string // what stands for the certificate
}

// kubeletsAsk is a kubelet's own request, as a bootstrap token makes it.
func kubeletsAsk(node string) asking {
	return asking{
		cn: "system:node:" + node, orgs: []string{"system:nodes"}, signer: signerKubelet, user: "system:bootstrap:abcdef",
		groups: []string{"system:bootstrappers", "system:authenticated"},
	}
}

// pem is the certificate request; what differs in seed has another key.
func (a *asking) pem(tb testing.TB, seed string) []byte {
	tb.Helper()
	sum := sha256.Sum256([]byte(seed))
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: a.cn, Organization: a.orgs}}
	for _, n := range a.names {
		if ip := net.ParseIP(n); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, n)
		}
	}
	der, err := x509.CreateCertificateRequest(nil, template, ed25519.NewKeyFromSeed(sum[:]))
	if err != nil {
		tb.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

// body is the object at the given subresource.
func (a *asking) body(tb testing.TB, sub, name string) []byte {
	tb.Helper()
	type object = map[string]any
	spec := object{"request": a.pem(tb, name), "signerName": a.signer, "usages": []string{"digital signature", "client auth"}}
	out := object{"kind": "CertificateSigningRequest", "metadata": object{"name": name}, "spec": spec}
	if sub != "" {
		spec["username"], spec["groups"] = a.user, a.groups
		kind := "Approved"
		if a.denied {
			kind = "Denied"
		}
		status := object{"conditions": []object{{"type": kind, "status": "True"}}}
		if sub == "status" {
			status["certificate"] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(a.cert)})
		}
		out["status"] = status
	}
	data, err := json.Marshal(out)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

// credentialOf is the ID that the API server gives a certificate.
func credentialOf(cert string) string {
	sum := sha256.Sum256([]byte(cert))
	return certCredential + hex.EncodeToString(sum[:])
}

// signing makes the request one about a CertificateSigningRequest; sub is "" for its creation, by who asks for it.
func signing(tb testing.TB, a asking, sub, name string) with {
	return func(r *Request) {
		verb, by, groups := "update", "system:kube-controller-manager", []string{"system:authenticated"}
		if sub == "" {
			verb, by, groups = "create", a.user, a.groups
		}
		as(by, groups...)(r)
		does(verb + " certificatesigningrequests.certificates.k8s.io " + name)(r)
		r.Attrs.Subresource = sub
		r.Event.Verb, r.Event.RequestObject = verb, a.body(tb, sub, name)
		r.Event.ObjectRef = audit.ObjectRef{Resource: "certificatesigningrequests", APIGroup: "certificates.k8s.io", Subresource: sub, Name: name}
		code(200)(r)
	}
}

func by(user string, groups ...string) with {
	return as(user, append(groups, "system:authenticated")...)
}

func TestBirth(t *testing.T) {
	rule := bootstrapImpersonation()
	m := NewMemory()
	m.Bootstrap.Trusted = []string{"ops"}
	f := expects(t, rule, m)
	node := kubeletsAsk("worker-1")
	renews := node
	renews.user, renews.groups = "system:node:worker-1", []string{"system:nodes", "system:authenticated"}
	serving := renews
	serving.signer, serving.names = signerServing, []string{"worker-1", "10.0.0.1"}

	f("a bootstrap token asks", "", signing(t, node, "", "csr-1"))
	f("a kubelet renews", "", signing(t, renews, "", "csr-1"))
	f("a kubelet asks for a serving certificate", "", signing(t, serving, "", "csr-1"))
	for _, sub := range []string{"approval", "status"} {
		f("the controller, "+sub, "", signing(t, node, sub, "csr-1"))
		f("the controller's account, "+sub, "", signing(t, node, sub, "csr-1"), by("system:serviceaccount:kube-system:certificate-controller"))
	}

	other := renews
	other.cn = "system:node:worker-2"
	f("another node's", `critical: user "system:node:worker-1" asked for a certificate for CN="system:node:worker-2", O="system:nodes", which is another node's`, signing(t, other, "", "csr-1"))
	f("another node's, refused", `high: user "system:node:worker-1" asked for a certificate for CN="system:node:worker-2", O="system:nodes", which is another node's`, signing(t, other, "", "csr-1"), code(403))
	f("another node's, a dry run", "", signing(t, other, "", "csr-1"), func(r *Request) { r.Event.RequestURI = "/apis/x?dryRun=All" })

	const odd, isOdd = `asked for a certificate for CN="system:node:worker-1", %s, which is not a kubelet's: `,
		`critical: user "system:kube-controller-manager" approved a certificate for CN="system:node:worker-1", %s, for which %s asked, and which is not a kubelet's: `
	for name, change := range map[string]struct {
		a    asking
		want string
	}{
		"the signer of any client": {asking{signer: signerClient}, "signer kubernetes.io/kube-apiserver-client"},
		"another group":            {asking{orgs: []string{"system:masters"}}, "groups other than system:nodes"},
		"a group more":             {asking{orgs: []string{"system:nodes", "%s"}}, "groups other than system:nodes"},
		"names":                    {asking{names: []string{"api.example.com"}}, "names api.example.com"},
	} {
		for _, user := range []string{node.user, renews.user} {
			a := node
			if a.user = user; user == renews.user {
				a.groups = renews.groups
			}
			if change.a.signer != "" {
				a.signer = change.a.signer
			}
			if change.a.orgs != nil {
				a.orgs = slices.Sorted(slices.Values(change.a.orgs))
			}
			a.names = change.a.names
			orgs := fmt.Sprintf("O=%q", a.orgs[0])
			if len(a.orgs) > 1 {
				orgs += fmt.Sprintf(", O=%q", a.orgs[1])
			}
			f(name, fmt.Sprintf("high: user %q ", user)+fmt.Sprintf(odd, orgs)+change.want, signing(t, a, "", "csr-1"))
			f(name+", approved", fmt.Sprintf(isOdd, orgs, strings.TrimPrefix(user, "system:node:"))+change.want, signing(t, a, "approval", "csr-1"))
		}
	}

	const approved = `high: user "jane" approved a certificate for CN="system:node:worker-1", O="system:nodes" in place of the controller`
	f("approved by hand", approved, signing(t, node, "approval", "csr-1"), by("jane"))
	f("approved by the same name", `high: user "system:serviceaccount:kube-system2:certificate-controller" approved a certificate for CN="system:node:worker-1", O="system:nodes" in place of the controller`,
		signing(t, node, "approval", "csr-1"), by("system:serviceaccount:kube-system2:certificate-controller"))
	f("approved by who is trusted", "", signing(t, node, "approval", "csr-1"), by("ops"))
	f("approved in vain", "", signing(t, node, "approval", "csr-1"), by("jane"), code(403))
	denied := node
	denied.denied = true
	f("denied by hand", "", signing(t, denied, "approval", "csr-1"), by("jane"))
	f("a serving certificate", "", signing(t, serving, "approval", "csr-1"), by("jane"))
	user := asking{cn: "dev", orgs: []string{"dev"}, signer: signerClient, user: "dev"}
	f("a developer's", "", signing(t, user, "approval", "csr-1"), by("jane"))
	f("by a node", `critical: user "system:node:worker-7" is a node and approved a certificate for CN="system:node:worker-1", O="system:nodes"`, signing(t, node, "approval", "csr-1"), as("system:node:worker-7", "system:nodes"))
	f("by a patch", `low: user "jane" approved the certificate request "csr-1" in place of the controller; this event does not show what it is for`,
		signing(t, node, "approval", "csr-1"), by("jane"), patched(`{"status":{"conditions":[{"type":"Approved","status":"True"}]}}`))
	f("by the controller, without a body", "", signing(t, node, "approval", "csr-1"), func(r *Request) { r.Event.RequestObject = nil })
	f("a creation without a body", "", signing(t, other, "", "csr-1"), func(r *Request) { r.Event.RequestObject = nil })
}

// births is a tale about certificates: requests of many nodes over time.
type births struct {
	tale
	t   testing.TB
	n   int
	ids map[string]string // the credentials of nodes
}

// ask has a certificate requested at a second, and if cert is not empty, approved and signed at once.
func (b *births) ask(second int, a asking, cert string, address string) {
	b.n++
	name := fmt.Sprintf("csr-%d", b.n)
	a.cert = cert
	changes := []with{signing(b.t, a, "", name), code(201), from(address)}
	b.one(second, name, changes...)
	if cert != "" {
		b.one(second, name+"-a", signing(b.t, a, "approval", name))
		b.one(second+1, name+"-s", signing(b.t, a, "status", name))
	}
}

// lives has a node renew its Lease with a credential every ten seconds.
func (b *births) lives(node string, from_, to int, cert, address string) {
	for s := from_; s < to; s += 10 {
		b.one(s, node, lease(node), certificate(cert), from(address))
	}
}

// findings plays the tale in several orders and returns what is found.
func (b *births) findings(s State) []string {
	return b.detects(b.t.(*testing.T), bootstrapImpersonation(), s)
}

func newBirths(t testing.TB) *births { return &births{t: t, ids: map[string]string{}} }

func TestBirthOfLiveNode(t *testing.T) {
	const asked, got = `user "system:bootstrap:abcdef" asked for a certificate of node worker-1`, `user "system:bootstrap:abcdef" got a certificate of node worker-1`
	const critical = "critical: " + got + ` while its kubelet was running with another credential, from 10.9.9.9`
	a := kubeletsAsk("worker-1")
	f := func(name string, want []string, s State, play func(b *births)) {
		t.Helper()
		b := newBirths(t)
		b.lives("worker-9", 0, 1200, "X509SHA256=9", "10.0.0.9") // the log advances
		play(b)
		got := b.findings(s)
		for i := range got {
			_, got[i], _ = strings.Cut(got[i], " ")
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s:\n got %q\nwant %q", name, got, want)
		}
	}
	f("alive, signed", []string{critical}, nil, func(b *births) {
		b.lives("worker-1", 0, 1200, "X509SHA256=1", "10.0.0.1")
		b.ask(600, a, "evil", "10.9.9.9")
	})
	f("alive, asked only", []string{"high: " + asked + ` while its kubelet was running with another credential; it is not signed, from 10.9.9.9`}, nil, func(b *births) {
		b.lives("worker-1", 0, 1200, "X509SHA256=1", "10.0.0.1")
		b.ask(600, a, "", "10.9.9.9")
	})
	f("without credential IDs, from elsewhere", []string{critical}, nil, func(b *births) {
		b.lives("worker-1", 0, 1200, "", "10.0.0.1")
		b.ask(600, a, "evil", "10.9.9.9")
	})
	f("refused", nil, nil, func(b *births) {
		b.lives("worker-1", 0, 1200, "X509SHA256=1", "10.0.0.1")
		b.one(600, "csr-1", signing(t, a, "", "csr-1"), code(403), from("10.9.9.9"))
	})
	f("a dry run", nil, nil, func(b *births) {
		b.lives("worker-1", 0, 1200, "X509SHA256=1", "10.0.0.1")
		b.one(600, "csr-1", signing(t, a, "", "csr-1"), from("10.9.9.9"), func(r *Request) {
			r.Event.RequestURI = "/apis/certificates.k8s.io/v1/certificatesigningrequests?dryRun=All"
		})
	})
	own := a
	own.user, own.groups = "system:node:worker-1", []string{"system:nodes", "system:authenticated"}
	for _, at := range []int{570, 585, 595, 598, 600, 604, 610, 630} {
		f(fmt.Sprintf("%d seconds after the kubelet renews its certificate", at-598), []string{critical}, nil, func(b *births) {
			b.lives("worker-1", 0, 600, "X509SHA256=1", "10.0.0.1")
			b.ask(598, own, "own", "10.0.0.1")
			b.lives("worker-1", 603, 1200, credentialOf("own"), "10.0.0.1")
			b.ask(at, a, "evil", "10.9.9.9")
		})
	}
	const again = "low: " + asked + `, which exists, as when somebody sets it up again, from `
	f("without credential IDs, from the same address", []string{again + "10.0.0.1"}, nil, func(b *births) {
		b.lives("worker-1", 0, 1200, "", "10.0.0.1")
		b.ask(600, a, "new", "10.0.0.1")
	})
	f("made anew after a silence", []string{again + "10.0.0.1"}, nil, func(b *births) {
		b.lives("worker-1", 0, 500, "X509SHA256=1", "10.0.0.1")
		b.ask(600, a, "new", "10.0.0.1")
		b.lives("worker-1", 605, 1200, credentialOf("new"), "10.0.0.1")
	})
	f("made anew at once", []string{again + "10.0.0.1"}, nil, func(b *births) {
		b.lives("worker-1", 0, 599, "X509SHA256=1", "10.0.0.1")
		b.ask(600, a, "new", "10.0.0.1")
		b.lives("worker-1", 602, 1200, credentialOf("new"), "10.0.0.1")
	})
	f("made anew at the second attempt", []string{again + "10.0.0.1", again + "10.0.0.1"}, nil, func(b *births) {
		b.lives("worker-1", 0, 599, "X509SHA256=1", "10.0.0.1")
		b.ask(600, a, "first", "10.0.0.1")
		b.ask(604, a, "new", "10.0.0.1")
		b.lives("worker-1", 606, 1200, credentialOf("new"), "10.0.0.1")
	})
	f("made anew at a third attempt, with what the second one got", []string{critical, again + "10.9.9.9"}, nil, func(b *births) {
		b.lives("worker-1", 0, 599, "X509SHA256=1", "10.0.0.1")
		b.ask(500, a, "second", "10.9.9.9")
		b.ask(600, a, "third", "10.9.9.9")
		b.lives("worker-1", 606, 1200, credentialOf("second"), "10.9.9.9")
	})
	f("a new node", nil, nil, func(b *births) {
		b.ask(600, a, "new", "10.0.0.1")
		b.lives("worker-1", 602, 1200, credentialOf("new"), "10.0.0.1")
	})
	f("a Node that is gone", nil, &world{nodes: []string{"worker-1"}, gone: map[string]int{"worker-1": 550}}, func(b *births) {
		b.lives("worker-1", 0, 500, "X509SHA256=1", "10.0.0.1")
		b.ask(600, a, "new", "10.0.0.1")
	})
	f("a Node that is there", []string{again + "10.0.0.1"}, &world{nodes: []string{"worker-1"}}, func(b *births) { b.ask(600, a, "new", "10.0.0.1") })
	f("the log ends", []string{critical}, nil, func(b *births) {
		b.lives("worker-1", 0, 1200, "X509SHA256=1", "10.0.0.1")
		b.ask(1195, a, "evil", "10.9.9.9")
	})
	f("signed late", []string{
		"high: " + asked + ` while its kubelet was running with another credential; it is not signed, from 10.9.9.9`, critical,
	}, nil, func(b *births) {
		b.lives("worker-1", 0, 1200, "X509SHA256=1", "10.0.0.1")
		b.ask(300, a, "", "10.9.9.9")
		late := a
		late.cert = "evil"
		b.one(800, "x", signing(t, late, "approval", "csr-1"))
		b.one(800, "y", signing(t, late, "status", "csr-1"))
	})
	renews := a
	renews.user, renews.groups = "system:node:worker-1", []string{"system:nodes"}
	f("a kubelet renews", nil, nil, func(b *births) {
		b.lives("worker-1", 0, 600, "X509SHA256=1", "10.0.0.1")
		b.ask(600, renews, "new", "10.0.0.1")
		b.lives("worker-1", 605, 1200, credentialOf("new"), "10.0.0.1")
	})
	f("a certificate that moved", []string{"medium: a certificate of node worker-1 that was requested from 10.0.0.1 was first used from 10.7.7.7"}, nil, func(b *births) {
		b.lives("worker-1", 0, 600, "X509SHA256=1", "10.0.0.1")
		b.ask(600, renews, "new", "10.0.0.1")
		b.lives("worker-1", 605, 1200, credentialOf("new"), "10.7.7.7")
	})
	f("a certificate that moved, used again after many other credentials", []string{
		"medium: a certificate of node worker-1 that was requested from 10.0.0.1 was first used from 10.7.7.7",
	}, nil, func(b *births) {
		b.lives("worker-1", 0, 600, "X509SHA256=1", "10.0.0.1")
		b.ask(600, renews, "new", "10.0.0.1")
		b.lives("worker-1", 605, 700, credentialOf("new"), "10.7.7.7")
		for i := range maxHolders + 1 {
			b.lives("worker-1", 700+10*i, 710+10*i, fmt.Sprint("JTI=", i), "10.7.7.7")
		}
		b.lives("worker-1", 900, 1200, credentialOf("new"), "10.7.7.7")
	})
	for asked, used := range map[string]string{"127.0.0.1": "10.0.0.1", "10.0.0.1": "127.0.0.1", "::1": "fd00::1", "fd00::1": "10.0.0.1", "": "10.0.0.1"} {
		f("requested from "+asked+", used from "+used, nil, nil, func(b *births) {
			b.lives("worker-1", 0, 600, "X509SHA256=1", used)
			b.ask(600, renews, "new", asked)
			b.lives("worker-1", 605, 1200, credentialOf("new"), used)
		})
	}
	f("through a gateway of several nodes", nil, nil, func(b *births) {
		b.lives("worker-2", 0, 600, "X509SHA256=2", "10.7.7.7")
		b.lives("worker-1", 0, 600, "X509SHA256=1", "10.0.0.1")
		b.ask(600, renews, "new", "10.0.0.1")
		b.lives("worker-1", 605, 1200, credentialOf("new"), "10.7.7.7")
	})
	f("a certificate that nobody asked for", []string{"low: node worker-2 changed to a certificate that no request in the log asked for"}, nil, func(b *births) {
		b.lives("worker-1", 0, 300, "X509SHA256=1", "10.0.0.1")
		b.ask(300, renews, "new", "10.0.0.1")
		b.lives("worker-1", 305, 1200, credentialOf("new"), "10.0.0.1")
		b.lives("worker-2", 0, 800, "X509SHA256=2", "10.0.0.2")
		b.lives("worker-2", 800, 1200, "X509SHA256=3", "10.0.0.2")
	})
	f("somebody impersonates a node", nil, nil, func(b *births) {
		b.lives("worker-1", 0, 300, "X509SHA256=1", "10.0.0.1")
		b.ask(300, renews, "new", "10.0.0.1")
		b.lives("worker-1", 305, 1200, credentialOf("new"), "10.0.0.1")
		b.lives("worker-2", 0, 1200, "X509SHA256=2", "10.0.0.2")
		b.one(800, "worker-2", from("10.9.9.9"), impersonated)
	})
	f("where none is asked for", nil, nil, func(b *births) {
		b.lives("worker-2", 0, 800, "X509SHA256=2", "10.0.0.2")
		b.lives("worker-2", 800, 1200, "X509SHA256=3", "10.0.0.2")
	})

	serving := renews
	serving.signer, serving.names = signerServing, []string{"worker-1", "10.0.0.1", "fd00::1"}
	has := &world{nodes: []string{"worker-1"}, addresses: map[string][]string{"worker-1": {"WORKER-1", "10.0.0.1", "fd00:0::1"}}}
	f("a serving certificate", nil, has, func(b *births) { b.ask(300, serving, "new", "10.0.0.1") })
	f("of a node whose addresses nobody knows", nil, &world{}, func(b *births) { b.ask(300, serving, "new", "10.0.0.1") })
	foreign := serving
	foreign.names = append(slices.Clone(foreign.names), "api.example.com")
	const names = `user "system:node:worker-1" asked for a serving certificate of node worker-1 with names that its Node does not have: api.example.com, from 10.0.0.1`
	_ = names
	f("with a foreign name", []string{strings.TrimSuffix("medium: "+names, ", from 10.0.0.1")}, has, func(b *births) { b.ask(300, foreign, "", "10.0.0.1") })
	f("with a foreign name, approved", []string{strings.TrimSuffix("high: "+names, ", from 10.0.0.1")}, has, func(b *births) { b.ask(300, foreign, "new", "10.0.0.1") })
	f("with a foreign name, approved and not signed", []string{strings.TrimSuffix("high: "+names, ", from 10.0.0.1")}, has, func(b *births) {
		b.ask(300, foreign, "", "10.0.0.1")
		b.one(301, "csr-1-a", signing(t, foreign, "approval", "csr-1"))
	})
	late := *has
	late.blind = true
	f("with a name of before the state, approved", []string{strings.TrimSuffix("medium: "+names, ", from 10.0.0.1")}, &late, func(b *births) { b.ask(300, foreign, "new", "10.0.0.1") })

	uses := func(second int, address string) with {
		return func(r *Request) {
			by("system:serviceaccount:shop:web")(r)
			does("list pods shop/")(r)
			when(second)(r)
			certificate("JTI=1")(r)
			from(address)(r)
		}
	}
	mints := func(b *births) {
		b.lives("worker-1", 0, 600, "X509SHA256=1", "10.0.0.1")
		b.lives("worker-2", 0, 600, "X509SHA256=2", "10.0.0.2")
		b.one(100, "worker-1", does("create serviceaccounts/token shop/web"), certificate("X509SHA256=1"), from("10.0.0.1"), func(r *Request) { r.Event.IssuedCredential = "JTI=1" })
	}
	f("a token from its node", nil, nil, func(b *births) { mints(b); b.one(300, "pod", uses(300, "10.0.0.1")) })
	f("a token from a pod's address", nil, nil, func(b *births) { mints(b); b.one(300, "pod", uses(300, "10.244.1.7")) })
	f("a token from another node", []string{"high: a token of system:serviceaccount:shop:web that node worker-1 got is used from 10.0.0.2, an address of node worker-2"}, nil,
		func(b *births) {
			mints(b)
			b.one(300, "pod", uses(300, "10.0.0.2"))
			b.one(301, "pod", uses(301, "10.0.0.2"))
		})
	const reused = 2 * hour
	f("a token from an address that another node had an hour before", nil, nil, func(b *births) { mints(b); b.one(reused, "pod", uses(reused, "10.0.0.2")) })
	deleted := cluster(3)
	deleted.gone = map[string]int{"worker-2": 610}
	f("a token from an address of a Node that was deleted", nil, deleted, func(b *births) { mints(b); b.one(700, "pod", uses(700, "10.0.0.2")) })
	f("a token from an address of a Node that was deleted later", []string{"high: a token of system:serviceaccount:shop:web that node worker-1 got is used from 10.0.0.2, an address of node worker-2"},
		deleted, func(b *births) { mints(b); b.one(605, "pod", uses(605, "10.0.0.2")) })
}

// However many certificates somebody asks for, a request for a live node's is followed: one of another user, and one in the middle of the flood.
func TestBirthInFlood(t *testing.T) {
	floods := map[string]func(i int) asking{
		"a node's own serving certificates": func(int) asking {
			a := kubeletsAsk("worker-9")
			a.signer, a.user, a.groups = signerServing, "system:node:worker-9", []string{"system:nodes", "system:authenticated"}
			return a
		},
		"the same token, for names that no node has": func(i int) asking { return kubeletsAsk(fmt.Sprintf("made-up-%d", i)) },
	}
	for _, name := range slices.Sorted(maps.Keys(floods))[effort.Of(0, 1):] {
		flood := floods[name]
		b := newBirths(t)
		b.lives("worker-9", 0, 1200, "X509SHA256=9", "10.0.0.9")
		b.lives("worker-1", 0, 1200, "X509SHA256=1", "10.0.0.1")
		most := effort.Of(2*maxOpenBirths, maxOpenBirths)
		for i := range most * 3 / 2 {
			if i == most {
				b.ask(600, kubeletsAsk("worker-1"), "evil", "10.9.9.9")
			}
			b.ask(590+i/1000, flood(i), "", "10.9.9.9")
		}
		b.sort()
		var above []string
		for _, line := range b.run(t, bootstrapImpersonation(), nil, nil, 100, false) {
			if !strings.Contains(line, " low: ") {
				above = append(above, line)
			}
		}
		if len(above) != 1 || !strings.Contains(above[0], ` critical: user "system:bootstrap:abcdef" got a certificate of node worker-1 `) {
			t.Errorf("%s: %q", name, above)
		}
	}
}

// A legitimate life of many nodes raises nothing above low, in any order within the lateness and across restarts; with one impersonation in it that is
// found, and nothing else above low.
func TestBirthsOfManyNodes(t *testing.T) {
	for seed := range effort.Of(uint64(40), 2) {
		rnd := rand.New(rand.NewPCG(seed, 15))
		for _, plant := range []bool{false, true} {
			b := newBirths(t)
			end := 1800 + rnd.IntN(3600)
			names := 4 + rnd.IntN(8)
			victim, at := 0, 0
			for i := range names {
				b.life(rnd, fmt.Sprintf("worker-%d", i), fmt.Sprintf("10.0.%d.%d", i/100, 1+i%100), end, i == 0)
			}
			if plant {
				at = 300 + rnd.IntN(200) // in which the first node lives
				b.ask(at, kubeletsAsk(fmt.Sprintf("worker-%d", victim)), "evil", "10.9.9.9")
			}
			for _, r := range b.requests { // clocks of API servers
				r.Time = r.Time.Add(time.Duration(rnd.IntN(300)) * time.Millisecond)
			}
			b.sort()
			rule, want := bootstrapImpersonation(), 0
			if plant {
				want = 1
			}
			for _, again := range []bool{false, true} {
				var above []string
				for _, line := range b.run(t, rule, nil, rnd, 1+rnd.IntN(40), again) {
					if !strings.Contains(line, " low: ") {
						above = append(above, line)
					}
				}
				if len(above) != want || plant && !strings.Contains(above[0], " critical: ") {
					t.Fatalf("seed %d, planted %t at %d, restarted %t: %q", seed, plant, at, again, above)
				}
			}
		}
	}
}

// life is one of a node: it comes to be by a bootstrap token, by who is trusted, or outside of Kubernetes; it renews its certificates and is made anew.
func (b *births) life(rnd *rand.Rand, node, address string, end int, steady bool) {
	kind, at, serial := rnd.IntN(3), rnd.IntN(200), 0
	next := func() string { serial++; return fmt.Sprintf("%s-%d", node, serial) }
	cert, born := next(), rnd.IntN(2) == 0 && !steady
	if born && kind == 0 {
		b.ask(at, kubeletsAsk(node), cert, address)
		at += 2 + rnd.IntN(5)
	}
	for at < end {
		until := at + 600 + rnd.IntN(1200)
		b.lives(node, at, min(until, end), credentialOf(cert), address)
		at = until
		if at+120 > end {
			b.lives(node, at, end, credentialOf(cert), address)
			return
		}
		switch event := rnd.IntN(4); {
		case kind == 0 && event < 2: // the kubelet renews its certificate, and its serving one
			a := kubeletsAsk(node)
			a.user, a.groups = "system:node:"+node, []string{"system:nodes", "system:authenticated"}
			cert = next()
			b.ask(at, a, cert, address)
			a.signer, a.names = signerServing, []string{node, address}
			b.ask(at+3, a, "serving-"+cert, address)
			at += 2
		case kind == 0: // made anew, at once or after a while
			at += rnd.IntN(2) * rnd.IntN(300)
			cert = next()
			b.ask(at, kubeletsAsk(node), cert, address)
			at += 2 + rnd.IntN(20)
		case kind == 1: // kops, EKS: another credential, and nothing in the log
			cert = next()
		default: // by hand: another key file, and a restart
			at += rnd.IntN(60)
			cert = next()
		}
	}
}

// FuzzCSR holds the reader of bodies to: no panic, nothing kept of the event, and what is read is bounded.
func FuzzCSR(f *testing.F) {
	a := kubeletsAsk("worker-1")
	a.names, a.cert = []string{"a", "10.0.0.1"}, "certificate"
	for _, sub := range []string{"", "approval", "status"} {
		f.Add(a.body(f, sub, "csr-1"), sub == "")
	}
	f.Add([]byte(`{"spec":{"request":"LS0tLS0="}}`), true)
	f.Add([]byte(`null`), false)
	f.Fuzz(func(t *testing.T, body []byte, create bool) {
		ev := &audit.Event{Verb: "update", RequestObject: slices.Clone(body), User: audit.User{Username: "u"}}
		if create {
			ev.Verb = "create"
		}
		s, ok := signingOf(ev)
		again, same := signingOf(ev)
		if ok != same || s.Key != again.Key {
			t.Error("read twice, it is another one")
		}
		if !ok {
			return
		}
		before := fmt.Sprintf("%+v", s)
		for i := range ev.RequestObject {
			ev.RequestObject[i] = 'x'
		}
		if fmt.Sprintf("%+v", s) != before {
			t.Error("it shares the event's memory")
		}
		if len(s.Key) != 32 || len(s.Names) > maxSANs || create && s.User != "u" {
			t.Errorf("%+v", s)
		}
	})
}

package webhook

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	auditapi "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/plugin/pkg/audit/webhook"
	"sigs.k8s.io/yaml"
)

func deployed(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// kubeconfig is the part of the format that deploy uses: any other key fails the test.
type kubeconfig struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Clusters   []struct {
		Name    string `json:"name"`
		Cluster struct {
			Server               string `json:"server"`
			CertificateAuthority string `json:"certificate-authority"`
		} `json:"cluster"`
	} `json:"clusters"`
	Users []struct {
		Name string `json:"name"`
		User struct {
			ClientCertificate string `json:"client-certificate"`
			ClientKey         string `json:"client-key"`
			TokenFile         string `json:"tokenFile"`
		} `json:"user"`
	} `json:"users"`
	Contexts []struct {
		Name    string `json:"name"`
		Context struct {
			Cluster string `json:"cluster"`
			User    string `json:"user"`
		} `json:"context"`
	} `json:"contexts"`
	CurrentContext string `json:"current-context"`
}

// kube-apiserver's own webhook backend delivers through the kubeconfigs in deploy, and waits as Retry-After asks.
func TestApiserver(t *testing.T) {
	f := newFiles(t)
	clients := newAuthority(t, "clients")
	write(t, f.roots, clients.pem)
	for _, v := range []struct {
		file string
		opt  Options
	}{
		{"audit-webhook.kubeconfig", Options{CertFile: f.cert, KeyFile: f.key, ClientCAFile: f.roots, AllowedClients: []string{"kube-apiserver"}}},
		{"audit-webhook-token.kubeconfig", Options{CertFile: f.cert, KeyFile: f.key, BearerTokenFiles: []string{write(t, tempFile(t), []byte(token))}}},
	} {
		t.Run(v.file, func(t *testing.T) {
			s := start(t, v.opt)
			dir := t.TempDir()
			cert, key := clients.issue("kube-apiserver", nil)
			write(t, filepath.Join(dir, "ca.crt"), f.ca.pem)
			write(t, filepath.Join(dir, "client.crt"), cert)
			write(t, filepath.Join(dir, "client.key"), key)
			write(t, filepath.Join(dir, "token"), []byte(token))
			text := string(deployed(t, v.file))
			var strict kubeconfig
			if err := yaml.UnmarshalStrict([]byte(text), &strict); err != nil {
				t.Fatal(err)
			}
			text = strings.ReplaceAll(text, "/etc/kubernetes/nodetrail", dir)
			text = strings.ReplaceAll(text, "https://nodetrail.example:9443/audit", s.url)
			// One attempt: that a 503 is overcome is Retry-After's doing.
			once := wait.Backoff{Steps: 1, Duration: time.Millisecond}
			backend, err := webhook.NewBackend(write(t, filepath.Join(dir, "config"), []byte(text)), auditv1.SchemeGroupVersion, once, nil)
			if err != nil {
				t.Fatal(err)
			}
			var refused atomic.Bool
			s.store.set(nil, func() error {
				if refused.CompareAndSwap(false, true) {
					return context.DeadlineExceeded
				}
				return nil
			})
			events := make([]*auditapi.Event, 400)
			for i := range events {
				events[i] = &auditapi.Event{
					AuditID: types.UID(strings.Repeat("x", i+1)), Level: auditapi.LevelMetadata, Stage: auditapi.StageResponseComplete, Verb: "get",
				}
				events[i].User.Username, events[i].User.Groups = "system:node:worker-1", []string{"system:nodes"}
			}
			if !backend.ProcessEvents(events...) {
				t.Error("the API server could not deliver")
			}
			if n := len(s.store.stored()); n != len(events) || len(s.letters.all()) != 0 {
				t.Errorf("%d events arrived, %+v", n, s.letters.all())
			}
			if st := s.server.Stats(); st.Requests["failed"] != 1 || st.Requests["stored"] != 1 {
				t.Errorf("%+v", st)
			}
		})
	}
}

func TestPolicy(t *testing.T) {
	loaded, err := policy.LoadPolicyFromBytes(deployed(t, "audit-policy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	rules := policy.NewPolicyRuleEvaluator(loaded)
	level := func(a authorizer.AttributesRecord) auditapi.Level {
		t.Helper()
		got := rules.EvaluatePolicyRule(&a)
		if d := cmp.Diff([]auditapi.Stage{auditapi.StageRequestReceived}, got.OmitStages); d != "" {
			t.Errorf("%+v omits other stages (-want +got):\n%s", a, d)
		}
		return got.Level
	}
	node := &user.DefaultInfo{Name: "system:node:worker-1", Groups: []string{"system:nodes", "system:authenticated"}}
	person := &user.DefaultInfo{Name: "jane", Groups: []string{"system:authenticated"}}
	scheduler := &user.DefaultInfo{Name: "system:kube-scheduler", Groups: []string{"system:authenticated"}}
	controller := &user.DefaultInfo{Name: "system:serviceaccount:kube-system:daemon-set-controller", Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	everybody := []user.Info{node, person, scheduler, controller, &user.DefaultInfo{Name: "system:kube-controller-manager"}, &user.DefaultInfo{Name: "system:apiserver", Groups: []string{"system:masters"}}}
	verbs := []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}
	of := func(u user.Info, verb, group, resource, subresource string) authorizer.AttributesRecord {
		return authorizer.AttributesRecord{User: u, Verb: verb, APIGroup: group, Resource: resource, Subresource: subresource, Namespace: "shop", Name: "x", ResourceRequest: true}
	}
	f := func(want auditapi.Level, a authorizer.AttributesRecord) {
		t.Helper()
		if got := level(a); got != want {
			t.Errorf("%s %s %s/%s %s of %s is logged at %s, want %s", a.Verb, a.APIGroup, a.Resource, a.Subresource, a.Path, a.User.GetName(), got, want)
		}
	}
	// All that a node does is there: of the writes that NodeRestriction decides by their body the body, too, and of the rest no more than that it was done.
	// Statuses of pods are too many for that.
	restricted := func(verb, resource, subresource string) bool {
		switch resource + "/" + subresource {
		case "pods/":
			return verb == "create"
		case "nodes/", "nodes/status", "serviceaccounts/token", "persistentvolumeclaims/status":
			return verb == "create" || verb == "update" || verb == "patch"
		}
		return false
	}
	for _, verb := range verbs {
		for _, r := range [][3]string{{"", "secrets", ""}, {"", "pods", ""}, {"", "pods", "status"}, {"", "nodes", ""}, {"", "nodes", "status"}, {"", "persistentvolumeclaims", "status"}, {"", "events", ""}, {"coordination.k8s.io", "leases", ""}, {"example.org", "widgets", ""}, {"rbac.authorization.k8s.io", "roles", ""}} {
			want := auditapi.LevelMetadata
			if restricted(verb, r[1], r[2]) {
				want = auditapi.LevelRequest
			}
			f(want, of(node, verb, r[0], r[1], r[2]))
		}
	}
	f(auditapi.LevelMetadata, authorizer.AttributesRecord{User: node, Verb: "get", Path: "/healthz"})
	// Nobody's secrets are.
	for _, u := range everybody {
		for _, verb := range verbs {
			for _, r := range [][3]string{{"", "secrets", ""}, {"", "configmaps", ""}, {"", "serviceaccounts", "token"}, {"authentication.k8s.io", "tokenreviews", ""}} {
				want := []auditapi.Level{auditapi.LevelMetadata, auditapi.LevelNone}
				if u == node && restricted(verb, r[1], r[2]) {
					want = []auditapi.Level{auditapi.LevelRequest} // for whom a node asks for a token; only the response has one
				}
				if got := level(of(u, verb, r[0], r[1], r[2])); !slices.Contains(want, got) {
					t.Errorf("%s %v of %s is logged at %s", verb, r, u.GetName(), got)
				}
			}
		}
	}
	// The state: what is bound, made and deleted, whoever does it.
	f(auditapi.LevelRequest, of(scheduler, "create", "", "pods", "binding"))
	f(auditapi.LevelMetadata, of(controller, "create", "", "pods", ""))
	f(auditapi.LevelMetadata, of(controller, "delete", "", "pods", ""))
	f(auditapi.LevelMetadata, of(person, "create", "", "pods", "eviction"))
	f(auditapi.LevelMetadata, of(controller, "create", "storage.k8s.io", "volumeattachments", ""))
	f(auditapi.LevelRequest, of(person, "create", "rbac.authorization.k8s.io", "clusterrolebindings", ""))
	// The rest is small.
	f(auditapi.LevelNone, of(scheduler, "watch", "", "pods", ""))
	f(auditapi.LevelNone, of(controller, "list", "", "pods", ""))
	f(auditapi.LevelNone, of(scheduler, "update", "coordination.k8s.io", "leases", ""))
	f(auditapi.LevelNone, authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "system:anonymous"}, Verb: "get", Path: "/livez"})
	// A kubelet without the group of nodes.
	f(auditapi.LevelMetadata, of(&user.DefaultInfo{Name: "kubelet", Groups: []string{"system:authenticated"}}, "list", "", "pods", ""))
}

// The policy looks at the original user: whoever acts as a node and reads secrets or configmaps is logged as himself.
func TestAttack10ImpersonatedReadsAreLogged(t *testing.T) {
	loaded, err := policy.LoadPolicyFromBytes(deployed(t, "audit-policy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	rules := policy.NewPolicyRuleEvaluator(loaded)
	for _, who := range []user.DefaultInfo{
		{Name: "system:serviceaccount:shop:backend", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"}},
		{Name: "system:kube-scheduler", Groups: []string{"system:authenticated"}}, {Name: "system:kube-controller-manager"},
		{Name: "jane", Groups: []string{"system:authenticated"}},
	} {
		for _, verb := range []string{"get", "list", "watch"} {
			for _, resource := range []string{"secrets", "configmaps"} {
				a := authorizer.AttributesRecord{User: &who, Verb: verb, Resource: resource, Namespace: "shop", Name: "db", ResourceRequest: true}
				if got := rules.EvaluatePolicyRule(&a).Level; got != auditapi.LevelMetadata {
					t.Errorf("%s %s of %s is logged at %s", verb, resource, who.Name, got)
				}
			}
		}
	}
}

// knownFlags are the flags of the webhook backend that kube-apiserver 1.36 has and has not deprecated
// (k8s.io/apiserver/pkg/server/options/audit.go), with the form of their values.
var knownFlags = map[string]string{
	"audit-policy-file":                     `/.+`,
	"audit-webhook-config-file":             `/.+`,
	"audit-webhook-initial-backoff":         `[0-9]+s`,
	"audit-webhook-version":                 `audit\.k8s\.io/v1`,
	"audit-webhook-mode":                    `batch|blocking|blocking-strict`,
	"audit-webhook-batch-buffer-size":       `[0-9]+`,
	"audit-webhook-batch-max-size":          `[0-9]+`,
	"audit-webhook-batch-max-wait":          `[0-9]+s`,
	"audit-webhook-batch-throttle-enable":   `true|false`,
	"audit-webhook-batch-throttle-qps":      `[0-9.]+`,
	"audit-webhook-batch-throttle-burst":    `[0-9]+`,
	"audit-webhook-truncate-enabled":        `true|false`,
	"audit-webhook-truncate-max-batch-size": `[0-9]+`,
	"audit-webhook-truncate-max-event-size": `[0-9]+`,
}

func TestFlags(t *testing.T) {
	files := map[string]bool{}
	for line := range strings.Lines(string(deployed(t, "kube-apiserver.flags"))) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(strings.TrimPrefix(line, "--"), "=")
		form, known := knownFlags[name]
		if !ok || !strings.HasPrefix(line, "--") || !known || files[name] {
			t.Errorf("%q is no flag, or comes twice", line)
			continue
		}
		files[name] = true
		if !regexp.MustCompile("^(" + form + ")$").MatchString(value) {
			t.Errorf("%q: the value is not %s", line, form)
		}
		if path, ok := strings.CutPrefix(value, "/etc/kubernetes/nodetrail/"); ok {
			deployed(t, path)
		}
	}
	if len(files) < 10 {
		t.Errorf("only %v", files)
	}
}

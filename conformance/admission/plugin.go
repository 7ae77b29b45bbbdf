package admission

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/informers"
	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/authentication/install" // the types of requests
	_ "k8s.io/kubernetes/pkg/apis/certificates/install"
	_ "k8s.io/kubernetes/pkg/apis/coordination/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
	"k8s.io/kubernetes/pkg/auth/nodeidentifier"
	"k8s.io/kubernetes/plugin/pkg/admission/noderestriction"
)

// Newest returns the version of Kubernetes in the module file that is used without -modfile, such as 1.37.1.
func Newest() (string, error) {
	data, err := os.ReadFile("../go.mod")
	if err != nil {
		return "", fmt.Errorf("looking for the version of Kubernetes: %w", err)
	}
	_, rest, ok := strings.Cut(string(data), "k8s.io/kubernetes v")
	if !ok {
		return "", errors.New("../go.mod has no k8s.io/kubernetes")
	}
	version, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(version), nil
}

// gates are feature gates of which only the state counts; those that are not listed are off.
type gates struct {
	featuregate.FeatureGate
	on map[string]bool
}

// Enabled reports a gate.
func (g gates) Enabled(key featuregate.Feature) bool { return g.on[string(key)] }

// newPlugin is the reference's plugin over the informers' indexers.
func newPlugin(on map[string]bool, objects informers.SharedInformerFactory, auth authorizer.AuthorizerFunc) *noderestriction.Plugin {
	p := noderestriction.NewPlugin(nodeidentifier.NewDefaultNodeIdentifier())
	p.InspectFeatureGates(gates{on: on})
	p.SetExternalKubeInformerFactory(objects)
	for _, name := range []string{"SetAuthorizer", "SetUnconditionalAuthorizer"} { // since 1.33, since 1.37
		if m := reflect.ValueOf(p).MethodByName(name); m.IsValid() {
			m.Call([]reflect.Value{reflect.ValueOf(auth)})
		}
	}
	return p
}

// outcome is an answer of the plugin. A code of 0 is an allow.
type outcome struct {
	code    int32
	message string
}

// ask gives the write to the plugin as kube-apiserver does.
func ask(p *noderestriction.Plugin, a admission.Attributes) outcome {
	if !p.Handles(a.GetOperation()) {
		return outcome{}
	}
	err := p.Admit(context.Background(), a, nil)
	if err == nil {
		return outcome{}
	}
	// As k8s.io/apiserver/pkg/endpoints/handlers/responsewriters, which logs as well: an error that wraps a status is none.
	if status, ok := err.(apierrors.APIStatus); ok { //nolint:errorlint // as upstream
		return outcome{code: status.Status().Code, message: status.Status().Message}
	}
	return outcome{code: http.StatusInternalServerError, message: err.Error()}
}

// decoded reads an object as the API server does: in the version that its text has, with defaults, into the internal type.
func decoded(data []byte) (runtime.Object, error) {
	obj, _, err := legacyscheme.Codecs.UniversalDecoder().Decode(data, nil, nil)
	return obj, err
}

// logged writes an object as the API server's audit log has it.
func logged(obj runtime.Object, gv schema.GroupVersion) ([]byte, error) {
	return runtime.Encode(legacyscheme.Codecs.LegacyCodec(gv), obj)
}

// served returns a version of a kind that this Kubernetes decodes.
func (g *generator) served(group, kind string) (schema.GroupVersion, bool) {
	var all []schema.GroupVersion
	for _, gv := range legacyscheme.Scheme.PrioritizedVersionsForGroup(group) {
		if legacyscheme.Scheme.Recognizes(gv.WithKind(kind)) {
			all = append(all, gv)
		}
	}
	if len(all) == 0 {
		return schema.GroupVersion{}, false
	}
	return pick(g, all...), true
}

// dedup drops owner references as the handlers of create and update do.
func dedup(obj runtime.Object) error {
	m, err := meta.Accessor(obj)
	if err != nil {
		return fmt.Errorf("a write of an object without metadata: %w", err)
	}
	var kept []metav1.OwnerReference
	seen := map[types.UID]bool{}
	for _, r := range m.GetOwnerReferences() {
		if !seen[r.UID] {
			kept = append(kept, r)
		}
		seen[r.UID] = true
	}
	m.SetOwnerReferences(kept)
	return nil
}

func nodeUser(node string) *user.DefaultInfo {
	return &user.DefaultInfo{Name: "system:node:" + node, Groups: []string{"system:nodes", "system:authenticated"}}
}

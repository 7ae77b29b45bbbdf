package cluster

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/nodetrail/nodetrail/internal/userfile"
)

// ClientConfig finds out how to reach a cluster, as kubectl does: the kubeconfig given, $KUBECONFIG, ~/.kube/config, or in a pod its
// service account. An empty context means the kubeconfig's current one.
func ClientConfig(kubeconfig, context string) (*rest.Config, error) {
	from := clientcmd.NewDefaultClientConfigLoadingRules()
	from.ExplicitPath = kubeconfig
	if kubeconfig != "" {
		c, err := clientcmd.LoadFromFile(kubeconfig)
		switch {
		case runtime.IsMissingKind(err), runtime.IsMissingVersion(err), runtime.IsNotRegisteredError(err), err != nil && strings.HasPrefix(err.Error(), "couldn't get version/kind"):
			return nil, fmt.Errorf("%s is not a kubeconfig", kubeconfig) // the error has Go's types
		case err != nil:
			return nil, fmt.Errorf("cannot use %s as a kubeconfig: %w", kubeconfig, userfile.Cause(err))
		case len(c.Clusters) == 0:
			return nil, fmt.Errorf("%s is not a kubeconfig, or has no clusters", kubeconfig)
		}
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(from, &clientcmd.ConfigOverrides{CurrentContext: context}).ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, errors.New("no kubeconfig found: give --kubeconfig, set KUBECONFIG, or run in a pod with a service account")
	case err != nil:
		return nil, fmt.Errorf("finding the cluster: %w", err)
	}
	config.UserAgent = "nodetrail"
	return config, nil
}

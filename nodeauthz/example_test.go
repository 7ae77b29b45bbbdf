package nodeauthz_test

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

// A pod with a secret was on worker-1 for a minute. What its kubelet may do depends on when it asks.
func Example() {
	six := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	seen := func(t time.Time) nodeauthz.Stamp { return nodeauthz.Stamp{Time: t, Source: nodeauthz.SourceAudit} }

	graph := nodeauthz.NewGraph()
	graph.CoverFrom(six.Add(-time.Hour)) // from then on, what was not seen was not there
	pod := nodeauthz.PodOf(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", UID: "u1"},
		Spec: corev1.PodSpec{
			NodeName: "worker-1", Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "db"}}}},
		},
	}, nodeauthz.PodClaims{})
	graph.SetPod(&pod, seen(six))
	graph.DeletePod("shop", "web-1", "u1", seen(six.Add(time.Minute)))

	features, err := nodeauthz.FeaturesFor("1.36")
	if err != nil {
		fmt.Println(err)
		return
	}
	auth := nodeauthz.NewAuthorizer(graph, features, 150*time.Millisecond)
	request := &authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: "system:node:worker-1", Groups: []string{user.NodesGroup}},
		Verb: "get", Resource: "secrets", APIVersion: "v1", Namespace: "shop", Name: "db", ResourceRequest: true,
	}
	for _, after := range []time.Duration{30 * time.Second, time.Minute + 100*time.Millisecond, 2 * time.Minute, -2 * time.Hour} {
		answer := auth.Decide(request, six.Add(after))
		fmt.Println(after, answer.Verdict, "race:", answer.Race)
	}
	// Output:
	// 30s allow race: false
	// 1m0.1s deny race: true
	// 2m0s deny race: false
	// -2h0m0s unknown race: false
}

// Command hollow is a hollow kubelet: the kubelet's own code over a runtime that only pretends, as Kubernetes' kubemark has it.
//
//	hollow NODE KUBECONFIG
//
// It differs from kubemark in two things for which that has no flags: it listens on the loopback interface alone, on any port, and its user agent is
// a kubelet's.
package main

import (
	"context"
	"fmt"
	"os"

	clientset "k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/version"
	fakeremote "k8s.io/cri-client/pkg/fake"
	cadvisortest "k8s.io/kubernetes/pkg/kubelet/cadvisor/testing"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubemark"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("want NODE KUBECONFIG, got %q", args)
	}
	node := args[0]
	config, err := clientcmd.BuildConfigFromFlags("", args[1])
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	// The kubelet's own defaults.
	config.ContentType, config.QPS, config.Burst = "application/vnd.kubernetes.protobuf", 50, 100
	config.UserAgent = fmt.Sprintf("kubelet/%s (linux/amd64) kubernetes/e2e", version.Get().GitVersion)
	client, err := clientset.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	flags, settings := kubemark.GetHollowKubeletConfig(&kubemark.HollowKubeletOptions{NodeName: node, MaxPods: 110})
	settings.Address = "127.0.0.1"
	heartbeat := restclient.CopyConfig(config)
	heartbeat.QPS, heartbeat.Timeout = -1, settings.NodeStatusUpdateFrequency.Duration
	heartbeatClient, err := clientset.NewForConfig(heartbeat)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	endpoint, err := fakeremote.GenerateEndpoint()
	if err != nil {
		return fmt.Errorf("starting the runtime: %w", err)
	}
	fake := fakeremote.NewFakeRemoteRuntime()
	if err := fake.Start(endpoint); err != nil {
		return fmt.Errorf("starting the runtime: %w", err)
	}
	defer fake.Stop()
	runtime, err := connect(ctx, endpoint, settings.RuntimeRequestTimeout.Duration)
	if err != nil {
		return fmt.Errorf("connecting to the runtime: %w", err)
	}
	kubemark.NewHollowKubelet(flags, settings, client, heartbeatClient, &cadvisortest.Fake{NodeName: node}, fake.ImageService, runtime,
		cm.NewStubContainerManager()).Run(ctx)
	return nil
}

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
	runtime, images, err := pretend(ctx, settings.RuntimeRequestTimeout.Duration)
	if err != nil {
		return fmt.Errorf("starting the runtime: %w", err)
	}
	start(ctx, kubemark.NewHollowKubelet(flags, settings, client, heartbeatClient, &cadvisortest.Fake{NodeName: node}, images, runtime,
		cm.NewStubContainerManager()))
	return nil
}

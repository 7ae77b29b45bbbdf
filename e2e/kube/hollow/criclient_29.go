//go:build k8s1_29

package main

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/trace"
	criapi "k8s.io/cri-api/pkg/apis"
	"k8s.io/kubernetes/pkg/kubelet/cri/remote"
	fakeremote "k8s.io/kubernetes/pkg/kubelet/cri/remote/fake"
	"k8s.io/kubernetes/pkg/kubemark"
)

// pretend is that of 1.29, where the client of the container runtime is a package of the kubelet.
func pretend(_ context.Context, timeout time.Duration) (criapi.RuntimeService, criapi.ImageManagerService, error) {
	endpoint, err := fakeremote.GenerateEndpoint()
	if err != nil {
		return nil, nil, err
	}
	fake := fakeremote.NewFakeRemoteRuntime()
	if err := fake.Start(endpoint); err != nil {
		return nil, nil, err
	}
	runtime, err := remote.NewRemoteRuntimeService(endpoint, timeout, trace.NewNoopTracerProvider())
	if err != nil {
		return nil, nil, fmt.Errorf("connecting to it: %w", err)
	}
	return runtime, fake.ImageService, nil
}

// start blocks for as long as the kubelet runs; it has no context to end it.
func start(_ context.Context, k *kubemark.HollowKubelet) { k.Run() }

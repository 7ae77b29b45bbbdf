//go:build !k8s1_29

package main

import (
	"context"
	"fmt"
	"time"

	criapi "k8s.io/cri-api/pkg/apis"
	fakeremote "k8s.io/cri-client/pkg/fake"
	"k8s.io/kubernetes/pkg/kubemark"
)

// pretend starts the runtime that only pretends, for as long as the process lives.
func pretend(ctx context.Context, timeout time.Duration) (criapi.RuntimeService, criapi.ImageManagerService, error) {
	endpoint, err := fakeremote.GenerateEndpoint()
	if err != nil {
		return nil, nil, err
	}
	fake := fakeremote.NewFakeRemoteRuntime()
	if err := fake.Start(endpoint); err != nil {
		return nil, nil, err
	}
	runtime, err := connect(ctx, endpoint, timeout)
	if err != nil {
		return nil, nil, fmt.Errorf("connecting to it: %w", err)
	}
	return runtime, fake.ImageService, nil
}

func start(ctx context.Context, k *kubemark.HollowKubelet) { k.Run(ctx) }

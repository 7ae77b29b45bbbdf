//go:build k8s1_33 || k8s1_34 || k8s1_35

package main

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace/noop"
	criapi "k8s.io/cri-api/pkg/apis"
	remote "k8s.io/cri-client/pkg"
	"k8s.io/klog/v2"
)

// connect is a client of the container runtime at the endpoint: the function has other parameters up to 1.35.
func connect(ctx context.Context, endpoint string, timeout time.Duration) (criapi.RuntimeService, error) {
	logger := klog.FromContext(ctx)
	return remote.NewRemoteRuntimeService(endpoint, timeout, noop.NewTracerProvider(), &logger)
}

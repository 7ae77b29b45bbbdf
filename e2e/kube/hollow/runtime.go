//go:build !k8s1_29 && !k8s1_33 && !k8s1_34 && !k8s1_35

package main

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace/noop"
	criapi "k8s.io/cri-api/pkg/apis"
	remote "k8s.io/cri-client/pkg"
)

// connect is a client of the container runtime at the endpoint.
func connect(ctx context.Context, endpoint string, timeout time.Duration) (criapi.RuntimeService, error) {
	return remote.NewRemoteRuntimeService(ctx, endpoint, timeout, noop.NewTracerProvider(), false)
}

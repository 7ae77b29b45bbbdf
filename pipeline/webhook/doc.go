// Package webhook is the endpoint that kube-apiserver's --audit-webhook-config-file posts audit events to.
//
// What goes in: POSTs of audit.k8s.io EventLists, over TLS, from senders that a client certificate or a bearer token shows to be the
// API server. What comes out: batches of decoded events for the pipeline ([Server.Run]), or single events as bytes with the key that
// keeps a node's together ([Server.RunRaw]), for a gateway that writes them to a broker.
//
// A 200 means that everything the body counts for is stored. kube-apiserver retries whatever is not 2xx, five times, and then loses the
// batch; so what will never be right (no JSON, too long, items that are no events) goes to the dead letters and is answered 200, and what
// may be right later (too much at once, a store that fails) is answered 429 or 503 with Retry-After, which client-go heeds by up to
// ten more attempts of its own within each of the five. Batches may come at once, out of order and again: the pipeline counts each
// request once.
//
// Nothing of a body is read before its sender is known. Memory is bounded: bodies, their decompressed form and the events decoded from them
// draw on one budget. A body is read when there is memory for it. Requests wait for that in the order in which they came, for two seconds at most; then the
// answer is 429.
//
// The package imports audit, pipeline/source and internal/credfile, and never pipeline.
package webhook

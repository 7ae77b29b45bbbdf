// Package result is what the end-to-end tests measured, for the page that tells of it (docs/e2e.md): each test writes a file, cmd/e2e reads them all.
package result

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Env names the folder for the files. Without it nothing is written.
const Env = "NODETRAIL_E2E_RESULTS"

// Scenes is what the scenarios showed.
type Scenes struct {
	Kubernetes, Etcd string
	Scenes           []Scene
	// Judged requests, Denials among them that the API server logged as NODE DENY, Lagged ones that it refused while its own graph was incomplete.
	Judged, Denials, Lagged                    int64
	Compared, Agree, RacesCompared, RacesAgree int64
	// Alerts is how long it took from a request to the alert, at the receiver.
	Alerts Latency
}

// Scene is one scenario.
type Scene struct {
	Name    string
	Seconds float64
}

// Left is a scene that did not run: Needs is the Kubernetes with which came what it needs, such as 1.33.
type Left struct{ Name, Needs string }

// Upgrade is what replacing an API server showed.
type Upgrade struct {
	// From and To are the versions of the API servers, Versions what the report says of them.
	From, To string
	Versions []string
	// Differ are the requests that were a race because the versions differ on them.
	Judged, Differ, Lagged                     int64
	Compared, Agree, RacesCompared, RacesAgree int64
	Seconds                                    float64
}

// Confined is what a hardened cluster showed: Seconds is how long CONFINED took once all Nodes were there, Steps what took it back.
type Confined struct {
	Nodes   int
	Window  time.Duration
	Seconds float64
	Steps   []Step
}

// Step is one step back from CONFINED, the check that it defeats, and how long it took until both answers said so.
type Step struct {
	Name, Check string
	Seconds     float64
}

// Scale is what the churn showed.
type Scale struct {
	Kubelets                                   int
	Churn                                      time.Duration
	Pods, Events, Judged                       int64
	Compared, Agree, RacesCompared, RacesAgree int64
	Unknown, Denials                           int64
	// Delay is from the request to the stored verdict, as nodetrail's own histogram has it.
	Delay Latency
	Usage map[string]Usage
}

// Pipeline is what the pipeline of processes showed.
type Pipeline struct {
	// Source is where the events came from, Versions those of what is only in the pipeline.
	Source   string
	Versions map[string]string
	// Events are those of the log; Taken those that were read from Kafka, some of them more than once.
	Events, Taken, Judged, Findings int64
	// Compared is how many sums were equal to those of analyze.
	Compared int
	Outages  []Outage
	// Alerts is how long it took from a request to the alert, at the receiver, while nothing was down; Disturbed of requests in the outages.
	Alerts, Disturbed Latency
	Usage             map[string]Usage
}

// Outage is what happened to a process, and how long it took from then until requests that were made afterwards had their alerts, of every partition.
type Outage struct {
	What string
	Took time.Duration
}

// Latency is a distribution.
type Latency struct {
	N             int
	P50, P99, Max time.Duration
}

// LatencyOf sorts the durations and returns their distribution.
func LatencyOf(d []time.Duration) Latency {
	if len(d) == 0 {
		return Latency{}
	}
	slices.Sort(d)
	at := func(q float64) time.Duration { return d[min(len(d)-1, int(q*float64(len(d))))] }
	return Latency{N: len(d), P50: at(0.5), P99: at(0.99), Max: d[len(d)-1]}
}

// Usage is what a process, or several of a kind, used.
type Usage struct {
	Processes int
	CPU       time.Duration
	// Peak is the largest resident memory of one, in bytes.
	Peak int64
}

// Write writes NAME.json.
func Write(name string, v any) error {
	dir := os.Getenv(Env)
	if dir == "" {
		return nil
	}
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the result %s: %w", name, err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".json"), b, 0o600); err != nil {
		return fmt.Errorf("writing the result %s: %w", name, err)
	}
	return nil
}

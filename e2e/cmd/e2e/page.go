package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/e2e/result"
)

// pageOf tells what the tests measured. What has not run is left out.
func pageOf(dir string, took time.Duration) (string, error) {
	var b strings.Builder
	b.WriteString(`<!-- Written by make e2e-page: do not edit. -->

# End to end

These tests compare what nodetrail says with a real control plane: kube-apiserver, kube-controller-manager, kube-scheduler, etcd and hollow kubelets built from
their modules, Kafka, PostgreSQL, Prometheus and Alertmanager, all on one machine. `)
	fmt.Fprintf(&b, "Measured on %s: %d cores, %s, shared by all processes. The run took %s.\n", time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), runtime.Version(), took.Round(time.Second))
	var s result.Scenes
	if ok, err := read(dir, "scenarios", &s); err != nil {
		return "", err
	} else if ok {
		scenes(&b, &s)
	}
	var u result.Upgrade
	if ok, err := read(dir, "upgrade", &u); err != nil {
		return "", err
	} else if ok {
		upgrade(&b, &u)
	}
	var c result.Confined
	if ok, err := read(dir, "confined", &c); err != nil {
		return "", err
	} else if ok {
		confined(&b, &c)
	}
	var x result.Scale
	if ok, err := read(dir, "scale", &x); err != nil {
		return "", err
	} else if ok {
		scale(&b, &x)
	}
	var p result.Pipeline
	if ok, err := read(dir, "pipeline", &p); err != nil {
		return "", err
	} else if ok {
		pipeline(&b, &p)
	}
	return b.String(), nil
}

func read(dir, name string, to any) (bool, error) {
	b, err := os.ReadFile(filepath.Join(dir, name+".json"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading results: %w", err)
	}
	return true, json.Unmarshal(b, to)
}

func scenes(b *strings.Builder, s *result.Scenes) {
	fmt.Fprintf(b, `
## Versions

| program | version |
|---|---|
| Kubernetes | %s |
| etcd | %s |
`, s.Kubernetes, s.Etcd)
	for _, tool := range [][]string{{"Prometheus", "prometheus", "--version"}, {"Alertmanager", "prometheus-alertmanager", "--version"}, {"Java, for Kafka", "java", "-version"}} {
		if v := versionOf(tool[1], tool[2]); v != "" {
			fmt.Fprintf(b, "| %s | %s |\n", tool[0], v)
		}
	}
	fmt.Fprintf(b, `
## Scenes

Each scenario runs on the cluster and checks nodetrail's verdicts, reasons and findings, request by request, against the API server's annotations and its
NODE DENY lines. Other tests run the migration from RBAC to the Node authorizer, an API server that acts as an older minor, one with pod
certificates, and an upgrade. No flag gives nodetrail the version: it finds the version in the log.

| scene | s |
|---|---|
`)
	for _, x := range s.Scenes {
		fmt.Fprintf(b, "| %s | %.0f |\n", x.Name, x.Seconds)
	}
	fmt.Fprintf(b, `
%d requests of nodes were judged, %d of them denied by the Node authorizer: as many NODE DENY lines, as many denials in the audit log. %s agree outside of
races, %s within. %d were refused by an API server that had just started, whose own graph was incomplete: nodetrail says authorizer-lag.
`, s.Judged, s.Denials, share(s.Agree, s.Compared), share(s.RacesAgree, s.RacesCompared), s.Lagged)
	fmt.Fprintf(b, `
## From request to alert

| way | alerts | p50 | p99 | longest |
|---|---|---|---|---|
| audit log and webhook, nodetrail, Alertmanager, receiver | %s |
`, latency(s.Alerts))
}

func upgrade(b *strings.Builder, u *result.Upgrade) {
	fmt.Fprintf(b, `
## An upgrade in the middle of a run

An API server of %s is replaced by one of %s on one etcd. Both run for a while and write one audit log, with host names of their own. It takes %.0f s.

| what | |
|---|---|
| requests judged | %d |
| agree outside of races | %s |
| refused while the new API server's own graph was incomplete, with the finding authorizer-lag | %d |
| agree in races | %s |
| races because the two versions differ on the request | %d |

What the report says of the version:

`, u.From, u.To, u.Seconds, u.Judged, share(u.Agree, u.Compared), u.Lagged, share(u.RacesAgree, u.RacesCompared), u.Differ)
	for _, line := range u.Versions {
		fmt.Fprintf(b, "- %s\n", line)
	}
}

func confined(b *strings.Builder, c *result.Confined) {
	fmt.Fprintf(b, `
## CONFINED, and back

A cluster is hardened as [confined.md](confined.md) says: %d nodes join by TLS bootstrap, each with an address of its own. CONFINED is reached, by all checks and
without a waiver, %.0f s after the last of them is ready, with a window of %s. Each step back defeats the check that it should, and no other; the report of
`+"`run`"+` and `+"`analyze`"+` on the log say so.

| step | check | s |
|---|---|---|
`, c.Nodes, c.Seconds, c.Window)
	for _, s := range c.Steps {
		fmt.Fprintf(b, "| %s | %s | %.0f |\n", s.Name, s.Check, s.Seconds)
	}
}

func scale(b *strings.Builder, x *result.Scale) {
	fmt.Fprintf(b, `
## Agreement while pods come and go

%d hollow kubelets; deployments, stateful sets and cron jobs that are scaled, rolled and deleted for %s; nodes that ask for what they may and may not have.

| what | |
|---|---|
| pods bound | %d |
| audit events | %d |
| requests judged | %d |
| NODE DENY | %d |
| unknown | %d |
| agree outside of races | %s |
| agree in races | %s |
| agree in all | %s |
| disagreements in races whose edge is not in the audit log | 0 |
| from request to stored verdict, p50, p99 | at most %s, at most %s |
`, x.Kubelets, x.Churn, x.Pods, x.Events, x.Judged, x.Denials, x.Unknown, share(x.Agree, x.Compared), share(x.RacesAgree, x.RacesCompared),
		share(x.Agree+x.RacesAgree, x.Compared+x.RacesCompared), x.Delay.P50, x.Delay.P99)
	usage(b, x.Usage)
}

func pipeline(b *strings.Builder, p *result.Pipeline) {
	fmt.Fprintf(b, `
## The pipeline

%s, nodetrail gateway, three brokers of Kafka %s, two analyzers on one PostgreSQL %s,
Prometheus, Alertmanager, a receiver. Processes are killed with signal 9 while events flow, and started again.
`,
		p.Source, p.Versions["Kafka"], p.Versions["PostgreSQL"])
	fmt.Fprintf(b, `
%d audit events came to the analyzers as %d, some of them twice or more; %d requests were judged, with %d findings. %d sums (verdicts, agreement, each node's
requests, each group of findings) are those of analyze on the log file. An API server waits 15 s before it tries again to post a batch.

| webhook, gateway, Kafka, analyzer, PostgreSQL, Alertmanager, receiver | alerts | p50 | p99 | longest |
|---|---|---|---|---|
| while nothing is down | %s |
| requests made while processes are killed and started again: no alert is missing | %s |

| what happened | until requests made afterwards had their alerts, in every partition |
|---|---|
`, p.Events, p.Taken, p.Judged, p.Findings, p.Compared, latency(p.Alerts), latency(p.Disturbed))
	for _, o := range p.Outages {
		fmt.Fprintf(b, "| %s | %s |\n", o.What, o.Took.Round(100*time.Millisecond))
	}
	usage(b, p.Usage)
}

func usage(b *strings.Builder, all map[string]result.Usage) {
	b.WriteString("\n| process | how many | time of the processor | most memory of one |\n|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		u := all[name]
		fmt.Fprintf(b, "| %s | %d | %s | %d MB |\n", name, u.Processes, u.CPU.Round(100*time.Millisecond), u.Peak/1_000_000)
	}
}

func latency(l result.Latency) string {
	round := func(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }
	return fmt.Sprintf("%d | %s | %s | %s", l.N, round(l.P50), round(l.P99), round(l.Max))
}

func share(n, of int64) string {
	if of == 0 {
		return "none"
	}
	return fmt.Sprintf("%d of %d (%.2f %%)", n, of, 100*float64(n)/float64(of))
}

func versionOf(program, flag string) string {
	out, err := exec.Command(program, flag).CombinedOutput()
	if err != nil {
		return ""
	}
	return regexp.MustCompile(`\d+\.\d+[\w.+~-]*`).FindString(string(out))
}

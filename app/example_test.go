package app_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/app"
	"github.com/nodetrail/nodetrail/pipeline"
)

// A capture of a real cluster, which is part of the repository: what a watcher saw, and the audit log.
var (
	journal = []string{"../internal/demo/capture/journal.jsonl.gz"}
	log     = []string{"../internal/demo/capture/audit.log.gz"}
)

func ExampleAnalyze() {
	judged := map[string]int{}
	a, err := app.Analyze(context.Background(), app.AnalyzeOptions{
		Authorization: app.Authorization{KubernetesVersion: "1.36", Skew: 150 * time.Millisecond},
		Input:         app.Input{Logs: log, State: journal},
		Each: func(j *pipeline.Judgement) error {
			if j.IsNode {
				judged[j.Answer.Verdict.String()]++
			}
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	r := a.Report
	fmt.Println("order of authorizers:", r.Authorization.Mode)
	fmt.Println("judged:", r.Events.Judged, "allowed:", judged["allow"], "denied:", judged["deny"])
	fmt.Println("agrees with the API server:", r.Agreement.Agree, "of", r.Agreement.Compared)
	fmt.Println("ready:", r.Readiness.Ready, "worst finding:", r.Worst())
	// Output:
	// order of authorizers: Node,RBAC
	// judged: 2247 allowed: 1152 denied: 1095
	// agrees with the API server: 1625 of 1625
	// ready: false worst finding: critical
}

func ExampleWhatIf() {
	w, err := app.WhatIf(context.Background(), app.WhatIfOptions{ChangeOptions: app.ChangeOptions{
		Authorization: app.Authorization{Skew: 150 * time.Millisecond},
		Input:         app.Input{Logs: log, State: journal},
		Without:       []string{"group/system:nodes"},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("would break:", w.Report.Requests.Breaks)
	for _, b := range w.Report.Removed {
		fmt.Println(b.Kind, b.Name)
	}
	// Output:
	// would break: 200
	// ClusterRoleBinding kubelet-secret-get
	// ClusterRoleBinding legacy:system:node
}

func ExampleSuggest() {
	s, err := app.Suggest(context.Background(), app.SuggestOptions{
		ChangeOptions: app.ChangeOptions{
			Authorization: app.Authorization{Skew: 150 * time.Millisecond},
			Input:         app.Input{Logs: log, State: journal},
		},
		Verify: true,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("holds:", s.Suggestion.Verified.OK())
	// Output:
	// holds: true
}

func ExampleExplain() {
	ex, err := app.Explain(context.Background(), app.ExplainOptions{
		Authorization: app.Authorization{KubernetesVersion: "1.36", Skew: app.DefaultSkew},
		Input:         app.Input{State: journal},
		Request: &authorizer.AttributesRecord{
			User: &user.DefaultInfo{Name: "system:node:worker-1", Groups: []string{user.NodesGroup, user.AllAuthenticated}},
			Verb: "get", Resource: "secrets", APIVersion: "v1", Namespace: "shop", Name: "secret-0", ResourceRequest: true,
		},
		At: time.Date(2026, 11, 21, 6, 4, 30, 0, time.UTC),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(ex.Verdict)
	fmt.Println(ex.Reason)
	// Output:
	// deny
	// no relationship found between node 'worker-1' and this object
}

func ExampleOptionError() {
	err := (&app.AnalyzeOptions{Authorization: app.Authorization{KubernetesVersion: "1.x"}}).Validate()
	fmt.Println(err)
	// Output:
	// KubernetesVersion: "1.x" is not a Kubernetes version such as 1.37
}

// Logs and state may lie in memory: "-" is what Stdin holds, and Loaded is state that is there already.
func ExampleInput() {
	const event = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"a1","stage":"ResponseComplete",` +
		`"requestURI":"/api/v1/nodes/worker-1","verb":"get","user":{"username":"system:node:worker-1","groups":["system:nodes"]},` +
		`"objectRef":{"resource":"nodes","name":"worker-1","apiVersion":"v1"},"responseStatus":{"code":200},` +
		`"requestReceivedTimestamp":"2026-11-21T06:00:00.000000Z","stageTimestamp":"2026-11-21T06:00:00.001000Z"}`
	a, err := app.Analyze(context.Background(), app.AnalyzeOptions{
		Input: app.Input{Logs: []string{"-"}, Stdin: strings.NewReader(event + "\n")},
		Each: func(j *pipeline.Judgement) error {
			line := app.VerdictLine(j)
			fmt.Println(line.AuditID, line.Node, line.Verdict)
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("judged:", a.Counts.Judged)
	// Output:
	// a1 worker-1 allow
	// judged: 1
}

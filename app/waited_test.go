package app

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/pipeline"
)

// A request waits in a queue of API priority and fairness before it is authorized. If the state changes meanwhile, the API server may have answered by either
// state, and neither answer is a disagreement. What changed after the answer, or later than a request waits, explains nothing.
func TestRequestsThatWaitedToBeAuthorized(t *testing.T) {
	const was, came, bound = "was", "came", "bound"
	for name, c := range map[string]struct {
		secret           string // of a pod that went, or came, or of none: then the binding went
		changed, answers time.Duration
		decision         string
		agrees           bool
		asked, change    time.Duration // how much later it is asked, and how long the request that changes the state takes; then the log has it
	}{
		"the pod went while it waited":              {secret: was, changed: 5 * time.Second, answers: 8 * time.Second, decision: "forbid", agrees: true},
		"the pod went after it was answered":        {secret: was, changed: 11 * time.Second, answers: 8 * time.Second, decision: "forbid"},
		"the pod went later than a request waits":   {secret: was, changed: 90 * time.Second, answers: 2 * time.Minute, decision: "forbid"},
		"the pod came while it waited":              {secret: came, changed: 5 * time.Second, answers: 8 * time.Second, decision: "allow", agrees: true},
		"the pod came after it was answered":        {secret: came, changed: 11 * time.Second, answers: 8 * time.Second, decision: "allow"},
		"the pod came while another one's waited":   {secret: "other", changed: 5 * time.Second, answers: 8 * time.Second, decision: "allow"},
		"the binding went while it waited":          {secret: bound, changed: 5 * time.Second, answers: 8 * time.Second, decision: "forbid", agrees: true},
		"the binding went after it was answered":    {secret: bound, changed: 11 * time.Second, answers: 8 * time.Second, decision: "forbid"},
		"the pod went, and it was answered at once": {secret: was, changed: 5 * time.Second, answers: 0, decision: "forbid"},
		"the pod's deletion was answered late":      {secret: was, changed: 5 * time.Second, change: 1900 * time.Millisecond, asked: 5400 * time.Millisecond, decision: "forbid", agrees: true},
		"the pod's deletion was answered soon":      {secret: was, changed: 5 * time.Second, change: 100 * time.Millisecond, asked: 3 * time.Second, decision: "forbid"},
		"the pod's binding was answered late":       {secret: came, changed: 5 * time.Second, change: 1900 * time.Millisecond, asked: 5400 * time.Millisecond, decision: "allow", agrees: true},
		"the pod's binding was answered soon":       {secret: came, changed: 5 * time.Second, change: 100 * time.Millisecond, asked: 3 * time.Second, decision: "allow"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newWaitingLog()
			for _, kind := range []string{"ClusterRole", "Role", "RoleBinding", "ClusterRoleBinding"} {
				l.listed(kind)
			}
			const asked = 5 * time.Minute
			l.object(0, "ADDED", `"v1","kind":"Node","metadata":{"name":"node-1","uid":"n1","resourceVersion":"1"}`)
			l.object(0, "ADDED", `"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"read","uid":"r1","resourceVersion":"1"},"rules":[{"apiGroups":[""],"resources":["secrets"],"verbs":["get"]}]`)
			binding := `"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"read","uid":"b1","resourceVersion":"%d"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"read"},` +
				`"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"Group","name":"system:nodes"}]`
			pod := func(name string, created time.Duration) string {
				return `"v1","kind":"Pod","metadata":{"namespace":"shop","name":"` + name + `","uid":"` + name + `","resourceVersion":"2","creationTimestamp":"` + l.start.Add(created).Format(time.RFC3339) + `"},"spec":{"nodeName":"node-1","serviceAccountName":"default",` +
					`"containers":[{"name":"c","image":"i","env":[{"name":"P","valueFrom":{"secretKeyRef":{"name":"` + name + `","key":"k"}}}]}]},"status":{"phase":"Running"}`
			}
			l.object(0, "ADDED", pod("always", -time.Hour))
			if c.secret == bound {
				l.object(0, "ADDED", fmt.Sprintf(binding, 1))
				l.object(asked+c.changed, "DELETED", fmt.Sprintf(binding, 9))
			} else {
				l.object(0, "ADDED", pod(was, -time.Hour))
				if c.secret == was {
					l.object(asked+c.changed, "DELETED", pod(was, -time.Hour))
				} else {
					l.object(asked+c.changed, "ADDED", pod(came, asked+c.changed))
				}
			}
			for i := range 20 {
				at := time.Minute + time.Duration(i)*10*time.Second
				l.event(at, 0, "system:apiserver", "update", "coordination.k8s.io", "leases", "kube-system", "apiserver-a", "allow", "")
				l.event(at+time.Second, 0, "system:node:node-1", "get", "", "secrets", "shop", "always", "allow", "")
				l.event(at+2*time.Second, 0, "system:node:node-1", "get", "", "configmaps", "shop", "none", "forbid", notRelated)
			}
			reason := ""
			if c.decision == "forbid" {
				reason = notRelated
			}
			change := func() {
				switch began := asked + c.changed - 50*time.Millisecond; {
				case c.change == 0:
				case c.secret == was:
					l.event(began, c.change, "system:node:node-1", "delete", "", "pods", "shop", was, "allow", "")
				default:
					l.event(began, c.change, "system:kube-scheduler", "create", "", "pods/binding", "shop", came, "allow", "RBAC: allowed")
				}
			}
			if c.asked >= c.changed+c.change {
				change()
			}
			l.event(asked+c.asked, c.answers, "system:node:node-1", "get", "", "secrets", "shop", c.secret, c.decision, reason)
			if c.asked < c.changed+c.change {
				change()
			}
			l.event(asked+5*time.Minute, 0, "system:node:node-1", "get", "", "configmaps", "shop", "none", "forbid", notRelated)
			state := filepath.Join(t.TempDir(), "journal.jsonl")
			if err := os.WriteFile(state, l.journal.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			detail := ""
			a, err := Analyze(t.Context(), AnalyzeOptions{
				Authorization: Authorization{Skew: time.Second},
				Input:         Input{State: []string{state}, Logs: []string{"-"}, Stdin: &l.log},
				Each: func(j *pipeline.Judgement) error {
					if j.IsNode && j.Attrs.Name == c.secret {
						detail = j.Detail()
					}
					return nil
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			if got := len(a.Report.Agreement.Disagree) == 0; got != c.agrees {
				t.Errorf("agrees %t, want %t: %+v", got, c.agrees, a.Report.Agreement)
			}
			if want := "the state changed before the API server had answered, and the request may have waited in a queue until then"; c.secret != bound && c.change == 0 && (detail == want) != c.agrees {
				t.Errorf("it says %q", detail)
			}
		})
	}
}

const notRelated = "no relationship found between node 'node-1' and this object"

// waitingLog is a log of requests with the times of their answers, with a journal.
type waitingLog struct {
	journal, log bytes.Buffer
	start        time.Time
	n            int
}

func newWaitingLog() *waitingLog {
	return &waitingLog{start: time.Date(2026, 11, 25, 3, 5, 0, 1000, time.UTC)}
}

func (l *waitingLog) stamp(after time.Duration) string {
	return l.start.Add(after).Format("2006-01-02T15:04:05.000000Z")
}

// listed says that all objects of a kind were listed, of which there may be none.
func (l *waitingLog) listed(kind string) {
	fmt.Fprintf(&l.journal, `{"observedAt":%q,"type":"BOOKMARK","object":{"apiVersion":"rbac.authorization.k8s.io/v1","kind":%q,"metadata":{"resourceVersion":"1","annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n", l.stamp(0), kind)
}

func (l *waitingLog) object(after time.Duration, verb, object string) {
	fmt.Fprintf(&l.journal, `{"observedAt":%q,"type":%q,"object":{"apiVersion":%s}}`+"\n", l.stamp(after), verb, object)
}

func (l *waitingLog) event(after, waited time.Duration, user, verb, group, resource, namespace, name, decision, reason string) {
	l.n++
	resource, subresource, _ := strings.Cut(resource, "/")
	code, agent := map[string]int{"allow": 200, "forbid": 403}[decision], "kubelet/v1.29.15"
	if user == "system:apiserver" {
		agent = "kube-apiserver/v1.29.15 (linux/amd64) kubernetes/1"
	}
	fmt.Fprintf(&l.log, `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"id-%d","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/%s/%s/%s","verb":%q,`+
		`"user":{"username":%q,"groups":["system:nodes","system:authenticated"]},"sourceIPs":["10.0.0.1"],"userAgent":%q,`+
		`"objectRef":{"resource":%q,"namespace":%q,"name":%q,"apiGroup":%q,"apiVersion":"v1","subresource":%q},"responseStatus":{"code":%d},`+
		`"requestReceivedTimestamp":%q,"stageTimestamp":%q,"annotations":{"authorization.k8s.io/decision":%q,"authorization.k8s.io/reason":%q}}`+"\n",
		l.n, namespace, resource, name, verb, user, agent, resource, namespace, name, group, subresource, code, l.stamp(after), l.stamp(after+waited), decision, reason)
}

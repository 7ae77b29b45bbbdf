package killtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// thefts are the log of thieves who each take 40 secrets by the credential of a node over 20 minutes, through two bindings, and are refused 500 times, and
// of the kubelets of the nodes, who renew their leases.
func thefts(begin time.Time, nodes ...string) [][]byte {
	type event struct {
		at   time.Time
		line string
	}
	var all []event
	request := func(at time.Time, id, node, address, agent, verb, uri, object, decision, reason string, code int) {
		stamp := at.UTC().Format("2006-01-02T15:04:05.000000Z")
		all = append(all, event{at, fmt.Sprintf(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":%q,"stage":"ResponseComplete","requestURI":%q,"verb":%q,`+
			`"user":{"username":"system:node:%s","groups":["system:nodes","system:authenticated"]},"sourceIPs":[%q],"userAgent":%q,"objectRef":%s,"responseStatus":{"code":%d},`+
			`"requestReceivedTimestamp":%q,"stageTimestamp":%q,"annotations":{"authorization.k8s.io/decision":%q,"authorization.k8s.io/reason":%q}}`,
			id, uri, verb, node, address, agent, object, code, stamp, stamp, decision, reason)})
	}
	secret := func(at time.Time, id, node, name, decision, reason string, code int) {
		request(at, id, node, "198.51.100.9", "curl/8.5.0", "get", "/api/v1/namespaces/shop/secrets/"+name,
			fmt.Sprintf(`{"resource":"secrets","namespace":"shop","name":%q,"apiVersion":"v1"}`, name), decision, reason, code)
	}
	for i, node := range nodes {
		for at := begin.Add(-time.Minute); at.Before(begin.Add(21 * time.Minute)); at = at.Add(10 * time.Second) {
			request(at, fmt.Sprint(node, "-lease-", at.Unix()), node, fmt.Sprint("10.0.0.", i+1), "kubelet/v1.36.3 (linux/amd64) kubernetes/abc", "update",
				"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/"+node,
				fmt.Sprintf(`{"resource":"leases","namespace":"kube-node-lease","name":%q,"apiGroup":"coordination.k8s.io","apiVersion":"v1"}`, node), "allow", "", 200)
		}
		for n := range 500 {
			at := begin.Add(time.Duration(n) * 2400 * time.Millisecond)
			secret(at, fmt.Sprint(node, "-refused-", n), node, fmt.Sprint("made-up-", n), "forbid", fmt.Sprintf("no relationship found between node '%s' and this object", node), 403)
			if n%12 == 6 && n < 480 {
				reason := fmt.Sprintf("RBAC: allowed by ClusterRoleBinding %q of ClusterRole \"reader\" to Group \"system:nodes\"", []string{"one", "two"}[n/12%2])
				secret(at.Add(time.Second), fmt.Sprint(node, "-read-", n), node, fmt.Sprint("secret-", n/12), "allow", reason, 200)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b event) int { return a.at.Compare(b.at) })
	out := make([][]byte, len(all))
	for i := range all {
		out[i] = []byte(all[i].line)
	}
	return out
}

// theftState is a journal with the nodes, and with two bindings that let each node read every secret. No pod uses one.
func theftState(t *testing.T, begin time.Time, nodes ...string) string {
	t.Helper()
	var b strings.Builder
	add := func(object string) {
		fmt.Fprintf(&b, `{"observedAt":%q,"type":"ADDED","object":%s}`+"\n", begin.Add(-time.Hour).UTC().Format(time.RFC3339), object)
	}
	meta := func(name string) string {
		return fmt.Sprintf(`"metadata":{"name":%q,"uid":"uid-of-%s","resourceVersion":"1","creationTimestamp":%q}`, name, name, begin.Add(-24*time.Hour).UTC().Format(time.RFC3339))
	}
	for _, node := range nodes {
		add(`{"apiVersion":"v1","kind":"Node",` + meta(node) + `}`)
	}
	add(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole",` + meta("reader") + `,"rules":[{"apiGroups":[""],"resources":["secrets"],"verbs":["get"]}]}`)
	for _, name := range []string{"one", "two"} {
		add(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding",` + meta(name) +
			`,"subjects":[{"kind":"Group","apiGroup":"rbac.authorization.k8s.io","name":"system:nodes"}],"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"reader"}}`)
	}
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// incident is what the program's own report says of one.
type incident struct {
	ID, Credential, Kind, State, Severity string
	First, Last                           time.Time
	Refused, Succeeded                    int64
	Timeline                              []struct {
		At   time.Time
		Code string
	}
	Bindings  []struct{ Name string }
	Addresses []struct{ Value string }
	Rotate    []struct{ Resource, Namespace, Name string }
}

// A theft is one incident and one alert, although the program is killed in the midst of it; two thieves at once are two.
func TestTheftIsOneIncident(t *testing.T) {
	for _, nodes := range [][]string{{"worker-3"}, {"worker-3", "worker-5"}} {
		t.Run(fmt.Sprint(len(nodes)), func(t *testing.T) { stolen(t, nodes) })
	}
}

func stolen(t *testing.T, nodes []string) {
	var mu sync.Mutex
	alerts := map[string]bool{} // by alert, node and severity: those that ever fired
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var all []struct {
			Labels map[string]string
			EndsAt time.Time
		}
		if err := json.NewDecoder(r.Body).Decode(&all); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, a := range all {
			if a.EndsAt.After(time.Now()) {
				alerts[a.Labels["alertname"]+" "+a.Labels["node"]+" "+a.Labels["severity"]] = true
			}
		}
	}))
	defer srv.Close()
	begin := time.Now().Add(-25 * time.Minute).Truncate(time.Millisecond)
	lines := thefts(begin, nodes...)
	path := filepath.Join(t.TempDir(), "audit.log")
	conf := configOf(t, theftState(t, begin, nodes...), time.Second, fmt.Sprintf("sources: {files: [{paths: [%q], poll: 50ms}]}", path),
		fmt.Sprintf("sinks: {alertmanager: [{urls: [%q]}]}", srv.URL))
	judged := 0
	appended := func(part [][]byte) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.Write(append(bytes.Join(part, []byte("\n")), '\n')); err != nil {
			t.Fatal(err)
		}
		judged += len(part)
	}
	var p *process
	for i := range 3 {
		appended(lines[i*len(lines)/3 : (i+1)*len(lines)/3])
		p = start(t, "run", "--config", conf)
		sofar := &totals{}
		sofar.Events.Judged = int64(judged)
		waitFor(t, conf, sofar, p)
		if i < 2 {
			p.kill()
		}
	}
	want := []string{}
	for _, node := range nodes {
		want = append(want, "CredentialIncident "+node+" critical")
	}
	fired := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Sorted(maps.Keys(alerts))
	}
	for end := time.Now().Add(time.Minute); len(fired()) < len(want) && time.Now().Before(end); {
		time.Sleep(100 * time.Millisecond)
	}
	p.stop()
	out, err := exec.Command(program, "report", "--config", conf, "--incidents", "-o", "json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var r struct{ Incidents []incident }
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Incidents) != len(nodes) {
		t.Fatalf("%d incidents, want %d: %+v", len(r.Incidents), len(nodes), r.Incidents)
	}
	if got := fired(); !slices.Equal(got, want) {
		t.Errorf("alerts that ever fired: %q, want %q", got, want)
	}
	for i := range r.Incidents {
		in := &r.Incidents[i]
		if !slices.Contains(nodes, in.Credential) || in.Kind != "node" || in.State != "open" || in.Severity != "critical" || in.Refused != 500 || in.Succeeded != 40 ||
			len(in.Rotate) != 40 || len(in.Bindings) != 2 || !slices.ContainsFunc(in.Addresses, func(a struct{ Value string }) bool { return a.Value == "198.51.100.9" }) {
			t.Errorf("%s: %s, %s, %s, %d refused, %d succeeded, %d to rotate, bindings %v, from %v", in.Credential, in.Kind, in.State, in.Severity, in.Refused, in.Succeeded, len(in.Rotate), in.Bindings, in.Addresses)
		}
		at := map[string]time.Duration{}
		for _, m := range in.Timeline {
			at[m.Code] = m.At.Sub(begin)
		}
		last := 499 * 2400 * time.Millisecond
		if !in.First.Equal(begin) || in.Last.Sub(begin) != last || at["incident-first-refusal"] != 0 || at["incident-first-success"] != 6*2400*time.Millisecond+time.Second || at["incident-latest"] != last {
			t.Errorf("%s: from %s to %s of the theft: %v", in.Credential, in.First.Sub(begin), in.Last.Sub(begin), at)
		}
		if _, odd := at["incident-odd-use"]; !odd {
			t.Errorf("%s: the timeline has no first use from another address: %v", in.Credential, at)
		}
	}
}

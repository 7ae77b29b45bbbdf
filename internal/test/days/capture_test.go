package days

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/internal/demo"
)

// shapesOf reads the shapes of a log's events: by who does what with which answer, the paths of the JSON that such events have. Only what real kubelets
// and the scheduler do is read, not what the captures' scripted clients do in their names.
func shapesOf(t *testing.T, log []byte) map[string]map[string]bool {
	t.Helper()
	out := map[string]map[string]bool{}
	lines := bufio.NewScanner(bytes.NewReader(log))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e map[string]any
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		agent, _ := e["userAgent"].(string)
		ref, _ := e["objectRef"].(map[string]any)
		user := e["user"].(map[string]any)["username"].(string)
		var who string
		switch {
		case strings.HasPrefix(user, "system:node:") && (strings.HasPrefix(agent, "hollow-kubelet") || strings.HasPrefix(agent, "kubelet/")):
			who = "node"
		case user == "system:kube-scheduler" && ref["subresource"] == "binding":
			who = "scheduler"
		default:
			continue
		}
		code := e["responseStatus"].(map[string]any)["code"]
		shape := fmt.Sprintf("%s %s %v/%v %s %v", who, e["verb"], ref["resource"], ref["subresource"], e["stage"], code)
		if out[shape] == nil {
			out[shape] = map[string]bool{}
		}
		paths(out[shape], "", e)
	}
	return out
}

// paths collects the paths of all members of an event; bodies are one, as the level decides what there is of them.
func paths(into map[string]bool, prefix string, o map[string]any) {
	for k, v := range o {
		p := prefix + "." + k
		if p == ".responseObject" || p == ".requestObject" {
			continue
		}
		into[p] = true
		if m, ok := v.(map[string]any); ok {
			paths(into, p, m)
		}
	}
}

// Every kind of request that kubelets made in a real cluster is in the simulated days, and its events have the same fields.
func TestShapesAreThoseOfACapture(t *testing.T) {
	zr, err := gzip.NewReader(bytes.NewReader(demo.AuditLog()))
	if err != nil {
		t.Fatal(err)
	}
	var capture bytes.Buffer
	if _, err := capture.ReadFrom(zr); err != nil {
		t.Fatal(err)
	}
	var hollow bytes.Buffer // what calls itself kubelet/v1.36.3 is the scripted client
	for line := range bytes.Lines(capture.Bytes()) {
		if !bytes.Contains(line, []byte(`"userAgent":"kubelet/`)) {
			hollow.Write(line)
		}
	}
	want, got := shapesOf(t, hollow.Bytes()), map[string]map[string]bool{}
	for seed, o := range []Options{
		{Features: everything &^ Upgrade, Minor: 36}, {Features: everything &^ Upgrade, NoBinding: true, Minor: 36},
		{Features: Deployments | GraphLag, NoBinding: true, Minor: 34}, {Features: Deployments, Minor: 34},
	} {
		for shape, p := range shapesOf(t, clean(t, uint64(seed), o).Log()) {
			if got[shape] == nil {
				got[shape] = p
			}
			maps.Copy(got[shape], p)
		}
	}
	for _, shape := range slices.Sorted(maps.Keys(want)) {
		if got[shape] == nil {
			t.Errorf("no simulated request is like %q", shape)
		} else if diff := cmp.Diff(want[shape], got[shape]); diff != "" {
			t.Errorf("%s has other fields (-capture +simulated):\n%s", shape, diff)
		}
	}
	if len(want) < 30 {
		t.Errorf("the capture has %d shapes", len(want))
	}
}

// What nodes did decodes to what it was made of, none of it malformed.
func TestEventsDecode(t *testing.T) {
	d := clean(t, 31, Options{Servers: 3, Minor: 36, Features: everything &^ Upgrade})
	type short struct {
		AuditID, Stage, Verb, User, URI, Agent, Decision, Reason string
		Code                                                     int
		Received, Staged                                         int64
	}
	var want, got []short
	for _, e := range d.Events {
		if e.IsNode() {
			want = append(want, short{
				e.AuditID, e.Stage, e.Verb, e.User.Username, e.URI, e.UserAgent, e.Decision, e.DecisionReason, e.Code, e.Received.UnixMicro(), e.Staged.UnixMicro(),
			})
		}
	}
	var decoder audit.Decoder
	decoder.Chunk(d.Log(), 1, func(e *audit.Event) {
		if strings.HasPrefix(e.User.Username, "system:node:") {
			c := e.Clone()
			got = append(got, short{
				c.AuditID, c.Stage.String(), c.Verb, c.User.Username, c.RequestURI, c.UserAgent, c.Decision, c.Reason, int(c.Code),
				c.RequestReceived.UnixMicro(), c.StageTime.UnixMicro(),
			})
		}
	}, func(m audit.Malformed) { t.Errorf("malformed: %+v", m) })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-made +decoded):\n%.2000s", diff)
	}
}

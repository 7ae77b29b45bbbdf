package nodeadmission_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/nodeadmission"
)

// TestOwnEffect has the plugin off: what the state becomes by a write that passed is no race, whichever clock is ahead. What others did is one.
func TestOwnEffect(t *testing.T) {
	const skew, soon = time.Second, 20 * time.Millisecond
	const label, taint = `{"metadata":{"labels":{"node-restriction.kubernetes.io/a":"b"}}}`, `{"spec":{"taints":[{"key":"a","effect":"NoSchedule"}]}}`
	plain := &nodeadmission.Node{UID: "n", Labels: map[string]string{"app": "x"}}
	labelled := &nodeadmission.Node{UID: "n", Labels: map[string]string{"app": "x", "node-restriction.kubernetes.io/a": "b"}}
	another := &nodeadmission.Node{UID: "n", Labels: map[string]string{"app": "y", "node-restriction.kubernetes.io/a": "b"}}
	tainted := &nodeadmission.Node{UID: "n", Labels: plain.Labels, Taints: []corev1.Taint{{Key: "a", Effect: "NoSchedule"}}}
	whole := `{"metadata":{"labels":{"app":"x","node-restriction.kubernetes.io/a":"b"}}}`
	const apply = `{"kind":"Node","apiVersion":"v1","metadata":{"labels":{"example.com/a":"b"},"annotations":{"x":"\u003ctaints node-restriction.kubernetes.io/a b"}}}`
	padded := `{"metadata":{"labels":{"example.com/a":"b"},"annotations":{"x":"taints node-restriction.kubernetes.io/a"}}}` + strings.Repeat(" ", 200<<10)
	node := func(verb, body string) *nodeadmission.Request { return write(verb, "", "nodes", "", "", "n1", body) }
	pod := func(verb, sub string) *nodeadmission.Request {
		return write(verb, "", "pods", sub, "a", "p", "{}")
	}
	for name, c := range map[string]struct {
		r       *nodeadmission.Request
		after   *nodeadmission.Node
		delay   time.Duration
		refused bool
		verdict nodeadmission.Verdict
		race    bool
	}{
		"a label":                              {node("patch", label), labelled, soon, false, nodeadmission.Deny, false},
		"a label, on a clock behind":           {node("patch", label), labelled, -soon, false, nodeadmission.Deny, false},
		"a label that another one set":         {node("patch", label), labelled, soon, true, nodeadmission.Deny, true},
		"a label that another one had set":     {node("patch", label), labelled, -soon, true, nodeadmission.Allow, true},
		"a label long before":                  {node("patch", label), labelled, -2 * skew, false, nodeadmission.Allow, false},
		"a label, with what it does not make":  {node("patch", label), another, soon, false, nodeadmission.Deny, true},
		"a label, with what it had not made":   {node("patch", label), another, -soon, false, nodeadmission.Allow, true},
		"a label by a whole object":            {node("update", whole), labelled, soon, false, nodeadmission.Deny, false},
		"a whole object with what there was":   {node("update", whole), labelled, -soon, false, nodeadmission.Allow, true},
		"an apply, and another one's label":    {node("patch", apply), labelled, soon, false, nodeadmission.Unknown, false},
		"an apply after another one's label":   {node("patch", apply), labelled, -soon, false, nodeadmission.Unknown, false},
		"an apply, and another one's taint":    {node("patch", apply), tainted, soon, false, nodeadmission.Unknown, false},
		"a padded one, and another's label":    {node("patch", padded), labelled, soon, false, nodeadmission.Unknown, false},
		"a padded one, and another's taint":    {node("patch", padded), tainted, -soon, false, nodeadmission.Unknown, false},
		"a taint":                              {node("patch", taint), tainted, soon, false, nodeadmission.Deny, false},
		"a taint, on a clock behind":           {node("patch", taint), tainted, -soon, false, nodeadmission.Deny, false},
		"a pod of another node":                {pod("delete", ""), nil, soon, false, nodeadmission.Deny, false},
		"a pod of another node, clock behind":  {pod("delete", ""), nil, -soon, false, nodeadmission.Deny, false},
		"a pod that another one deleted":       {pod("delete", ""), nil, soon, true, nodeadmission.Deny, true},
		"an eviction from another node":        {pod("create", "eviction"), nil, soon, false, nodeadmission.Deny, false},
		"an eviction, clock behind":            {pod("create", "eviction"), nil, -soon, false, nodeadmission.Deny, false},
		"an eviction of what another one took": {pod("create", "eviction"), nil, soon, true, nodeadmission.Deny, true},
	} {
		at := epoch.Add(time.Minute)
		then := at.Add(c.delay)
		c.r.Done = !c.refused
		got := plugin(t, "1.37.1", nodeadmission.State{
			Nodes: nodeSpans{{to: then, object: plain}, {from: then, object: c.after}},
			Pods:  podSpans{{to: then, object: &nodeadmission.Pod{UID: "u", Node: "n2"}}, {from: then}},
		}, skew).Decide(c.r, at)
		if got.Verdict != c.verdict || got.Race != c.race || got.Verdict == nodeadmission.Deny && got.Code != 403 {
			t.Errorf("%s: %+v, want %v, race %t", name, got, c.verdict, c.race)
		}
	}
}

// forms are those in which a patch can set a label. From firstUnclear on, the patch alone does not tell what the API server makes of it.
var forms = []func(key, value string, labels map[string]string) string{
	func(key, value string, _ map[string]string) string {
		return fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, key, value)
	},
	func(key, value string, _ map[string]string) string {
		return fmt.Sprintf(`[{"op":"add","path":"/metadata/labels/%s","value":%q}]`, strings.ReplaceAll(key, "/", "~1"), value)
	},
	func(key, value string, labels map[string]string) string { // which does not apply again
		all := maps.Clone(labels)
		was, _ := json.Marshal(labels)
		all[key] = value
		is, _ := json.Marshal(all)
		return fmt.Sprintf(`[{"op":"test","path":"/metadata/labels","value":%s},{"op":"replace","path":"/metadata/labels","value":%s}]`, was, is)
	},
	func(key, value string, _ map[string]string) string {
		return fmt.Sprintf(`{"kind":"Node","apiVersion":"v1","metadata":{"labels":{%q:%q}}}`, key, value)
	},
	func(key, value string, _ map[string]string) string {
		return fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}%s`, key, value, strings.Repeat(" ", 200<<10))
	},
	func(key, value string, _ map[string]string) string {
		return fmt.Sprintf(`[{"op":"add","path":"/metadata/annotations","value":{"x":%q}},{"op":"copy","from":"/metadata/annotations/x","path":"/metadata/labels/%s"}]`,
			value, strings.ReplaceAll(key, "/", "~1"))
	},
}

const firstUnclear = 3

// An API server without the plugin takes patches of Nodes from the nodes themselves and from others. Whatever the order in which the state has them, and
// however far its clock is off within half the skew: a patch by a node of a label that is not for it is called refused, without a race where nobody else
// wrote to that Node in the time; and a patch of its own labels never is. So it is for each form of a
// patch; where nobody knows its type, or it does not apply to what others made, that nobody else wrote is asked for.
//
// Seen to fail where only a patch that applies again says what it found, and without the look at what the Node became.
func TestOwnEffectAmongOthers(t *testing.T) {
	const skew = time.Second
	for seed := range effort.Of(uint64(2000), 300) {
		rnd := rand.New(rand.NewPCG(seed, 16))
		labels := map[string]string{"app": "x"}
		spans := nodeSpans{{object: &nodeadmission.Node{UID: "n", Labels: maps.Clone(labels)}}}
		clock := time.Duration(rnd.Int64N(int64(skew))) - skew/2
		type made struct {
			at    time.Time
			r     *nodeadmission.Request
			foul  bool
			alone bool
			// unclear says that of a patch of its own labels nothing need be known; once says that it need not apply to what others made.
			unclear, once bool
		}
		var all []made
		var last time.Time
		for at := epoch.Add(time.Hour); len(all) < 8; at = at.Add(time.Duration(rnd.IntN(4000)) * time.Millisecond) {
			if !last.IsZero() && !at.After(last.Add(30*time.Millisecond)) {
				continue
			}
			key, value := fmt.Sprintf("example.com/%d", rnd.IntN(3)), fmt.Sprint(len(all))
			foul, own := rnd.IntN(2) == 0, rnd.IntN(4) > 0
			if foul {
				key = fmt.Sprintf("node-restriction.kubernetes.io/%d", rnd.IntN(3))
			}
			_, there := labels[key]
			form := rnd.IntN(len(forms))
			patch := forms[form](key, value, labels)
			if removes := rnd.IntN(4) == 0 && there; removes {
				delete(labels, key)
				form, patch = 0, fmt.Sprintf(`[{"op":"remove","path":"/metadata/labels/%s"}]`, strings.ReplaceAll(key, "/", "~1"))
			} else {
				labels[key] = value
			}
			effect := at.Add(time.Duration(1+rnd.IntN(20))*time.Millisecond + clock)
			spans[len(spans)-1].to = effect
			spans = append(spans, span[nodeadmission.Node]{from: effect, object: &nodeadmission.Node{UID: "n", Labels: maps.Clone(labels)}})
			alone := last.IsZero() || at.Sub(last) > 3*skew
			if n := len(all); n > 0 && !alone {
				all[n-1].alone = false
			}
			m := made{at: at, foul: foul && own, alone: alone}
			if own {
				m.r = write("patch", "", "nodes", "", "", "n1", patch)
				m.r.Done, m.unclear, m.once = true, form >= firstUnclear, strings.HasPrefix(patch, "[")
			}
			all, last = append(all, m), at
		}
		a := plugin(t, "1.37.1", nodeadmission.State{Nodes: spans}, skew)
		for i, m := range all {
			if m.r == nil {
				continue
			}
			got := a.Decide(m.r, m.at)
			switch {
			case m.foul && m.alone && (got.Verdict != nodeadmission.Deny || got.Race), m.foul && !m.unclear && !m.once && got.Verdict != nodeadmission.Deny && !got.Race,
				!m.foul && got.Verdict != nodeadmission.Allow && (m.alone || !m.once && !m.unclear) && (!m.unclear || got.Verdict == nodeadmission.Deny):
				t.Fatalf("seed %d, write %d, foul %t, alone %t, clock %v, %.200s: %+v", seed, i, m.foul, m.alone, clock, m.r.Body, got)
			}
		}
	}
}

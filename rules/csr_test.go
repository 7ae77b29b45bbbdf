package rules

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nodetrail/nodetrail/audit"
)

// A request is read however long whoever asks has made it: the API server takes it, and it is signed.
func TestSigningPadded(t *testing.T) {
	node := kubeletsAsk("worker-1")
	serving := node
	serving.signer = signerServing
	for i := range 2 * maxSANs {
		serving.names = append(serving.names, fmt.Sprintf("name-%d", i))
	}
	long := node
	long.names = []string{strings.Repeat("x", 200_000)}
	plain := func(body map[string]any) {}
	for name, c := range map[string]struct {
		a     asking
		pad   func(body map[string]any)
		names int
	}{
		"text before the request": {node, func(body map[string]any) {
			spec := body["spec"].(map[string]any)
			spec["request"] = slices.Concat(bytes.Repeat([]byte("x\n"), 100_000), node.pem(t, "csr-1"))
		}, 0},
		"a long body": {node, func(body map[string]any) {
			body["metadata"].(map[string]any)["ownerReferences"] = []map[string]string{{"name": strings.Repeat("x", 1_000_000)}}
		}, 0},
		"a long name": {long, plain, 1},
		"many names":  {serving, plain, maxSANs},
	} {
		var body map[string]any
		if err := json.Unmarshal(c.a.body(t, "", "csr-1"), &body); err != nil {
			t.Fatal(err)
		}
		c.pad(body)
		raw, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		s, whole := signingOf(&audit.Event{Verb: "create", RequestObject: raw, User: audit.User{Username: "u"}})
		if !whole || s.Node() != "worker-1" || len(s.Names) != c.names || slices.ContainsFunc(s.Names, func(n string) bool { return len(n) > maxRemembered }) {
			t.Errorf("%s: read %t, node %q, %d names", name, whole, s.Node(), len(s.Names))
		}
	}
}

// A request of a bootstrap token whose body was left out of the event, since it is too long, is named.
func TestSigningTooLong(t *testing.T) {
	r := request(signing(t, kubeletsAsk("worker-1"), "", "csr-1"))
	r.Event.RequestObject, r.Event.ReducedFrom = nil, 8<<20
	const want = "high: the bootstrap token of system:bootstrap:abcdef sent a request whose audit event has 8388608 bytes, longer than the bound: it was judged from its fields"
	if got := check(t, oversizedRequest(), nil, NewMemory(), r); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

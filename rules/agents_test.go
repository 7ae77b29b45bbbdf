package rules

import "testing"

// An agent of a provider runs on its node. From elsewhere it is a client that is no kubelet.
func TestAgentRunsOnItsNode(t *testing.T) {
	const low, other = `low: the credential of node worker-1 is used by "node-problem-detector", a known agent of GCE and whoever runs it standalone`,
		`: the credential of node worker-1 is used by "node-problem-detector", which is no kubelet`
	agents := func(s State, renewals int, answered int32, kubelet string) story {
		told := newStory(t, s)
		for i := range renewals {
			told.f("a renewal", "", lease("worker-1"), when(i*10), code(answered), comes(kubelet))
		}
		return told
	}
	does := func(address string) []with {
		return []with{does("patch nodes/status worker-1"), agent("node-problem-detector/v1"), when(10 * minute), code(200), comes(address)}
	}
	w := housed(3)
	agents(w, 60, 200, "10.0.0.1").f("from the node", low, does("10.0.0.1")...)
	agents(w, 60, 200, "10.0.0.1").f("by loopback", low, does("127.0.0.1")...)
	agents(w, 60, 200, "10.0.0.1").f("from elsewhere", "high"+other, does("203.0.113.9")...)
	agents(w, 60, 200, "10.0.0.1").f("from another node", "high"+other, does("10.0.0.2")...)
	agents(w, 60, 200, "203.0.113.9").f("from where the kubelet lives", low, does("203.0.113.9")...)
	agents(w, 1, 200, "203.0.113.9").f("from where it has been once", "medium"+other, does("203.0.113.9")...)
	agents(w, 60, 409, "203.0.113.9").f("from where it was refused", "medium"+other, does("203.0.113.9")...)
	agents(nil, 60, 200, "10.0.0.1").f("without a state", low, does("203.0.113.9")...)
	agents(cluster(3), 60, 200, "10.0.0.1").f("where the state has no addresses", low, does("203.0.113.9")...)
}

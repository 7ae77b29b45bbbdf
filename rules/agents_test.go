package rules

import "testing"

// neighbours is a state in which an address is another node's.
type neighbours struct {
	State
	at map[string]string
}

func (n neighbours) NodeAt(address string) string { return n.at[address] }

// An agent of a provider runs on its node. From another one it is a client that is no kubelet.
func TestAgentRunsOnItsNode(t *testing.T) {
	const low, other = `low: the credential of node worker-1 is used by "node-problem-detector", a known agent of GCE and whoever runs it standalone`,
		`: the credential of node worker-1 is used by "node-problem-detector", which is no kubelet`
	w := neighbours{housed(3), map[string]string{"10.0.0.1": "worker-1", "10.0.0.2": "worker-2"}}
	for _, c := range []struct {
		name, address, want string
		s                   State
	}{
		{"from the node", "10.0.0.1", low, w},
		{"by loopback", "127.0.0.1", low, w},
		{"from an address of nobody", "203.0.113.9", "medium" + other, w},
		{"from another node", "10.0.0.2", "high" + other, w},
		{"without a state", "203.0.113.9", low, nil},
		{"where the state has no addresses", "203.0.113.9", low, cluster(3)},
	} {
		newStory(t, c.s).f(c.name, c.want, does("patch nodes/status worker-1"), agent("node-problem-detector/v1"), code(200), comes(c.address))
	}
}

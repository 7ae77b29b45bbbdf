package rules

import (
	"fmt"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/audit"
)

// A memory that is put back from what another told finds the same as that one goes on to find.
func TestRememberedIsRestored(t *testing.T) {
	request := func(node, cert, ip string, second int) *Request {
		return &Request{
			Event: &audit.Event{UserAgent: "kubelet/v1", SourceIPs: []string{ip}, User: audit.User{CredentialID: cert}},
			Node:  node, IsNode: true, Time: time.Date(2026, 11, 21, 6, 0, second, 0, time.UTC),
		}
	}
	first, stored := NewMemory(), map[string]Remembered{}
	tell := func() (n int) {
		for _, r := range first.Changes() {
			if _, there := stored[r.Kind+r.Key]; !there || !r.First {
				stored[r.Kind+r.Key] = r
			}
			n++
		}
		return n
	}
	tell()
	for i := range 50 {
		checkCredential(request(fmt.Sprintf("n%d", i%5), fmt.Sprintf("c%d", i%5), fmt.Sprintf("10.0.0.%d", i%5), i), nil, first)
		if i%7 == 0 {
			tell()
		}
	}
	tell()
	if n := tell(); n != 0 {
		t.Errorf("%d changes without any", n)
	}
	second := NewMemory()
	all := []Remembered{{Kind: "node", Key: "broken", Value: []byte("{")}, {Kind: "mode", Value: []byte("x")}}
	for _, r := range stored {
		all = append(all, r)
	}
	if err := second.Restore(all); err == nil {
		t.Error("a broken entry is no error")
	}
	for _, r := range []*Request{
		request("n1", "c1", "10.0.0.1", 60), request("n1", "c2", "10.0.0.1", 60), request("n1", "c1", "10.0.0.9", 60),
		request("n1", "c1", "fe80::1", 60), request("n9", "c9", "10.0.0.1", 60), request("n9", "c4", "10.0.0.1", 60),
	} {
		a, foundA := checkCredential(r, nil, first)
		b, foundB := checkCredential(r, nil, second)
		if foundA != foundB || a != b {
			t.Errorf("%s %s %v: %v %v, restored %v %v", r.Node, r.Event.User.CredentialID, r.Event.SourceIPs, foundA, a, foundB, b)
		}
	}
}

// What is told of 5,000 nodes is little: not each request.
func TestRememberedIsTold(t *testing.T) {
	m, told := NewMemory(), 0
	m.Changes()
	for second := range 60 {
		checkCredential(&Request{
			Event: &audit.Event{UserAgent: "kubelet/v1", SourceIPs: []string{"10.0.0.1"}}, Node: "n", IsNode: true,
			Time: time.Date(2026, 11, 21, 6, 0, second, 0, time.UTC),
		}, nil, m)
		told += len(m.Changes())
	}
	if told < 4 || told > 8 {
		t.Errorf("told %d times in a minute", told)
	}
}

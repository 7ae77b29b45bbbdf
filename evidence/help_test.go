package evidence

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/audit"
)

// noon is the beginning of an hour.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// seen is an event with its origin.
type seen struct {
	ev audit.Event
	o  Origin
}

func request(node, verb, group, resource, namespace, name string, at time.Time) seen {
	return seen{
		ev: audit.Event{
			Stage: audit.StageResponseComplete, Verb: verb, Code: 200, RequestReceived: at, StageTime: at.Add(2 * time.Millisecond),
			User:         audit.User{Username: "system:node:" + node, Groups: []string{"system:nodes", "system:authenticated"}},
			ObjectRef:    audit.ObjectRef{APIGroup: group, Resource: resource, Namespace: namespace, Name: name},
			HasObjectRef: true, UserAgent: "kubelet/v1.36.3", Decision: "allow",
		},
		o: Origin{Node: node, Kubelet: true},
	}
}

func renewal(node string, at time.Time) seen {
	return request(node, "update", leaseGroup, "leases", nodeLeases, node, at)
}

func serverRenewal(name string, at time.Time) seen {
	s := request("", "update", leaseGroup, "leases", serverLeases, name, at)
	s.ev.User = audit.User{Username: serverUser, Groups: []string{"system:masters"}}
	s.ev.UserAgent = "kube-apiserver/v1.36.3 (linux/amd64) kubernetes/abc"
	s.o = Origin{}
	return s
}

// change returns the event with something else.
func (s seen) change(f func(*audit.Event)) seen {
	f(&s.ev)
	return s
}

func ledgerOf(l *Ledger, all ...seen) *Ledger {
	for i := range all {
		l.Observe(&all[i].ev, all[i].o)
	}
	return l
}

// dump is all that a ledger holds.
func dump(t *testing.T, l *Ledger) map[string]string {
	t.Helper()
	out := map[string]string{}
	if err := l.Records(func(k Key, v []byte) error {
		out[fmt.Sprintf("%d %d %s", k.Kind, k.Hour, k.Name)] = fmt.Sprintf("%x", v)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

// day is a made-up day of a few nodes and servers, with all that a ledger looks at.
func day(r *rand.Rand, nodes int, hours int) []seen {
	var out []seen
	span := time.Duration(hours) * time.Hour
	for n := range nodes {
		node := fmt.Sprintf("worker-%d", n)
		for at := time.Duration(r.IntN(10_000)) * time.Millisecond; at < span; at += 10*time.Second + time.Duration(r.IntN(400))*time.Millisecond {
			s := renewal(node, noon.Add(at))
			if r.IntN(50) == 0 {
				s.ev.Decision = ""
			}
			if r.IntN(50) == 0 {
				s.ev.Reason = `RBAC: allowed by ClusterRoleBinding "x" of ClusterRole "system:node" to Group "system:nodes"`
			}
			out = append(out, s)
		}
		for at := time.Duration(0); at < span; at += time.Duration(5+r.IntN(5)) * time.Minute {
			for _, kind := range []struct{ group, resource string }{
				{"", "pods"}, {"", "nodes"}, {"", "services"}, {"storage.k8s.io", "csidrivers"}, {"node.k8s.io", "runtimeclasses"},
			} {
				s := request(node, "watch", kind.group, kind.resource, "", "", noon.Add(at))
				s.ev.StageTime = s.ev.RequestReceived.Add(time.Duration(r.IntN(90)) * time.Minute)
				out = append(out, s)
			}
			out = append(out, request(node, "get", "", "secrets", "shop", "db", noon.Add(at)))
			out = append(out, request(node, "create", "", "nodes", "", node, noon.Add(at)).change(func(ev *audit.Event) { ev.Code = int32(201 + 208*r.IntN(2)) }))
		}
	}
	for s := range 3 {
		for at := time.Duration(0); at < span; at += 10 * time.Second {
			out = append(out, serverRenewal(fmt.Sprintf("apiserver-%d", s), noon.Add(at)).change(func(ev *audit.Event) {
				ev.UserAgent = fmt.Sprintf("kube-apiserver/v1.36.%d x", r.IntN(6))
			}))
		}
	}
	return out
}

// exchange hands the records of one ledger to another.
func exchange(t *testing.T, from, to *Ledger, changes bool) {
	t.Helper()
	put := func(k Key, v []byte) error { return to.Put(k, bytes.Clone(v)) }
	each := from.Records
	if changes {
		each = from.Changes
	}
	if err := each(put); err != nil {
		t.Fatal(err)
	}
}

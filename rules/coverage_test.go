package rules

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/nodeauthz"
)

func TestCoverageFires(t *testing.T) {
	undecided := func(r *Request) { r.Observed.Decision = "" }
	for i, c := range []struct {
		name string
		play func(p *tale, w *world)
		n    int // nodes, 6 if 0
		want []string
	}{
		{
			name: "ten minutes cut out of a log",
			play: func(p *tale, _ *world) { p.kubelets(6, 0, hour, 10, within(20*minute, 30*minute)) },
			want: []string{
				"23:00 medium: no request of any node has been logged since 2026-11-21T06:20:00Z, for 3 minutes, where 6 nodes made requests in 100% of all " +
					"intervals of ten seconds: either no API server ran, or a part of the log is missing",
				"30:00 medium: no request of any node has been logged since 2026-11-21T06:20:00Z, for 10 minutes",
				"end 30:00 medium: no request of any node was logged from 2026-11-21T06:20:00Z to 2026-11-21T06:30:00Z, for 10 minutes",
			},
		},
		{
			name: "five minutes cut out of a log of 5,000 requests a minute",
			n:    800,
			play: func(p *tale, _ *world) { p.kubelets(800, 0, 12*minute, 10, within(6*minute, 11*minute)) },
			want: []string{"09:00 medium: no request of any node", "end 11:00 medium: no request of any node was logged from"},
		},
		{
			name: "two nodes, the end of the log cut off the next day",
			n:    2,
			play: func(p *tale, _ *world) {
				p.kubelets(2, 0, 30*minute, 10, nil)
				p.kubelets(2, 5*hour, 5*hour+30*minute, 10, nil)
			},
			want: append(append([]string{"33:00 medium: no request of any node"}, slices.Repeat([]string{" medium: no request of any node has been logged since"}, 27)...),
				"end 11:00:00 medium: no request of any node was logged from 2026-11-21T06:30:00Z to 2026-11-21T11:00:00Z, for 270 minutes"),
		},
		{
			name: "seconds of a log, and one request two days later",
			play: func(p *tale, _ *world) {
				p.kubelets(6, 0, minute, 10, nil)
				p.one(48*hour, "worker-1")
			},
			want: append(append([]string{"12:01:00 medium: no request of any node"}, slices.Repeat([]string{" medium: no request of any node has been logged since"}, 108)...),
				"end 00:00 medium: no request of any node was logged from 2026-11-21T06:01:00Z to 2026-11-23T06:00:00Z, for 2879 minutes"),
		},
		{
			name: "half of all intervals are silent anyway: it takes longer",
			play: func(p *tale, _ *world) {
				p.kubelets(2, 0, 2*hour, 20, func(n, s int) bool { return n == 2 && s%600 != 14 || s >= 70*minute && s < 82*minute })
			},
			want: []string{"medium: no request of any node", "medium: no request of any node", "end 07:22:10"},
		},
		{
			name: "one node of six falls silent",
			play: func(p *tale, _ *world) { p.kubelets(6, 0, hour, 10, nodesWithin(20*minute, 45*minute, 3)) },
			want: []string{
				"30:00 low: no request of node worker-3 has been logged since 2026-11-21T06:20:00Z, for 10 minutes, while its Node object exists and other nodes continue: " +
					"either it is down or cut off, or its requests are missing from the log",
				"40:00 low: no request of node worker-3",
			},
		},
		{
			name: "one node of two falls silent, and for good",
			n:    2,
			play: func(p *tale, _ *world) { p.kubelets(2, 0, hour, 10, nodesWithin(20*minute, hour, 2)) },
			want: slices.Repeat([]string{"low: no request of node worker-2"}, 4),
		},
		{
			name: "the log of one of three API servers is missing",
			n:    15,
			play: func(p *tale, _ *world) {
				p.kubelets(15, 0, hour, 10, nodesWithin(20*minute, 38*minute, 1, 4, 7, 10, 13))
			},
			want: []string{"30:00 medium: no requests of 5 nodes have been logged since about 2026-11-21T06:20:00Z, while their Node objects exist and other nodes continue: the log " +
				"of one API server may be missing, or these nodes are cut off: worker-1, worker-10, worker-13, worker-4, worker-7"},
		},
		{
			name: "machines are switched off, and the control plane sees that, too",
			n:    15,
			play: func(p *tale, w *world) {
				p.kubelets(15, 0, hour, 10, nodesWithin(20*minute, 38*minute, 1, 4, 7, 10, 13))
				w.silent = map[string][2]int{}
				for _, n := range []int{1, 4, 7, 10, 13} {
					w.silent[fmt.Sprintf("worker-%d", n)] = [2]int{20*minute + 50, 38 * minute}
				}
			},
			want: []string{"30:00 low: no requests of 5 nodes have been logged since about 2026-11-21T06:20:00Z"},
		},
		{
			name: "one machine of six is switched off, and the log of the others is missing",
			n:    25,
			play: func(p *tale, w *world) {
				p.kubelets(25, 0, hour, 10, nodesWithin(20*minute, 38*minute, 1, 4, 7, 10, 13, 16))
				w.silent = map[string][2]int{"worker-1": {20*minute + 50, 38 * minute}}
			},
			want: []string{"30:00 medium: no requests of 6 nodes have been logged since about 2026-11-21T06:20:00Z"},
		},
		{
			name: "reads of secrets by one node are hidden",
			play: func(p *tale, w *world) {
				p.kubelets(6, 0, hour, 10, nil)
				w.bound("shop/web", "worker-2", 20*minute)
				p.pod(20*minute, "worker-2", "shop/web", false)
			},
			want: []string{"30:00 medium: no read of any secret by node worker-2 is in the log in the hour before pod shop/web was bound to it at 2026-11-21T06:20:00Z and ten " +
				"minutes after, though the pod needs the secret shop/db and other requests of the node are there: the audit policy or a filter hides these reads"},
		},
		{
			name: "once a day for a node, whatever comes to it",
			play: func(p *tale, w *world) {
				p.kubelets(6, 0, 2*hour, 10, nil)
				for i := range 6 {
					pod := fmt.Sprintf("shop/web-%d", i)
					w.bound(pod, "worker-2", (20+15*i)*minute)
					p.pod((20+15*i)*minute, "worker-2", pod, false)
				}
			},
			want: []string{"30:00 medium: no read of any secret by node worker-2"},
		},
		{
			name: "reads of secrets by all nodes are hidden: one finding",
			n:    40,
			play: func(p *tale, w *world) {
				p.kubelets(40, 0, hour, 10, nil)
				for i := 1; i <= 40; i++ {
					pod, node := fmt.Sprintf("shop/web-%d", i), fmt.Sprintf("worker-%d", i)
					w.bound(pod, node, 20*minute)
					p.pod(20*minute, node, pod, false)
				}
			},
			want: []string{"30:00 medium: of 40 nodes whose pods need secrets, 40 have no read of any secret in the log, such as that of shop/db for pod shop/web-1 on node worker-1"},
		},
		{
			name: "a filter drops the annotations",
			play: func(p *tale, _ *world) { p.kubelets(6, 0, 30*minute, 10, nil, undecided) },
			want: []string{"low: none of 50"},
		},
		{
			name: "they are dropped on the second day",
			play: func(p *tale, _ *world) {
				p.kubelets(6, 0, 18*hour, 60, nil)
				p.kubelets(6, 18*hour, 20*hour, 60, nil, undecided)
			},
			want: []string{"low: none of 50"},
		},
		{
			name: "a program that nobody judges",
			play: func(p *tale, _ *world) {
				p.kubelets(6, 0, hour, 10, nil)
				for _, s := range []int{10 * minute, 20 * minute} {
					p.one(s, "worker-1", verdict(nodeauthz.Unknown), agent("calico-node/v3"), granted("Group system:nodes"))
				}
			},
			want: []string{"10:00 medium: programs that use nodes' credentials were let through, and neither"},
		},
		{
			name: "a node that is there, and in the log only for its end",
			play: func(p *tale, _ *world) { p.kubelets(6, 0, 2*hour, 10, nodesWithin(0, 110*minute, 3)) },
			want: []string{"07:50:00 low: no request of node worker-3 was logged from 2026-11-21T06:00:00Z to 2026-11-21T07:50:00Z, for 110 minutes, while its"},
		},
		{
			name: "a node of which there is one request",
			play: func(p *tale, _ *world) {
				p.kubelets(5, 0, 70*minute, 10, nil)
				p.one(5*minute, "worker-6")
			},
			want: []string{"07:06:00 low: no request of node worker-6 has been logged since 2026-11-21T06:05:10Z"},
		},
		{
			name: "one answer a day that nobody knows",
			n:    2,
			play: func(p *tale, _ *world) {
				p.kubelets(2, 0, 19*hour, 60, nil)
				for _, s := range []int{10 * minute, 20 * minute, 18*hour + 10*minute} {
					p.one(s, "worker-1", unanswered)
				}
			},
			want: []string{
				"10:00 medium: the answer to requests of nodes that the Node authorizer denies is not in the log, and the state does not tell",
				"00:10:00 medium: the answer to requests of nodes",
			},
		},
		{
			name: "the whole log and one node afterwards",
			play: func(p *tale, _ *world) {
				p.kubelets(6, 0, hour, 10, func(n, s int) bool { return s >= 20*minute && s < 25*minute || n == 6 && s >= 25*minute })
			},
			want: []string{"23:00 medium: no request of any", "end 25:00 medium", "36:00 low: no request of node worker-6", "40:00 low", "50:00 low", "07:00:00 low"},
		},
	} {
		if i%effort.Of(1, 8) != 0 {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			n := c.n
			if n == 0 {
				n = 6
			}
			p, w := &tale{}, cluster(n)
			c.play(p, w)
			p.wants(t, auditCoverageGap(), w, c.want)
		})
	}
}

// wants checks what is found against parts of the lines.
func (p *tale) wants(t *testing.T, rule *Rule, s State, want []string) {
	t.Helper()
	got := p.detects(t, rule, s)
	ok := len(got) == len(want)
	for i := 0; ok && i < len(got); i++ {
		ok = strings.Contains(got[i], want[i])
	}
	if !ok {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func TestCoverageNearMisses(t *testing.T) {
	for i, c := range []struct {
		name string
		play func(p *tale, w *world)
		n    int
	}{
		{name: "a quiet hour of an ordinary cluster", play: func(p *tale, _ *world) { p.kubelets(6, 0, hour, 10, nil) }},
		{name: "an API server's restart of 20 seconds", play: func(p *tale, _ *world) { p.kubelets(6, 0, hour, 10, within(20*minute, 20*minute+20)) }},
		{name: "one of two minutes", play: func(p *tale, _ *world) { p.kubelets(6, 0, hour, 10, within(20*minute, 22*minute)) }},
		{name: "one node, which is rebooted", n: 1, play: func(p *tale, _ *world) { p.kubelets(1, 0, hour, 10, within(20*minute, 35*minute)) }},
		{name: "a log that ends", play: func(p *tale, _ *world) { p.kubelets(6, 0, 20*minute, 10, nil) }},
		{name: "a log that begins with ten minutes of little", play: func(p *tale, _ *world) {
			p.one(0, "worker-1")
			p.one(1, "worker-2")
			p.kubelets(6, 10*minute, hour, 10, nil)
		}},
		{name: "leases are not logged, and little else is", play: func(p *tale, _ *world) { p.kubelets(3, 0, 6*hour, 5*minute, nil) }},
		{name: "bunches of requests with silences between", play: func(p *tale, _ *world) {
			p.kubelets(6, 0, 3*hour, 10, func(_, s int) bool { return s%(8*minute) > 4*minute })
		}},
		{name: "a node reboots in five minutes", play: func(p *tale, _ *world) { p.kubelets(6, 0, hour, 10, nodesWithin(20*minute, 25*minute, 3)) }},
		{name: "a node is deleted", play: func(p *tale, w *world) {
			p.kubelets(6, 0, hour, 10, nodesWithin(20*minute, hour, 3))
			w.gone["worker-3"] = 21 * minute
		}},
		{name: "a cluster is scaled down to no nodes at night", play: func(p *tale, w *world) {
			p.kubelets(6, 0, 2*hour, 10, within(20*minute, hour))
			for i := 1; i <= 6; i++ {
				w.gone[fmt.Sprintf("worker-%d", i)] = 21 * minute
			}
		}},
		{name: "autoscaler churn", n: 60, play: func(p *tale, w *world) {
			p.kubelets(60, 0, 2*hour, 10, func(n, s int) bool { return s < n*minute || s >= (n+25)*minute })
			for i := 1; i <= 60; i++ {
				w.gone[fmt.Sprintf("worker-%d", i)] = (i + 26) * minute
				w.created[fmt.Sprintf("worker-%d", i)] = i*minute - 20
			}
		}},
		{name: "a node that the state does not know", play: func(p *tale, w *world) {
			p.kubelets(6, 0, hour, 10, nodesWithin(20*minute, hour, 3))
			w.nodes = w.nodes[:2]
		}},
		{name: "the state does not reach so far", play: func(p *tale, w *world) {
			p.kubelets(6, 0, hour, 10, nodesWithin(20*minute, hour, 3))
			w.blind = true
		}},
		{name: "a node that speaks now and then", play: func(p *tale, _ *world) {
			p.kubelets(5, 0, 2*hour, 10, nil)
			for s := 0; s < 2*hour; s += 12 * minute {
				p.one(s, "worker-6")
			}
		}},
		{name: "after an outage nodes come back one by one", play: func(p *tale, _ *world) {
			p.kubelets(6, 0, hour, 10, func(n, s int) bool { return s >= 20*minute && s < 21*minute+n*80 })
		}},
		{name: "secrets are read", play: func(p *tale, w *world) {
			p.kubelets(6, 0, hour, 10, nil)
			w.bound("shop/web", "worker-2", 20*minute)
			p.pod(20*minute, "worker-2", "shop/web", true)
		}},
		{name: "the read is late", play: func(p *tale, w *world) {
			p.kubelets(6, 0, hour, 10, nil)
			w.bound("shop/web", "worker-2", 20*minute)
			p.pod(20*minute, "worker-2", "shop/web", false)
			p.one(29*minute, "worker-2", does("watch secrets shop/db"))
		}},
		{name: "the secret was read for another pod half an hour before", play: func(p *tale, w *world) {
			p.kubelets(6, 0, hour, 10, nil)
			p.one(5*minute, "worker-2", does("watch secrets shop/other"))
			w.bound("shop/web", "worker-2", 35*minute)
			p.pod(35*minute, "worker-2", "shop/web", false)
		}},
		{name: "pods without secrets, or with secrets that the node has", play: func(p *tale, w *world) {
			p.kubelets(6, 0, hour, 10, nil)
			w.pods["shop/web"] = "worker-2"
			p.pod(20*minute, "worker-2", "shop/web", false)
		}},
		{name: "a pod that was bound before the log began", play: func(p *tale, w *world) {
			p.kubelets(6, 0, hour, 10, nil)
			w.bound("shop/web", "worker-2", -minute)
			p.pod(2*minute, "worker-2", "shop/web", false)
		}},
		{name: "the status of another node's pod", play: func(p *tale, w *world) {
			p.kubelets(6, 0, hour, 10, nil)
			w.bound("shop/web", "worker-3", 20*minute)
			p.pod(20*minute, "worker-2", "shop/web", false)
			p.one(20*minute, "worker-3", does("list secrets shop/db"))
		}},
		{name: "the node is gone before it could read", play: func(p *tale, w *world) {
			p.kubelets(6, 0, hour, 10, nodesWithin(20*minute+20, hour, 2))
			w.bound("shop/web", "worker-2", 20*minute)
			p.pod(20*minute, "worker-2", "shop/web", false)
			w.gone["worker-2"] = 21 * minute
		}},
		{name: "some requests have no decision", play: func(p *tale, _ *world) {
			p.kubelets(6, 0, hour, 10, nil, func(r *Request) {
				if r.Time.Second() >= 20 {
					r.Observed.Decision = ""
				}
			})
		}},
		{name: "no answers to what Node allows, or denies in a race", play: func(p *tale, _ *world) {
			p.kubelets(6, 0, hour, 10, nil)
			p.one(10*minute, "worker-1", unanswered, verdict(nodeauthz.Allow))
			p.one(20*minute, "worker-1", unanswered, race)
		}},
		{name: "what nobody knows of a kubelet, and of a program that was refused or has a binding of its own", play: func(p *tale, _ *world) {
			p.kubelets(6, 0, hour, 10, nil)
			p.one(10*minute, "worker-1", verdict(nodeauthz.Unknown))
			p.one(20*minute, "worker-1", verdict(nodeauthz.Unknown), agent("calico-node/v3"), code(403))
			p.one(30*minute, "worker-1", verdict(nodeauthz.Unknown), agent("calico-node/v3"), granted("Group system:authenticated"))
			p.one(40*minute, "worker-1", verdict(nodeauthz.Unknown), agent("calico-node/v3"), annotated("allow", nodeauthz.Allow))
		}},
		{name: "few requests, none with a decision", play: func(p *tale, _ *world) {
			p.kubelets(2, 0, 30*minute, 10, nil, func(r *Request) { r.Observed.Decision = "" })
		}},
		{name: "GKE's entries, which hold less", play: func(p *tale, _ *world) {
			p.kubelets(6, 0, hour, 10, nil, func(r *Request) { r.Observed.Decision, r.Event.Derived = "", true })
		}},
		{name: "somebody impersonates a node once", play: func(p *tale, _ *world) {
			p.kubelets(5, 0, hour, 10, nil)
			for s := range 15 * minute {
				p.one(s, "worker-6", impersonated)
			}
		}},
	} {
		if i%effort.Of(1, 8) != 0 {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			n := c.n
			if n == 0 {
				n = 6
			}
			p, w := &tale{}, cluster(n)
			c.play(p, w)
			p.wants(t, auditCoverageGap(), w, nil)
		})
	}
}

// What is remembered across a restart is enough: what was found is found, and nothing else is, wherever the restart comes.
func TestCoverageAcrossRestarts(t *testing.T) {
	w := cluster(6)
	p := &tale{}
	p.kubelets(6, 0, hour, 10, nodesWithin(40*minute, hour, 3))
	w.bound("shop/web", "worker-2", 20*minute)
	p.pod(20*minute, "worker-2", "shop/web", true)
	p.sort()
	want := p.run(t, auditCoverageGap(), w, nil, 10, false)
	if len(want) != 2 {
		t.Fatalf("%q", want)
	}
	for _, every := range []int{1, 7, 100} {
		if diff := cmp.Diff(want, p.run(t, auditCoverageGap(), w, nil, every, true)); diff != "" {
			t.Errorf("(-without +with a restart):\n%s", diff)
		}
	}
	d := newCoverageDetector(DetectorOptions{})
	for _, kind := range []string{rememberedCoverage, rememberedCoverNode} {
		if own, err := d.Restore(&Remembered{Kind: kind, Value: []byte("{")}); !own || err == nil {
			t.Errorf("%s: own %t, %v", kind, own, err)
		}
	}
	if own, err := d.Restore(&Remembered{Kind: "node", Value: []byte("{")}); own || err != nil {
		t.Errorf("another's: own %t, %v", own, err)
	}
}

// Leaps of time, and thousands of nodes, cost little.
func TestCoverageIsBounded(t *testing.T) {
	d := newCoverageDetector(DetectorOptions{})
	w := cluster(0)
	silences, last := 0, ""
	found := func(f *Detection) {
		if silences, last = silences+1, sayDetection(f); f.Reason != LogSilent {
			t.Errorf("%+v", f)
		}
	}
	r := request(code(200), annotated("allow", nodeauthz.Allow))
	ghosts := effort.Of(2*MaxNodes, 100)
	for i := range ghosts {
		r.Node = fmt.Sprintf("ghost-%d", i)
		follow(d, r, w)
	}
	if n := len(d.(*coverageDetector).nodes); n != min(ghosts, MaxNodes) {
		t.Errorf("%d nodes are distinguished", n)
	}
	d.Advance(at(minute), w, found)
	d.Advance(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), w, found)
	r.Time = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	follow(d, r, w)
	d.Advance(time.Date(9999, 1, 4, 0, 0, 0, 0, time.UTC), w, found)
	// From six hours to a day every ten minutes, and once when it was over; a single node is not reported.
	if silences != 110 || !strings.Contains(last, "to 9999-01-01T00:00:00Z, for 2562047h47m10s:") {
		t.Errorf("%d silences, the last: %s", silences, last)
	}
	for _, r := range d.Changes() {
		if len(r.Value) > 2000 {
			t.Errorf("%s: %d bytes", r.Kind, len(r.Value))
		}
	}
}

// 5,000 nodes, each with two certificates and pods that start, take little memory.
func TestCoverageOf5000Nodes(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	d := NewDetectors([]*Rule{auditCoverageGap(), nodeCredentialMisuse()}, DetectorOptions{})
	r, stored := request(code(200), annotated("allow", nodeauthz.Allow)), 0
	for second := 0; second < effort.Of(10, 1)*minute; second += 10 {
		for n := range 5000 {
			r.Time = at(second).Add(time.Duration(n) * time.Millisecond)
			r.Node = fmt.Sprintf("ip-10-%d-%d.eu-west-1.compute.internal", n/250, n%250)
			r.Event.SourceIPs = []string{fmt.Sprintf("10.0.%d.%d", n/250, n%250)}
			r.Event.AuditID = fmt.Sprintf("6f0f9f9e-0000-4000-8000-%06d%06d", n, second)
			r.Event.User.CredentialID = fmt.Sprintf("X509SHA256=%064x", n*2+second/300)
			does(fmt.Sprintf("patch pods/status shop/web-%d-%d", n, second))(r)
			observeLent(d, r, nil)
		}
		d.Advance(time.Time{}, nil, func(f *Detection) { t.Errorf("%+v", f) })
		if second%30 == 0 {
			stored += len(d.Changes())
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if mb := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) >> 20; mb > 50 {
		t.Errorf("%d MB", mb)
	} else {
		t.Logf("%d MB, %d entries stored", mb, stored)
	}
	runtime.KeepAlive(d)
}

// What the store gives back may be anything: it is refused, or the detectors continue with it.
func FuzzRestoreOfCoverage(f *testing.F) {
	f.Add(rememberedCoverage, "", []byte(`{"Done":176000000,"First":1,"Last":9,"Hour":[1,2,3,4,5,6],"Told":true}`))
	f.Add(rememberedCoverNode, "worker-1", []byte(`{"Minutes":18446744073709551615,"First":9,"Last":1,"Told":true,"Group":true}`))
	f.Add(rememberedCredentials, "worker-1", []byte(`[[null,{"Value":"a","Minutes":7,"Minute":9,"IDs":["","b","c","d","e","f","g"]}],[],[{}]]`))
	f.Add(rememberedOwner, "10.0.0.1", []byte(`{"Nodes":["x","y","z"]}`))
	f.Fuzz(func(t *testing.T, kind, key string, value []byte) {
		d := NewDetectors([]*Rule{auditCoverageGap(), nodeCredentialMisuse()}, DetectorOptions{})
		if err := d.Restore([]Remembered{{Kind: kind, Key: key, Value: value}}); err != nil {
			return
		}
		p := &tale{}
		p.kubelets(2, 0, 5*minute, 10, nil, home)
		p.kubelets(2, 20*minute, 21*minute, 10, nil, moved(0))
		for _, r := range p.requests {
			observeLent(d, r, cluster(2))
		}
		d.Flush(cluster(2), func(f *Detection) {
			if sayDetection(f) == "" || len(f.AuditIDs) > 5 {
				t.Errorf("%+v", f)
			}
		})
		d.Changes()
	})
}

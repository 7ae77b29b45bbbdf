package rules

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/internal/test/lent"
	"github.com/nodetrail/nodetrail/nodeauthz"
)

// detectionID is what makes a detection count once, whoever finds it and however often.
func detectionID(f *Detection) string {
	return fmt.Sprintf("%s|%s|%s|%s|%s|%s|%s|%s|%s|%s|%s|%s", f.Time.UTC().Truncate(time.Minute).Format(time.RFC3339), f.Rule, f.Subject, f.Reason, f.Apart, f.Phase, f.Verb,
		f.APIGroup, f.Resource, f.Subresource, f.Namespace, f.Name)
}

// once sorts detections, each once.
func once(all []*Detection) []*Detection {
	seen := map[string]bool{}
	all = slices.DeleteFunc(slices.Clone(all), func(f *Detection) bool {
		id := detectionID(f)
		defer func() { seen[id] = true }()
		return seen[id]
	})
	slices.SortStableFunc(all, func(a, b *Detection) int { return cmp.Compare(detectionID(a), detectionID(b)) })
	return all
}

// fleet is a number of analyzers, of which one at a time judges what several requests show, with what they have stored.
type fleet struct {
	t     *testing.T
	all   []*Rule
	state State
	rnd   *rand.Rand
	now   time.Time // of the clock
	rows  []*fleetRow
	// memory is what was stored, from when time was at cut.
	memory map[string]Remembered
	judge  *Lanes
	lanes  []string
	out    map[string]*Detection
	kills  int
}

type fleetRow struct {
	b     []byte
	taken *Lanes
	last  time.Time
}

// elect has another analyzer judge, which knows what is stored.
func (f *fleet) elect() {
	f.judge = NewLanes(NewDetectors(f.all, DetectorOptions{}))
	all := []Remembered{{Kind: "mode", Value: []byte("x")}}
	for _, m := range f.memory {
		all = append(all, m)
	}
	if err := f.judge.Restore(all); err != nil {
		f.t.Fatal(err)
	}
	f.kills++
}

// advance has the one that judges take in what is stored, and move time on.
func (f *fleet) advance(clock time.Time) {
	var lanes []KnownLane
	for _, name := range f.lanes {
		lanes = append(lanes, KnownLane{Name: name, Shared: true})
	}
	f.judge.Know(lanes, f.now)
	for _, row := range f.rows {
		if row.taken == f.judge {
			continue
		}
		last, err := f.judge.Take(slices.Clone(row.b))
		if err != nil {
			f.t.Fatal(err)
		}
		row.taken, row.last = f.judge, last
	}
	f.judge.Advance(f.now, clock, 0, f.state, f.found, func() {
		if f.rnd.IntN(3) > 0 {
			return // it is stored now and then
		}
		for _, m := range f.judge.Changes() {
			f.memory[m.Kind+"\x00"+m.Key] = m
		}
		f.rows = slices.DeleteFunc(f.rows, func(row *fleetRow) bool { return row.taken == f.judge && row.last.Before(f.judge.Watermark()) })
	})
}

func (f *fleet) found(d *Detection) {
	id := detectionID(d)
	if was := f.out[id]; was != nil {
		if diff := gocmp.Diff(was, d); diff != "" && f.kills > 1 {
			// What is found twice in a minute counts once; after a kill the first is found again first.
			return
		}
		return
	}
	f.out[id] = d
}

// relayed puts the requests through a fleet: in several lanes, each at its own pace, by analyzers of which the one that judges is killed now
// and then.
func relayed(t *testing.T, all []*Rule, requests []*Request, s State, rnd *rand.Rand) []*Detection {
	t.Helper()
	f := &fleet{t: t, all: all, state: s, rnd: rnd, now: at(0), memory: map[string]Remembered{}, out: map[string]*Detection{}}
	lanes := make([][]*Request, 1+rnd.IntN(6))
	for i := range lanes {
		f.lanes = append(f.lanes, fmt.Sprintf("kafka:audit/%d", i))
	}
	for _, r := range requests {
		h := fnv.New32a()
		if h.Write([]byte(r.Node)); !r.IsNode {
			h.Write([]byte(r.Event.AuditID))
		}
		i := int(h.Sum32()) % len(lanes)
		lanes[i] = append(lanes[i], r)
	}
	arrivals := map[*Request]time.Time{} // some nodes ask an API server whose clock is ahead
	var fast func(*Request) bool
	ahead := time.Duration(1+rnd.IntN(20)) * time.Minute
	if rnd.IntN(2) == 0 {
		share := uint32(2 + rnd.IntN(3))
		fast = func(r *Request) bool {
			h := fnv.New32a()
			h.Write([]byte(r.Node))
			return r.IsNode && h.Sum32()/7%share == 0
		}
	}
	for i := range lanes { // what comes in is not quite in order
		for _, r := range lanes[i] {
			if arrivals[r] = r.Time.Add(time.Duration(rnd.Int64N(int64(DefaultLateness - DetectStep)))); fast != nil && fast(r) {
				arrivals[r] = r.Time.Add(-ahead + time.Duration(rnd.Int64N(int64(time.Minute))))
			}
		}
		slices.SortStableFunc(lanes[i], func(a, b *Request) int { return arrivals[a].Compare(arrivals[b]) })
	}
	reached := make([]time.Time, len(lanes))
	f.elect()
	left, stalled, most := len(requests), rnd.IntN(len(lanes)), max(2, len(requests)/40)
	for left > 0 {
		if rnd.IntN(30) == 0 {
			stalled = rnd.IntN(len(lanes) + 1)
		}
		var row Observations
		for i := range lanes {
			n := min(rnd.IntN(most), len(lanes[i]))
			if i == stalled || n == 0 && rnd.IntN(2) == 0 {
				continue
			}
			for _, r := range lanes[i][:n] {
				if !r.Time.After(arrivals[r]) && r.Time.After(reached[i]) {
					reached[i] = r.Time
				}
			}
			if row.Lane(f.lanes[i], reached[i]); len(lanes[i]) == n { // its end
				reached[i] = at(0).Add(1000 * time.Hour)
				row.Lane(f.lanes[i], reached[i])
			}
			for _, r := range lanes[i][:n] {
				if Observes(r) {
					of, takeBack := lent.Copy(r)
					row.Add(AppendObservation(nil, of, arrivals[r]))
					takeBack()
				}
			}
			lanes[i] = lanes[i][n:]
			left -= n
		}
		if b := row.Bytes(); b != nil {
			f.rows = append(f.rows, &fleetRow{b: b})
		}
		if rnd.IntN(3) == 0 {
			f.advance(time.Time{})
		}
		if rnd.IntN(25) == 0 {
			f.elect()
		}
	}
	if f.advance(time.Time{}); rnd.IntN(2) == 0 {
		f.elect()
		f.advance(time.Time{})
	}
	f.advance(at(0).Add(10_000 * time.Hour))
	if n := f.judge.d.Late(); n > 0 {
		t.Errorf("%d requests came too late", n)
	}
	if f.judge.Held() > 0 {
		t.Errorf("%d requests are held", f.judge.Held())
	}
	var out []*Detection
	for _, d := range f.out {
		out = append(out, d)
	}
	return once(out)
}

// asOne puts the requests through detectors that see the whole log, as analyze does.
func asOne(t *testing.T, all []*Rule, requests []*Request, s State) []*Detection {
	t.Helper()
	d := NewDetectors(all, DetectorOptions{})
	var out []*Detection
	found := func(f *Detection) { out = append(out, f) }
	for i, r := range requests {
		if observeLent(d, r, s); i%256 == 255 || d.Due() {
			d.Advance(time.Time{}, s, found)
		}
	}
	if d.Flush(s, found); d.Late() > 0 {
		t.Errorf("%d requests came too late", d.Late())
	}
	return once(out)
}

// crowd is a few hours of a cluster in which nodes have to be compared with each other: the nodes together are denied far more than usual, several come
// from one address, two swap theirs, two use one certificate, many search a little each, many fall silent, and one token asks for many nodes.
func crowd(t *testing.T, rnd *rand.Rand) (*tale, *world) {
	nodes := 6 + rnd.IntN(6)
	w := cluster(nodes)
	p := &tale{}
	name := func(i int) string { return fmt.Sprintf("worker-%d", i) }
	address := func(i int) string { return fmt.Sprintf("10.0.0.%d", i) }
	gateway, a, b := rnd.IntN(2) == 0, 1+rnd.IntN(nodes), 1+rnd.IntN(nodes)
	swap, silence, quiet := rnd.IntN(90)*minute, (20+rnd.IntN(80))*minute, (100+rnd.IntN(20))*minute
	for s := 0; s < 2*hour; s++ {
		for i := 1; i <= nodes; i++ {
			if (s+i*3)%20 != 0 || s >= silence && s < silence+15*minute && i > 1 && i < 8 || s >= quiet && s < quiet+8*minute {
				continue
			}
			from1, cert := address(i), i
			switch {
			case gateway && s > swap && i <= 4:
				from1 = "10.0.9.9"
			case s > swap && i == a:
				from1 = address(b)
			case s > swap && i == b:
				from1 = address(a)
			}
			if i == a && s > swap+10*minute && s%3 == 0 {
				cert = b
			}
			p.one(s, name(i), lease(name(i)), from(from1), certificate(fmt.Sprintf("%s%064x", certCredential, cert)))
		}
	}
	verdicts := []string{"deny", "unsure", "passed", "lag"}
	for range 5 {
		begin, length, every, alone := rnd.IntN(2*hour-minute), 20+rnd.IntN(300), 1+rnd.IntN(3), 0
		if rnd.IntN(3) == 0 {
			every, alone = 1, 1+rnd.IntN(nodes)
		}
		verdict, what := verdicts[rnd.IntN(len(verdicts))], []string{"get secrets shop/o%d", "get configmaps shop/o%d", "get pods shop/o%d"}[rnd.IntN(3)]
		for s := begin; s < min(begin+length, 2*hour); s += every {
			for i := 1; i <= nodes; i++ {
				if alone != 0 && i != alone {
					continue
				}
				p.one(s, name(i), does(fmt.Sprintf(what, rnd.IntN(9))), func(r *Request) {
					if err := judgedAs(r, verdict); err != nil {
						t.Fatal(err)
					}
				}, from(address(i)), certificate(fmt.Sprintf("%s%064x", certCredential, i)))
			}
		}
	}
	for i := range effort.Of(30, 10) {
		victim := name(1 + rnd.IntN(nodes))
		ask, s := kubeletsAsk(victim), rnd.IntN(2*hour-2*minute)
		ask.user = fmt.Sprintf("system:bootstrap:token-%d", rnd.IntN(2))
		ask.cert = fmt.Sprintf("certificate %d", i)
		csr := fmt.Sprintf("csr-%d", i)
		p.one(s, victim, signing(t, ask, "", csr), from(fmt.Sprintf("10.0.0.%d", 1+rnd.IntN(nodes))))
		p.one(s+rnd.IntN(20), victim, signing(t, ask, "approval", csr))
		p.one(s+rnd.IntN(40), victim, signing(t, ask, "status", csr))
		if rnd.IntN(2) == 0 {
			p.one(s+41, victim, lease(victim), certificate(credentialOf(ask.cert)), from(address(1+rnd.IntN(nodes))))
		}
	}
	for i := range 4 {
		pod, on := fmt.Sprintf("shop/web-%d", i), 1+rnd.IntN(nodes)
		s := rnd.IntN(2*hour - 10*minute)
		w.bound(pod, name(on), s)
		p.pod(s, name(on), pod, rnd.IntN(3) == 0)
	}
	p.sort()
	for i, r := range p.requests {
		r.Event.AuditID = fmt.Sprintf("%08x-0000-4000-8000-%012x", i, i)
		r.Observed.Decision = "allow"
	}
	return p, w
}

// One analyzer at a time, that judges what several have stored, finds what analyze finds in the whole log: whatever the lanes and their pace, the order
// within the lateness, and the kills.
func TestLanesFindTheSame(t *testing.T) {
	found := map[Reason]int{}
	for seed := range effort.Of(uint64(16), 3) {
		rnd := rand.New(rand.NewPCG(seed, 22))
		p, w := crowd(t, rnd)
		want := asOne(t, All(), p.requests, w)
		for _, f := range want {
			found[f.Reason]++
		}
		for range 2 {
			if diff := gocmp.Diff(want, relayed(t, All(), p.requests, w, rnd)); diff != "" {
				t.Fatalf("seed %d (-analyze +fleet):\n%s", seed, diff)
			}
		}
	}
	if effort.Of(false, true) {
		return // too few for all of them
	}
	for _, reason := range []Reason{
		SpikeOfNode, SpikeOfCluster, SharedCertificate, TwoCertificates, SecondAddress, ManyWithinMinutes, NodesSilent, LogSilent, SecretReadsMissing,
		LiveNodeSigned, CertificateMoved, CertificateNoBirth,
	} {
		if found[reason] == 0 {
			t.Errorf("%s was never found: the test shows little (%v)", reason, found)
		}
	}
}

// Time waits for a lane that is behind, also for one that nobody reads, but not without end: not for one that nobody has touched for an hour, not for a process
// that has ended, and not once too much is held.
func TestLanesWait(t *testing.T) {
	row := func(name string, reached int, requests int) []byte {
		var o Observations
		o.Lane(name, at(reached))
		for i := range requests {
			o.Add(AppendObservation(nil, request(func(r *Request) { r.Time = at(reached - i) }), time.Time{}))
		}
		return o.Bytes()
	}
	now := at(0)
	for name, c := range map[string]struct {
		behind KnownLane
		after  time.Duration
		full   bool
		waits  bool
	}{
		"nobody has it":               {behind: KnownLane{Name: "b", Shared: true}, after: goneAfter, waits: true},
		"gone":                        {behind: KnownLane{Name: "b", Shared: true}, after: goneAfter + 1},
		"of a process":                {behind: KnownLane{Name: "b"}, after: time.Minute, waits: true},
		"of a process that has ended": {behind: KnownLane{Name: "b"}, after: time.Minute + 1},
		"too much":                    {behind: KnownLane{Name: "b", Shared: true}, full: true},
	} {
		l := NewLanes(NewDetectors(All(), DetectorOptions{}))
		l.Know([]KnownLane{{Name: "a", Shared: true}, c.behind}, now)
		if _, err := l.Take(row("a", 10*minute, 10)); err != nil {
			t.Fatal(err)
		}
		if c.full {
			l.most = l.bytes
		}
		advance := func(now time.Time) time.Time {
			l.Advance(now, time.Time{}, time.Minute, nil, func(*Detection) {}, func() {})
			return l.Watermark()
		}
		want := at(8 * minute)
		if c.waits {
			want = time.Time{}
		}
		if got := advance(now.Add(c.after)); !got.Equal(want) {
			t.Errorf("%s: time is %v, want %v", name, got, want)
		}
		if !c.waits {
			continue
		}
		if _, err := l.Take(row("b", 5*minute, 0)); err != nil {
			t.Fatal(err)
		}
		if got := advance(now.Add(c.after)); !got.Equal(at(3 * minute)) {
			t.Errorf("%s: time is %v after five minutes of it", name, got)
		}
		c.behind.Touched++
		l.Know([]KnownLane{{Name: "a", Shared: true}, c.behind}, now.Add(2*goneAfter))
		if _, err := l.Take(row("b", 20*minute, 0)); err != nil {
			t.Fatal(err)
		}
		if got := advance(now.Add(2 * goneAfter)); !got.Equal(at(8 * minute)) {
			t.Errorf("%s: time is %v after all of it", name, got)
		}
	}
}

// An observation shows detectors what the request does, whatever a client puts into its requests.
func TestObservationShowsTheRequest(t *testing.T) {
	long := strings.Repeat("x", 300)
	changes := [][]with{
		nil, {code(200)}, {race}, {impersonated}, {path("/metrics/" + long)}, {does("get secrets shop/" + long)}, {does("get secrets " + long + "/db")}, {does("list secrets shop/")},
		{does("get secrets shop/" + long + "1")}, {from("fe80::1%eth0")}, {from("10.0.0.1", "::ffff:10.0.0.2")}, {from(long)}, {from()}, {agent("kubelet " + long)}, {agent("")},
		{certificate(certCredential + strings.Repeat("A", 64))}, {certificate(certCredential + strings.Repeat("ab", 32))}, {certificate(long)}, {certificate("JTI=1")},
		{func(r *Request) { r.Event.AuditID = "6F0F9F9E-0000-4000-8000-000000000000" }}, {func(r *Request) { r.Event.AuditID = "6f0f9f9e-0000-4000-8000-000000000000" }},
		{func(r *Request) { r.Event.AuditID = long }}, {unanswered}, {byRBAC(200)}, {verdict(nodeauthz.Unknown), granted("Group system:nodes"), agent("calico-node/v3")},
		{func(r *Request) { r.Event.StageTime = r.Time.Add(time.Hour) }}, {func(r *Request) { r.Event.Derived = true }}, {annotated("forbid", nodeauthz.Deny)},
		{func(r *Request) { r.Time = time.Date(1969, 1, 1, 0, 0, 0, 7, time.UTC) }}, {does("patch pods/status shop/web")}, {lease("worker-1"), code(200)},
		{does("create serviceaccounts/token shop/web"), code(201), func(r *Request) { r.Event.IssuedCredential = "JTI=2" }},
		{signing(t, kubeletsAsk("worker-2"), "", "csr-1")}, {signing(t, kubeletsAsk("worker-2"), "status", "csr-1")}, {signing(t, kubeletsAsk("worker-2"), "approval", "csr-1"), impersonated},
		{signing(t, kubeletsAsk("worker-2"), "", "csr-2"), func(r *Request) { r.Event.RequestURI = "/x?dryRun=All" }}, {signing(t, kubeletsAsk("worker-2"), "", "csr-3"), func(r *Request) { r.Event.RequestObject = nil }},
	}
	reader, of := newObservationReader(), &observed{}
	var row Observations
	var want []*Request
	row.Lane("a", at(7))
	for _, c := range changes {
		for range 2 {
			r := request(c...)
			if !Observes(r) {
				t.Fatalf("%+v is of no use", r)
			}
			row.Add(AppendObservation(nil, r, time.Time{}))
			want = append(want, r)
		}
	}
	n := 0
	var all []observation
	if err := reader.read(row.Bytes(), func(name string, reached time.Time) {
		if name != "a" || !reached.Equal(at(7)) {
			t.Errorf("lane %q, %v", name, reached)
		}
	}, func(o observation) {
		got, whole := of.request(&o)
		if !whole {
			t.Fatalf("broken: %+v", want[n])
		}
		if diff := gocmp.Diff(seenOf(want[n]), seenOf(got)); diff != "" {
			t.Errorf("(-request +observation):\n%s", diff)
		}
		n++
		all = append(all, o)
	}); err != nil || n != len(want) {
		t.Fatal(n, err)
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 20_000 { // nothing of the one before is left
		o := &all[rnd.IntN(len(all))]
		got, _ := of.request(o)
		if fresh, _ := (&observed{}).request(o); !reflect.DeepEqual(got, fresh) {
			t.Fatalf("(-fresh +again):\n%s", gocmp.Diff(fmt.Sprintf("%+v %+v %+v", fresh, fresh.Event, fresh.Attrs), fmt.Sprintf("%+v %+v %+v", got, got.Event, got.Attrs)))
		}
	}
	if len(row.Bytes()) > 250*len(want) {
		t.Errorf("%d bytes for %d requests", len(row.Bytes()), len(want))
	}
}

// seenOf is what detectors look at of a request, by the functions with which they do.
func seenOf(r *Request) map[string]any {
	s := map[string]any{
		"time": r.Time, "node": r.Node, "isNode": r.IsNode, "impersonated": r.Event.IsImpersonated, "denies": r.NodeDenies(), "allows": nodeAllows(r), "byGraph": byGraph(r),
		"birth": ofBirth(r), "verdict": r.Answer.Verdict, "allowed": r.Allowed, "succeeded": r.Succeeded(), "code": r.Event.Code, "open": r.Open, "decision": r.Observed.Decision != "",
		"address": lastAddress(r), "audit": bounded(r.Event.AuditID, maxRemembered), "product": Product(r.Event.UserAgent), "dryRun": audit.Signs(r.Event) && DryRun(r.Event),
		"unjudged": (&coverageDetector{}).unjudges(r), "prompt": r.Event.StageTime.Sub(r.Time) < time.Minute, "answered": r.Event.Code != 0 && r.Event.Stage != audit.StageRequestReceived && !r.Event.Derived,
		"verb": bounded(r.Attrs.Verb, maxRemembered), "group": r.Attrs.APIGroup, "resource": r.Attrs.Resource, "sub": r.Attrs.Subresource, "of": r.Attrs.ResourceRequest, "ns": bounded(r.Attrs.Namespace, maxRemembered),
	}
	if id := r.Event.User.CredentialID; len(id) <= maxRemembered {
		s["credential"] = id
	}
	if r.NodeDenies() || byGraph(r) {
		s["id"], s["name"], s["path"] = idOf(r, hash(hashSeed, r.Node)), bounded(r.Attrs.Name, maxRemembered), bounded(r.Attrs.Path, maxRemembered)
	}
	if r.NodeDenies() {
		s["reason"] = reasonOf(r)
	}
	if r.Attrs.Resource == "serviceaccounts" {
		s["issued"] = r.Event.IssuedCredential
	}
	if ofBirth(r) {
		sign, whole := r.Signing()
		s["user"], s["effective"], s["objVerb"], s["objSub"] = r.Event.User.Username, r.Event.Effective().Username, r.Event.Verb, r.Event.ObjectRef.Subresource
		if audit.Signs(r.Event) {
			s["signing"], s["whole"] = *sign, whole
		}
	}
	return s
}

// FuzzObservations holds what is read of a store to: no panic, and an error or requests that detectors can be shown.
func FuzzObservations(f *testing.F) {
	var row Observations
	row.Lane("a", at(1))
	row.Add(AppendObservation(nil, request(), time.Time{}))
	row.Add(AppendObservation(nil, request(signing(f, kubeletsAsk("worker-2"), "", "csr-1")), time.Time{}))
	f.Add(row.Bytes())
	f.Fuzz(func(_ *testing.T, b []byte) {
		l := NewLanes(NewDetectors(All(), DetectorOptions{}))
		_, err := l.Take(b)
		_ = err // broken bytes may be
		l.Advance(at(0), at(hour), -1, nil, func(*Detection) {}, func() { l.Changes() })
	})
}

package evidence

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/nodeauthz"
)

func minutes(n float64) time.Time { return noon.Add(time.Duration(n * float64(time.Minute))) }

func TestRenewalsOfANode(t *testing.T) {
	h := HourOf(noon)
	for name, c := range map[string]struct {
		s    seen
		want bool
	}{
		"update":             {renewal("a", minutes(1)), true},
		"patch":              {renewal("a", minutes(1)).change(func(ev *audit.Event) { ev.Verb = "patch" }), true},
		"create":             {renewal("a", minutes(1)).change(func(ev *audit.Event) { ev.Verb, ev.Code = "create", 201 }), true},
		"get":                {renewal("a", minutes(1)).change(func(ev *audit.Event) { ev.Verb = "get" }), false},
		"refused":            {renewal("a", minutes(1)).change(func(ev *audit.Event) { ev.Code = 403 }), false},
		"failed":             {renewal("a", minutes(1)).change(func(ev *audit.Event) { ev.Code = 500 }), true},
		"timed out":          {renewal("a", minutes(1)).change(func(ev *audit.Event) { ev.Code = 504 }), true},
		"failed and refused": {renewal("a", minutes(1)).change(func(ev *audit.Event) { ev.Code, ev.Decision = 500, "forbid" }), false},
		"too many requests":  {renewal("a", minutes(1)).change(func(ev *audit.Event) { ev.Code, ev.Decision = 429, "" }), true},
		"conflict":           {renewal("a", minutes(1)).change(func(ev *audit.Event) { ev.Code = 409 }), false},
		"not answered":       {renewal("a", minutes(1)).change(func(ev *audit.Event) { ev.Code = 0 }), false},
		"received":           {renewal("a", minutes(1)).change(func(ev *audit.Event) { ev.Stage = audit.StageRequestReceived }), false},
		"another's":          {renewal("a", minutes(1)).change(func(ev *audit.Event) { ev.ObjectRef.Name = "b" }), false},
		"another namespace":  {renewal("a", minutes(1)).change(func(ev *audit.Event) { ev.ObjectRef.Namespace = "kube-system" }), false},
		"another group":      {renewal("a", minutes(1)).change(func(ev *audit.Event) { ev.ObjectRef.APIGroup = "" }), false},
		"a subresource":      {renewal("a", minutes(1)).change(func(ev *audit.Event) { ev.ObjectRef.Subresource = "status" }), false},
		"impersonated":       {renewal("a", minutes(1)).change(func(ev *audit.Event) { ev.IsImpersonated = true }), false},
		"without a time":     {renewal("a", time.Time{}), false},
	} {
		l := ledgerOf(New(), c.s)
		n := l.Node("a", h)
		if got := n != nil && n.Renewed.Count() == 1; got != c.want {
			t.Errorf("%s: renewed is %t, want %t", name, got, c.want)
		}
		if c.want && !slices.Equal(slices.Collect(l.Renewals("a", h-1, h+1)), []int64{SlotOf(minutes(1))}) {
			t.Errorf("%s: renewals are %v", name, slices.Collect(l.Renewals("a", h-1, h+1)))
		}
	}
}

// Who renews a Lease that is not a node's own is seen apart, whether a node or somebody else.
func TestForeignRenewals(t *testing.T) {
	h := HourOf(noon)
	other := renewal("b", minutes(7)).change(func(ev *audit.Event) { ev.ObjectRef.Name = "a" })
	somebody := renewal("b", minutes(7)).change(func(ev *audit.Event) { ev.ObjectRef.Name, ev.User.Username = "a", "system:serviceaccount:kwok:kwok" })
	somebody.o = Origin{}
	refused := somebody.change(func(ev *audit.Event) { ev.Code = 403 })
	for name, c := range map[string]struct {
		s    seen
		want Parts
	}{"a node": {other, 2}, "somebody": {somebody, 2}, "refused": {refused, 0}} {
		got := Parts(0)
		if n := ledgerOf(New(), c.s).Node("a", h); n != nil {
			got = n.Foreign
			if n.First != 0 || n.Renewed.Count() != 0 {
				t.Errorf("%s: %+v", name, n)
			}
		}
		if got != c.want {
			t.Errorf("%s: parts %b, want %b", name, got, c.want)
		}
	}
}

// Of watches whose beginnings are lost, as many are found as are alone in their lane and part. Where none is lost, none is found, in any order and however often.
func TestBeginningsAreFound(t *testing.T) {
	h := HourOf(noon)
	found, all := 0, 0
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 9))
		var events []seen
		type place struct {
			part Parts
			lane int
		}
		alone := map[place]bool{} // whether no beginning is there
		for range 30 {
			at := noon.Add(time.Duration(r.Int64N(int64(time.Hour - time.Second))))
			id := fmt.Sprint(r.Uint64())
			watch := request("a", "watch", "", "pods", "", "", at).change(func(ev *audit.Event) { ev.AuditID = id })
			events = append(events, watch, watch)
			where := place{partOf(at), bits.TrailingZeros64(uint64(laneOf(1, id))) / partsPerHour}
			if _, there := alone[where]; !there {
				alone[where] = true
			}
			if seed%2 == 0 || r.IntN(10) > 0 {
				begin := watch.change(func(ev *audit.Event) { ev.Stage = audit.StageResponseStarted })
				events = append(events, begin, begin)
				alone[where] = false
			} else {
				all++
			}
		}
		r.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
		n := ledgerOf(New(), events...).Node("a", h)
		want := 0
		for _, lost := range alone {
			if lost {
				want++
			}
		}
		got := (n.Ended[LongStanding] &^ n.Began[LongStanding]).Count()
		if got != want || seed%2 == 0 && got != 0 {
			t.Fatalf("seed %d: %d beginnings are missed, want %d", seed, got, want)
		}
		found += got
	}
	if found*2 < all {
		t.Errorf("%d of %d lost beginnings are found", found, all)
	}
}

// Each slot is in the part of its time, also where a part lies in two words.
func TestPartsOfSlots(t *testing.T) {
	for slot := range slotsPerHour {
		var s Slots
		s.add(slot)
		if got, want := s.Parts(), partAt(slot*int(slotSeconds)); got != want {
			t.Errorf("slot %d: %b, want %b", slot, got, want)
		}
	}
	if none := new(Slots); none.Parts() != 0 {
		t.Errorf("no slot: %b", none.Parts())
	}
}

func TestWatches(t *testing.T) {
	h := HourOf(noon)
	watch := func(from, to float64) seen {
		return request("a", "watch", "", "pods", "", "", minutes(from)).change(func(ev *audit.Event) { ev.StageTime = minutes(to) })
	}
	type parts struct{ Before, At, After Parts }
	for name, c := range map[string]struct {
		s    seen
		want parts
	}{
		"a short one":             {watch(11, 12), parts{0, 1 << 2, 0}},
		"it ended":                {watch(11, 21), parts{0, 1<<2 | 1<<3 | 1<<4, 0}},
		"over the end of an hour": {watch(-4, 6), parts{1 << 11, 1<<0 | 1<<1, 0}},
		"over a whole hour":       {watch(-1, 61), parts{1 << 11, allParts, 1}},
		"a very long one":         {watch(-58, 600), parts{allParts, allParts, 1}},
		"it began":                {watch(11, 21).change(func(ev *audit.Event) { ev.Stage = audit.StageResponseStarted }), parts{0, 1 << 2, 0}},
		"refused":                 {watch(11, 21).change(func(ev *audit.Event) { ev.Code = 403 }), parts{}},
		"it ends before it began": {watch(11, 10), parts{}},
		"of a subresource":        {watch(11, 21).change(func(ev *audit.Event) { ev.ObjectRef.Subresource = "log" }), parts{}},
		"of another group":        {watch(11, 21).change(func(ev *audit.Event) { ev.ObjectRef.APIGroup = "example.com" }), parts{}},
		"a list":                  {watch(11, 21).change(func(ev *audit.Event) { ev.Verb = "list" }), parts{}},
		"no kubelet":              {seen{watch(11, 21).ev, Origin{Node: "a"}}, parts{}},
	} {
		l := ledgerOf(New(), c.s)
		at := func(h Hour) Parts {
			if n := l.Node("a", h); n != nil {
				return n.Watched[WatchPods]
			}
			return 0
		}
		if diff := cmp.Diff(c.want, parts{at(h - 1), at(h), at(h + 1)}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for kind, c := range map[Watch]struct{ group, resource string }{
		WatchNodes: {"", "nodes"}, WatchServices: {"", "services"}, WatchCSIDrivers: {"storage.k8s.io", "csidrivers"},
		WatchRuntimeClasses: {"node.k8s.io", "runtimeclasses"},
	} {
		n := ledgerOf(New(), request("a", "watch", c.group, c.resource, "", "", minutes(1))).Node("a", h)
		if n.Watched[kind] != 1 || kind.String() != c.resource {
			t.Errorf("%s: %v", kind, n.Watched)
		}
		wrong := request("a", "watch", "example.com", c.resource, "", "", minutes(1))
		if n := ledgerOf(New(), wrong).Node("a", h); n.Watched != [Watches]Parts{} {
			t.Errorf("%s of another group: %v", kind, n.Watched)
		}
	}
}

func TestReadsAndStarts(t *testing.T) {
	h := HourOf(noon)
	get := request("a", "get", "", "secrets", "shop", "db", minutes(6))
	start := request("a", "create", "", "nodes", "", "a", minutes(6)).change(func(ev *audit.Event) { ev.Code = 409 })
	type shown struct{ Secrets, ConfigMaps, Started, Joined Parts }
	for name, c := range map[string]struct {
		s    seen
		want shown
	}{
		"a secret":             {get, shown{Secrets: 2}},
		"refused":              {get.change(func(ev *audit.Event) { ev.Code = 403 }), shown{Secrets: 2}},
		"a configmap, watched": {get.change(func(ev *audit.Event) { ev.Verb, ev.ObjectRef.Resource = "watch", "configmaps" }), shown{ConfigMaps: 2}},
		"all secrets":          {get.change(func(ev *audit.Event) { ev.Verb, ev.ObjectRef.Name = "list", "" }), shown{}},
		"a write":              {get.change(func(ev *audit.Event) { ev.Verb = "update" }), shown{}},
		"no kubelet":           {seen{get.ev, Origin{Node: "a"}}, shown{}},
		"it starts":            {start, shown{Started: 2}},
		"it joins":             {start.change(func(ev *audit.Event) { ev.Code = 201 }), shown{Started: 2, Joined: 2}},
		"it may not":           {start.change(func(ev *audit.Event) { ev.Code = 403 }), shown{}},
		"another's Node":       {start.change(func(ev *audit.Event) { ev.ObjectRef.Name = "b" }), shown{}},
	} {
		n := ledgerOf(New(), c.s).Node("a", h)
		if diff := cmp.Diff(c.want, shown{n.Read[ReadSecrets], n.Read[ReadConfigMaps], n.Started, n.Joined}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if n.First != 361 || n.Last != 361 {
			t.Errorf("%s: from %d to %d", name, n.First, n.Last)
		}
	}
}

func TestActs(t *testing.T) {
	part := partOf(noon)
	of := func(verb, group, resource, subresource, name string) seen {
		return request("worker-1", verb, group, resource, "", name, noon).change(func(ev *audit.Event) { ev.ObjectRef.Subresource = subresource })
	}
	for name, c := range map[string]struct {
		s    seen
		want Act
	}{
		"patch of its status":            {of("patch", "", "nodes", "status", "worker-1"), ActReportNode},
		"update of its status":           {of("update", "", "nodes", "status", "worker-1"), ActReportNode},
		"patch of another node's status": {of("patch", "", "nodes", "status", "worker-2"), Acts},
		"patch of its Node":              {of("patch", "", "nodes", "", "worker-1"), Acts},
		"get of its Node":                {of("get", "", "nodes", "", "worker-1"), ActGetNode},
		"get of another Node":            {of("get", "", "nodes", "", "worker-2"), Acts},
		"get of its status":              {of("get", "", "nodes", "status", "worker-1"), Acts},
		"get of a pod":                   {of("get", "", "pods", "", "web"), ActGetPod},
		"get of a pod's log":             {of("get", "", "pods", "log", "web"), Acts},
		"list of pods":                   {of("list", "", "pods", "", ""), Acts},
		"a pod's status":                 {of("patch", "", "pods", "status", "web"), ActReportPod},
		"a pod's status, looked at":      {of("get", "", "pods", "status", "web"), Acts},
		"a token":                        {of("create", "", "serviceaccounts", "token", "web"), ActCreateToken},
		"a service account":              {of("create", "", "serviceaccounts", "", "web"), Acts},
		"deletion of a pod":              {of("delete", "", "pods", "", "web"), ActDeletePod},
		"eviction of a pod":              {of("create", "", "pods", "eviction", "web"), Acts},
		"a pod of another group":         {of("get", "metrics.k8s.io", "pods", "", "web"), Acts},
		"get of a pod, refused":          {of("get", "", "pods", "", "web").change(func(ev *audit.Event) { ev.Code = 403 }), ActGetPod},
		"get of a pod that was received": {of("get", "", "pods", "", "web").change(func(ev *audit.Event) { ev.Stage = audit.StageRequestReceived }), Acts},
		"get of a pod as somebody else":  {of("get", "", "pods", "", "web").change(func(ev *audit.Event) { ev.IsImpersonated = true }), Acts},
	} {
		for _, kubelet := range []bool{true, false} {
			c.s.o.Kubelet = kubelet
			n := ledgerOf(New(), c.s).Node("worker-1", HourOf(noon))
			var want [Acts]Parts
			if kubelet && c.want != Acts {
				want[c.want] = part
			}
			if n == nil && want == [Acts]Parts{} {
				continue
			}
			if n == nil || n.Acted != want {
				t.Errorf("%s, a kubelet %t: %+v", name, kubelet, n)
			}
		}
	}
}

// What a kubelet does not do without a look at its Node is noted: a report of one before 1.31, and a start that finds the Node.
func TestOwes(t *testing.T) {
	report := request("worker-1", "patch", "", "nodes", "", "worker-1", noon).change(func(ev *audit.Event) { ev.ObjectRef.Subresource = "status" })
	by := func(agent string) seen { return report.change(func(ev *audit.Event) { ev.UserAgent = agent }) }
	start := func(code int32) seen {
		return request("worker-1", "create", "", "nodes", "", "worker-1", noon).change(func(ev *audit.Event) { ev.Code = code })
	}
	for name, c := range map[string]struct {
		s    seen
		want bool
	}{
		"1.28":                  {by("kubelet/v1.28.15 (linux/amd64) kubernetes/abc"), true},
		"1.30 of a distributor": {by("kubelet.exe/v1.30.4+k3s1 (windows/amd64) kubernetes/abc"), true},
		"1.31":                  {by("kubelet/v1.31.0 (linux/amd64) kubernetes/abc"), false},
		"no version":            {by("kubelet"), false},
		"another version":       {by("kubelet/v1"), false},
		"a version of words":    {by("kubelet/v1.x.4"), false},
		"refused":               {by("kubelet/v1.28.15").change(func(ev *audit.Event) { ev.Code = 403 }), false},
		"it starts":             {start(409), true},
		"it joins":              {start(201), false},
		"it may not":            {start(403), false},
	} {
		want := Parts(0)
		if c.want {
			want = partOf(noon)
		}
		if n := ledgerOf(New(), c.s).Node("worker-1", HourOf(noon)); n.Owes != want {
			t.Errorf("%s: owes %b, want %b", name, n.Owes, want)
		}
	}
}

func TestServersByTheirLeases(t *testing.T) {
	h := HourOf(noon)
	type shown struct {
		Renewed, Started int
		Versions         []string
	}
	usual := serverRenewal("apiserver-x", minutes(3))
	for name, c := range map[string]struct {
		s    seen
		want shown
	}{
		"update":             {usual, shown{1, 0, []string{"v1.36.3"}}},
		"get":                {usual.change(func(ev *audit.Event) { ev.Verb = "get" }), shown{0, 1, []string{"v1.36.3"}}},
		"create":             {usual.change(func(ev *audit.Event) { ev.Verb, ev.Code = "create", 201 }), shown{1, 1, []string{"v1.36.3"}}},
		"a failure":          {usual.change(func(ev *audit.Event) { ev.Code = 504 }), shown{1, 0, []string{"v1.36.3"}}},
		"a conflict":         {usual.change(func(ev *audit.Event) { ev.Code = 409 }), shown{0, 0, []string{"v1.36.3"}}},
		"another client":     {usual.change(func(ev *audit.Event) { ev.UserAgent = "curl/8" }), shown{1, 0, nil}},
		"too long a version": {usual.change(func(ev *audit.Event) { ev.UserAgent = "kube-apiserver/v1.36.3-0123456789012345678901234567890" }), shown{1, 0, nil}},
	} {
		s := ledgerOf(New(), c.s).Server("apiserver-x", h)
		if diff := cmp.Diff(c.want, shown{s.Renewed.Count(), s.Started.Count(), s.Versions}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for name, s := range map[string]seen{
		"another user":      usual.change(func(ev *audit.Event) { ev.User.Username = "system:serviceaccount:kube-system:x" }),
		"another namespace": usual.change(func(ev *audit.Event) { ev.ObjectRef.Namespace = "default" }),
		"another Lease":     usual.change(func(ev *audit.Event) { ev.ObjectRef.Name = "kube-scheduler" }),
		"a deletion":        usual.change(func(ev *audit.Event) { ev.Verb, ev.UserAgent = "delete", "" }),
	} {
		if s := ledgerOf(New(), s).Server("apiserver-x", h); s != nil && (s.Renewed.Count() > 0 || s.Started.Count() > 0) {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// Renewals of own Leases show who is asked first; any request shows whether there are decisions.
func TestSources(t *testing.T) {
	h := HourOf(noon)
	usual := renewal("a", minutes(1))
	rbac := `RBAC: allowed by ClusterRoleBinding "x" of ClusterRole "system:node" to Group "system:nodes"`
	type shown struct{ Requests, Undecided, ByNode, ByRBAC, ByOther, Refused Parts }
	for name, c := range map[string]struct {
		s    seen
		want shown
	}{
		"Node":               {usual, shown{Requests: 1, ByNode: 1}},
		"RBAC":               {usual.change(func(ev *audit.Event) { ev.Reason = rbac }), shown{Requests: 1, ByRBAC: 1}},
		"a webhook":          {usual.change(func(ev *audit.Event) { ev.Reason = "yes" }), shown{Requests: 1, ByOther: 1}},
		"a master":           {usual.change(func(ev *audit.Event) { ev.User.Groups = []string{"system:nodes", "system:masters"} }), shown{Requests: 1, ByOther: 1}},
		"nobody":             {usual.change(func(ev *audit.Event) { ev.Decision, ev.Code = "forbid", 403 }), shown{Requests: 1, Refused: 1}},
		"no decision":        {usual.change(func(ev *audit.Event) { ev.Decision = "" }), shown{Requests: 1, Undecided: 1}},
		"turned away":        {usual.change(func(ev *audit.Event) { ev.Code, ev.Decision = 429, "" }), shown{Requests: 1}},
		"a pod, no decision": {request("a", "get", "", "pods", "shop", "web", minutes(1)).change(func(ev *audit.Event) { ev.Decision = "" }), shown{Requests: 1}},
		"another request":    {request("a", "get", "", "pods", "shop", "web", minutes(1)), shown{Requests: 1}},
		"another's Lease":    {usual.change(func(ev *audit.Event) { ev.ObjectRef.Name, ev.Decision, ev.Code = "b", "forbid", 403 }), shown{Requests: 1}},
		"services by RBAC":   {request("a", "watch", "", "services", "", "", minutes(1)).change(func(ev *audit.Event) { ev.Reason = rbac }), shown{Requests: 1, ByRBAC: 1}},
		"a pod refused":      {request("a", "create", "", "pods", "shop", "", minutes(1)).change(func(ev *audit.Event) { ev.Decision, ev.Code = "forbid", 403 }), shown{Requests: 1, Refused: 1}},
		"a secret by RBAC":   {request("a", "get", "", "secrets", "shop", "db", minutes(1)).change(func(ev *audit.Event) { ev.Reason = rbac }), shown{Requests: 1}},
		"without an answer":  {usual.change(func(ev *audit.Event) { ev.Code, ev.Decision = 0, "" }), shown{}},
	} {
		c.s.o.Source = "10.0.0.1"
		s := ledgerOf(New(), c.s).Source("10.0.0.1", h)
		if s == nil {
			s = &SourceHour{}
		}
		if diff := cmp.Diff(c.want, shown{s.Requests, s.Undecided, s.ByNode, s.ByRBAC, s.ByOther, s.Refused}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestAnyNodeMay holds what every node may do against the authorizers of all versions: it is what all of them allow, and no more.
func TestAnyNodeMay(t *testing.T) {
	resources := []string{"services", "endpoints", "nodes", "events", "pods", "secrets", "configmaps", "serviceaccounts", "persistentvolumeclaims", "leases", "csinodes",
		"tokenreviews", "subjectaccessreviews", "localsubjectaccessreviews", "certificatesigningrequests", "csidrivers", "runtimeclasses", "podcertificaterequests", "resourceslices"}
	groups := []string{"", "authentication.k8s.io", "authorization.k8s.io", "certificates.k8s.io", "storage.k8s.io", "node.k8s.io", "coordination.k8s.io", "events.k8s.io", "resource.k8s.io"}
	var all []*nodeauthz.Authorizer
	for minor := nodeauthz.OldestMinor; minor <= nodeauthz.NewestMinor; minor++ {
		features, err := nodeauthz.FeaturesFor(fmt.Sprintf("1.%d", minor))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, nodeauthz.NewAuthorizer(nodeauthz.NewGraph(), features, 0))
	}
	node := &user.DefaultInfo{Name: "system:node:a", Groups: []string{"system:nodes"}}
	for _, group := range groups {
		for _, resource := range resources {
			for _, sub := range []string{"", "status", "token", "eviction", "binding", "proxy", "approval"} {
				for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "impersonate"} {
					ev := audit.Event{Verb: verb, ObjectRef: audit.ObjectRef{APIGroup: group, Resource: resource, Subresource: sub, Namespace: "ns", Name: "x"}}
					attrs := &authorizer.AttributesRecord{
						User: node, Verb: verb, APIGroup: group, APIVersion: "v1", Resource: resource, Subresource: sub, Namespace: "ns", Name: "x", ResourceRequest: true,
					}
					want := !slices.ContainsFunc(all, func(a *nodeauthz.Authorizer) bool {
						answer := a.Decide(attrs, noon)
						return answer.Verdict != nodeauthz.Allow || !answer.Static
					})
					if got := anyNodeMay(&ev); got != want {
						t.Errorf("%s %s %s/%s: got %t, want %t", verb, group, resource, sub, got, want)
					}
				}
			}
		}
	}
}

func TestHours(t *testing.T) {
	for at, want := range map[time.Time]Hour{
		time.Unix(0, 0): 0, time.Unix(3599, 999): 0, time.Unix(3600, 0): 1, time.Unix(-1, 0): -1, time.Unix(-3600, 0): -1, time.Unix(-3601, 0): -2,
	} {
		if got := HourOf(at); got != want || at.Before(got.Start()) || !at.Before(got.End()) {
			t.Errorf("%s: hour %d, want %d", at, got, want)
		}
		if slot := SlotOf(at); at.Before(SlotStart(slot)) || !at.Before(SlotStart(slot+1)) {
			t.Errorf("%s: slot %d", at, slot)
		}
	}
}

// Forgotten hours are gone without a mark.
func TestForget(t *testing.T) {
	l := ledgerOf(New(), renewal("a", minutes(1)), renewal("a", minutes(61)))
	l.Forget(HourOf(noon) + 1)
	if l.Node("a", HourOf(noon)) != nil || l.Node("a", HourOf(noon)+1) == nil {
		t.Error("the wrong hour is gone")
	}
	if _, dropped := l.Dropped(); dropped {
		t.Error("it counts as dropped")
	}
	if got := dump(t, l); len(got) != 2 {
		t.Errorf("%v", got)
	}
	if err := l.Changes(func(k Key, _ []byte) error {
		if k.Hour == HourOf(noon) {
			return fmt.Errorf("a change of a forgotten hour: %+v", k)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// Who brings pods is known if he is no node, whoever he acts as, and not by the word of nodes; where a program that wrote a record did not look, nothing is missed.
func TestComings(t *testing.T) {
	h := HourOf(noon)
	of := func(sub string, change func(*audit.Event)) seen {
		s := request("", "create", "", "pods", "shop", "", noon).change(func(ev *audit.Event) {
			ev.User, ev.ObjectRef.Subresource, ev.Code = audit.User{Username: "system:serviceaccount:kube-system:job-controller", Groups: []string{"system:serviceaccounts"}}, sub, 201
		}).change(change)
		s.o = Origin{}
		return s
	}
	same := func(*audit.Event) {}
	node := request("worker-1", "create", "", "pods", "shop", "web", noon)
	for name, c := range map[string]struct {
		s    seen
		want [Comings]Parts
	}{
		"a pod":                   {of("", same), [Comings]Parts{ComingMade: partOf(noon)}},
		"a binding":               {of("binding", same), [Comings]Parts{ComingBound: partOf(noon)}},
		"an eviction":             {of("eviction", same), [Comings]Parts{}},
		"another group's":         {of("", func(ev *audit.Event) { ev.ObjectRef.APIGroup = "example.com" }), [Comings]Parts{}},
		"an update":               {of("", func(ev *audit.Event) { ev.Verb = "update" }), [Comings]Parts{}},
		"a pod, as somebody":      {of("", func(ev *audit.Event) { ev.IsImpersonated = true }), [Comings]Parts{ComingMade: partOf(noon)}},
		"a pod, refused":          {of("", func(ev *audit.Event) { ev.Code = 403 }), [Comings]Parts{}},
		"a pod that came in":      {of("", func(ev *audit.Event) { ev.Stage = audit.StageRequestReceived }), [Comings]Parts{}},
		"a node":                  {node, [Comings]Parts{}},
		"a node out of place":     {of("", func(ev *audit.Event) { ev.User.Username = "system:node:worker-9" }), [Comings]Parts{}},
		"a member of its group":   {of("", func(ev *audit.Event) { ev.User.Groups = []string{"system:nodes"} }), [Comings]Parts{}},
		"an API server by itself": {of("", func(ev *audit.Event) { ev.User.Username = serverUser }), [Comings]Parts{}},
	} {
		l := ledgerOf(New(), c.s)
		copied := New()
		exchange(t, l, copied, true)
		for _, l := range []*Ledger{l, copied} {
			var got [Comings]Parts
			if s := l.Source("", h); s != nil {
				got = s.Came
			}
			if got != c.want {
				t.Errorf("%s: %b", name, got)
			}
			for of := range Comings {
				if in := l.Came(of, noon.Add(-time.Hour), noon.Add(time.Hour)); in != (c.want[of] != 0) || l.Came(of, noon.Add(PartLength), noon.Add(time.Hour)) {
					t.Errorf("%s: %s %t", name, of, in)
				}
			}
		}
	}
	old, l := &SourceHour{Requests: partOf(noon)}, New()
	if err := l.Put(Key{Kind: KindSource, Hour: h}, old.appendAs([]byte{withoutComes}, withoutComes)); err != nil {
		t.Fatal(err)
	}
	if !l.Came(ComingMade, noon, noon) || !l.Came(ComingBound, noon.Add(50*time.Minute), noon.Add(50*time.Minute)) {
		t.Error("something is missed where nobody looked for it")
	}
}

// Who asks for reviews is noted, nodes' programs included, but for whom it is known what they ask. Where nobody looked, there may have been some.
func TestReviews(t *testing.T) {
	h := HourOf(noon)
	of := func(change func(*seen)) seen {
		s := request("", "create", "authorization.k8s.io", "subjectaccessreviews", "", "", noon)
		s.ev.User, s.o = audit.User{Username: "system:serviceaccount:monitoring:proxy"}, Origin{}
		change(&s)
		return s
	}
	for name, c := range map[string]struct {
		s    seen
		want bool
	}{
		"a service account":      {of(func(*seen) {}), true},
		"in a namespace":         {of(func(s *seen) { s.ev.ObjectRef.Resource = "localsubjectaccessreviews" }), true},
		"about itself":           {of(func(s *seen) { s.ev.ObjectRef.Resource = "selfsubjectaccessreviews" }), false},
		"refused":                {of(func(s *seen) { s.ev.Code = 403 }), false},
		"a node's program":       {of(func(s *seen) { s.o = Origin{Node: "worker-1"} }), true},
		"a kubelet":              {of(func(s *seen) { s.o = Origin{Node: "worker-1", Kubelet: true} }), false},
		"the controller manager": {of(func(s *seen) { s.ev.User.Username = "system:kube-controller-manager" }), false},
		"an API server":          {of(func(s *seen) { s.ev.User.Username = serverUser }), false},
	} {
		l := ledgerOf(New(), c.s)
		copied := New()
		exchange(t, l, copied, true)
		for _, l := range []*Ledger{l, copied} {
			if l.Reviewed(noon, noon) != c.want || l.Reviewed(noon.Add(PartLength), noon.Add(time.Hour)) {
				t.Errorf("%s: %t", name, !c.want)
			}
		}
	}
	old, l := &SourceHour{Requests: partOf(noon)}, New()
	if err := l.Put(Key{Kind: KindSource, Hour: h}, old.appendAs([]byte{withoutComes}, withoutComes)); err != nil {
		t.Fatal(err)
	}
	if !l.Reviewed(noon, noon) {
		t.Error("nobody asked where nobody looked")
	}
}

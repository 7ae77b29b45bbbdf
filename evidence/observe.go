package evidence

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/internal/nodeid"
)

// Origin says where an event comes from.
type Origin struct {
	// Source is the API server that wrote the event, where the sources tell servers apart, else empty.
	Source string
	// Node is the node whose identity the authenticated user is, empty for others.
	Node string
	// Kubelet says that the client calls itself a kubelet.
	Kubelet bool
}

const (
	leaseGroup     = "coordination.k8s.io"
	nodeLeases     = "kube-node-lease"
	serverUser     = "system:apiserver"
	serverLeases   = "kube-system"
	serverLease    = "apiserver-"
	serverAgent    = "kube-apiserver/"
	longestVersion = 32
	// longestWatch bounds for how long before its end a watch counts. Those that kubelets always keep end after ten minutes.
	longestWatch = 2 * time.Hour
)

// Observe takes in an event of any stage. It keeps nothing of the event. Requests by impersonation show nothing about the node and are passed over.
func (l *Ledger) Observe(ev *audit.Event, o Origin) {
	at := ev.RequestReceived
	if ev.Stage == audit.StageRequestReceived || at.IsZero() {
		return
	}
	if o.Node == "" && audit.BringsPod(ev) {
		l.coming(ev, o)
		return
	}
	if audit.AsksReview(ev) {
		l.review(ev, o)
	}
	if ev.IsImpersonated {
		return
	}
	lease := ev.ObjectRef.Resource == "leases" && ev.ObjectRef.APIGroup == leaseGroup && ev.ObjectRef.Subresource == ""
	if o.Node == "" && !lease {
		return
	}
	seconds := at.Unix()
	h := HourOf(at)
	b := l.book(h)
	if b == nil {
		return
	}
	second := int(seconds - int64(h)*3600)
	if o.Node == "" {
		l.lease(b, ev, second)
		return
	}
	part := partAt(second)
	var source *SourceHour // of requests that are answered
	if ev.Code != 0 {
		if source = l.source(b, o.Source); source != nil {
			changed := source.Requests.add(part)
			changed = source.overruled(ev, part) || changed
			if changed {
				l.touch(&source.mark)
			}
		}
	}
	n := l.node(b, o.Node)
	if n == nil {
		return
	}
	changed := n.during(second)
	switch {
	case lease:
		changed = l.ownLease(b, source, n, ev, second) || changed
	case ev.Verb == "watch":
		changed = n.spans(ev, part) || changed
		changed = l.watch(n, ev, o.Kubelet) || changed
	}
	if o.Kubelet {
		changed = n.kubelet(ev, part) || changed
		if act := n.actOf(ev); source != nil && (act == ActGetPod || act == ActReportPod) && source.Pods.add(act, ev.ObjectRef.Namespace, ev.ObjectRef.Name) {
			l.touch(&source.mark)
		}
	}
	if changed {
		l.touch(&n.mark)
	}
}

// coming takes in that somebody brings a pod, under whatever name he acts: who drops events of users does so by who they are.
func (l *Ledger) coming(ev *audit.Event, o Origin) {
	if ev.User.Username == serverUser || nodeid.Resembles(ev.User.Username, ev.User.Groups) {
		return
	}
	of := ComingMade
	if ev.ObjectRef.Subresource != "" {
		of = ComingBound
	}
	l.byOthers(ev, o, func(s *SourceHour) *Parts { return &s.Came[of] })
}

// review takes in that somebody asks what another user may do. Programs of the control plane ask about who gets their paths, kubelets about who asks them.
func (l *Ledger) review(ev *audit.Event, o Origin) {
	if name := ev.User.Username; !o.Kubelet && name != serverUser && !strings.HasPrefix(name, nodeid.ComponentPrefix) {
		l.byOthers(ev, o, func(s *SourceHour) *Parts { return &s.Reviewed })
	}
}

// byOthers enters a request that was not refused in a set of the parts of its hour.
func (l *Ledger) byOthers(ev *audit.Event, o Origin, in func(*SourceHour) *Parts) {
	if refused(ev) {
		return
	}
	b := l.book(HourOf(ev.RequestReceived))
	if b == nil {
		return
	}
	if s := l.source(b, o.Source); s != nil && in(s).add(partOf(ev.RequestReceived)) {
		l.touch(&s.mark)
	}
}

// during notes the time of a request.
func (n *NodeHour) during(second int) (changed bool) {
	s := uint16(second) + 1
	if n.First == 0 || s < n.First {
		n.First, changed = s, true
	}
	if s > n.Last {
		n.Last, changed = s, true
	}
	return changed
}

// anyNodeMay reports whether the Node authorizer of every version allows the request to any node, whatever its object is.
func anyNodeMay(ev *audit.Event) bool {
	ref := &ev.ObjectRef
	reads, writes := reads(ev.Verb), renews(ev.Verb)
	switch ref.APIGroup {
	case "":
		switch ref.Resource + "/" + ref.Subresource {
		case "services/":
			return reads
		case "endpoints/":
			return ev.Verb == "get"
		case "nodes/", "events/":
			return writes
		case "nodes/status", "pods/status":
			return writes && ev.Verb != "create"
		case "pods/":
			return ev.Verb == "create" || ev.Verb == "delete"
		case "pods/eviction":
			return ev.Verb == "create"
		}
	case "authentication.k8s.io":
		return ref.Resource == "tokenreviews" && ref.Subresource == "" && ev.Verb == "create"
	case "authorization.k8s.io":
		return (ref.Resource == "subjectaccessreviews" || ref.Resource == "localsubjectaccessreviews") && ref.Subresource == "" && ev.Verb == "create"
	case "certificates.k8s.io":
		return ref.Resource == "certificatesigningrequests" && ref.Subresource == "" && (reads || ev.Verb == "create")
	case "storage.k8s.io":
		return ref.Subresource == "" && (ref.Resource == "csidrivers" && reads || ref.Resource == "csinodes" && ev.Verb == "create")
	case "node.k8s.io":
		return ref.Resource == "runtimeclasses" && ref.Subresource == "" && reads
	}
	return false
}

// overruled notes that RBAC decided, or nobody, on a request that the Node authorizer always allows.
func (s *SourceHour) overruled(ev *audit.Event, part Parts) bool {
	switch {
	case ev.Decision == "" || ev.Decision == "allow" && !strings.HasPrefix(ev.Reason, "RBAC:") || !anyNodeMay(ev):
		return false
	case ev.Decision == "allow":
		return s.ByRBAC.add(part)
	}
	return s.Refused.add(part)
}

func reads(verb string) bool { return verb == "get" || verb == "list" || verb == "watch" }

func renews(verb string) bool { return verb == "update" || verb == "patch" || verb == "create" }

// refused reports whether the request came no further than to the authorizers.
func refused(ev *audit.Event) bool {
	return ev.Decision == "forbid" || ev.Code == http.StatusUnauthorized || ev.Code == http.StatusForbidden
}

func succeeded(ev *audit.Event) bool { return ev.Code >= 200 && ev.Code < 300 }

// renewed reports whether the request was a renewal for which the API server asked its storage, or would have had it not been busy, whatever came of that. It shows that the client
// renews, and that the log has it: after a failure the next renewal comes no later.
func renewed(ev *audit.Event) bool {
	return renews(ev.Verb) && !refused(ev) && (succeeded(ev) || ev.Code >= 500 || ev.Code == http.StatusTooManyRequests)
}

// lease takes in what others than nodes do with Leases: API servers with their identity, and those who play a node.
func (l *Ledger) lease(b *book, ev *audit.Event, second int) {
	ref := &ev.ObjectRef
	switch {
	case refused(ev): // whoever it says that he is
	case ref.Namespace == serverLeases && ev.User.Username == serverUser && strings.HasPrefix(ref.Name, serverLease):
		renewed, started, version := renewed(ev), ev.Verb == "get" || ev.Verb == "create", versionOf(ev.UserAgent)
		if !renewed && !started && version == "" {
			return
		}
		if s := l.server(b, ref.Name); s != nil {
			slot := second / int(slotSeconds)
			changed := renewed && s.Renewed.add(slot)
			changed = started && s.Started.add(slot) || changed
			if version != "" && s.version(version) || changed {
				l.touch(&s.mark)
			}
		}
	case ref.Namespace == nodeLeases && renews(ev.Verb) && succeeded(ev):
		if n := l.node(b, ref.Name); n != nil && n.Foreign.add(partAt(second)) {
			l.touch(&n.mark)
		}
	}
}

// versionOf returns the version in a user agent such as "kube-apiserver/v1.36.3 (linux/amd64) kubernetes/abc", empty in any other.
func versionOf(agent string) string {
	version, ok := strings.CutPrefix(agent, serverAgent)
	if version, _, _ = strings.Cut(version, " "); !ok || len(version) > longestVersion {
		return ""
	}
	return version
}

// version keeps the first versions by their order, whichever comes first.
func (s *ServerHour) version(v string) bool {
	i, there := slices.BinarySearch(s.Versions, v)
	if there {
		return false
	}
	if len(s.Versions) >= MaxVersions {
		if i == MaxVersions && s.ManyVersions {
			return false
		}
		s.ManyVersions = true
		if i == MaxVersions {
			return true
		}
		s.Versions = s.Versions[:MaxVersions-1]
	}
	s.Versions = slices.Insert(s.Versions, i, strings.Clone(v))
	return true
}

// ownLease takes in a request of a node for a Lease.
func (l *Ledger) ownLease(b *book, s *SourceHour, n *NodeHour, ev *audit.Event, second int) (changed bool) {
	if ev.ObjectRef.Namespace != nodeLeases || !renews(ev.Verb) || ev.ObjectRef.Name != n.name {
		if ev.ObjectRef.Namespace == nodeLeases && renews(ev.Verb) && succeeded(ev) {
			if other := l.node(b, ev.ObjectRef.Name); other != nil && other != n && other.Foreign.add(partAt(second)) {
				l.touch(&other.mark)
			}
		}
		return false
	}
	if s != nil && s.word(ev, partAt(second)) {
		l.touch(&s.mark)
	}
	return renewed(ev) && n.Renewed.add(second/int(slotSeconds))
}

// word notes who decided on a renewal of the node's own Lease.
func (s *SourceHour) word(ev *audit.Event, part Parts) bool {
	switch {
	case ev.Decision == "":
		return succeeded(ev) && s.Undecided.add(part) // what was not served may not have come as far as to the authorizers
	case ev.Decision != "allow":
		return s.Refused.add(part)
	case strings.HasPrefix(ev.Reason, "RBAC:"):
		return s.ByRBAC.add(part)
	case ev.Reason == "" && !slices.Contains(ev.User.Groups, user.SystemPrivilegedGroup):
		return s.ByNode.add(part)
	}
	return s.ByOther.add(part)
}

// watch takes in a watch of a kubelet that was served. One that ended was live since it was asked for.
func (l *Ledger) watch(n *NodeHour, ev *audit.Event, kubelet bool) (changed bool) {
	kind := watchOf(&ev.ObjectRef)
	if kind == Watches || !kubelet || ev.Code != 200 || ev.StageTime.Before(ev.RequestReceived) {
		return false
	}
	from, to := ev.RequestReceived, ev.StageTime
	if ev.Stage == audit.StageResponseStarted {
		to = from
	} else if to.Sub(from) > longestWatch {
		to = from.Add(longestWatch)
	}
	first, last := HourOf(from), HourOf(to)
	for h := first; h <= last; h++ {
		lo, hi := 0, partsPerHour-1
		if h == first {
			lo = int(from.Sub(h.Start()) / PartLength)
		}
		if h == last {
			hi = int(to.Sub(h.Start()) / PartLength)
		}
		in := n
		if h != first {
			b := l.book(h)
			if b == nil {
				continue
			}
			if in = l.node(b, n.name); in == nil {
				continue
			}
		}
		if in.Watched[kind].add(Parts(1<<(hi+1)-1) &^ Parts(1<<lo-1)) {
			l.touch(&in.mark)
			changed = true
		}
	}
	return changed
}

// spans takes in the beginning or the end of a watch that was served. Events of a provider's form do not tell when a watch was asked for.
func (n *NodeHour) spans(ev *audit.Event, part Parts) bool {
	if ev.Code != 200 || ev.Derived {
		return false
	}
	kind := longOf(&ev.ObjectRef)
	switch ev.Stage {
	case audit.StageResponseStarted:
		return n.Began[kind].add(laneOf(part, ev.AuditID))
	case audit.StageResponseComplete:
		return n.Ended[kind].add(laneOf(part, ev.AuditID))
	}
	return false
}

func longOf(ref *audit.ObjectRef) Long {
	switch {
	case watchOf(ref) != Watches:
		return LongStanding
	case ref.APIGroup != "" || ref.Subresource != "":
		return LongOther
	case ref.Resource == "secrets":
		return LongSecrets
	case ref.Resource == "configmaps":
		return LongConfigMaps
	}
	return LongOther
}

func watchOf(ref *audit.ObjectRef) Watch {
	if ref.Subresource != "" {
		return Watches
	}
	switch ref.Resource {
	case "pods", "nodes", "services":
		if ref.APIGroup != "" {
			return Watches
		}
		switch ref.Resource {
		case "pods":
			return WatchPods
		case "nodes":
			return WatchNodes
		}
		return WatchServices
	case "csidrivers":
		if ref.APIGroup == "storage.k8s.io" {
			return WatchCSIDrivers
		}
	case "runtimeclasses":
		if ref.APIGroup == "node.k8s.io" {
			return WatchRuntimeClasses
		}
	}
	return Watches
}

// actOf returns what a kubelet did, Acts if it is none of the acts.
func (n *NodeHour) actOf(ev *audit.Event) Act {
	ref := &ev.ObjectRef
	switch ref.Resource {
	case "pods":
		switch {
		case ref.Subresource == "" && ev.Verb == "get":
			return ActGetPod
		case ref.Subresource == "" && ev.Verb == "delete":
			return ActDeletePod
		case ref.Subresource == "status" && (ev.Verb == "patch" || ev.Verb == "update"):
			return ActReportPod
		}
	case "nodes":
		switch {
		case ref.Name != n.name:
		case ref.Subresource == "status" && (ev.Verb == "patch" || ev.Verb == "update"):
			return ActReportNode
		case ref.Subresource == "" && ev.Verb == "get":
			return ActGetNode
		}
	case "serviceaccounts":
		if ref.Subresource == "token" && ev.Verb == "create" {
			return ActCreateToken
		}
	}
	return Acts
}

// listsNodes is the minor of the kubelet that takes its Node from its watch before it reports the Node's status. Until then it got it (tryUpdateNodeStatus).
const listsNodes = 31

// looksFirst reports whether a user agent such as "kubelet/v1.29.15 (linux/amd64) kubernetes/abc" is that of a kubelet which gets its Node before each report.
func looksFirst(agent string) bool {
	_, version, _ := strings.Cut(agent, "/v1.")
	minor, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(minor)
	return err == nil && n < listsNodes
}

// kubelet takes in what every kubelet does, reads by name, and starts.
func (n *NodeHour) kubelet(ev *audit.Event, part Parts) bool {
	ref := &ev.ObjectRef
	if ref.APIGroup != "" || ref.Name == "" {
		return false
	}
	if act := n.actOf(ev); act != Acts {
		changed := n.Acted[act].add(part)
		if act == ActReportNode && succeeded(ev) && looksFirst(ev.UserAgent) {
			changed = n.Owes.add(part) || changed
		}
		return changed
	}
	if ref.Subresource != "" {
		return false
	}
	switch ref.Resource {
	case "secrets", "configmaps":
		if !reads(ev.Verb) {
			return false
		}
		kind := ReadSecrets
		if ref.Resource == "configmaps" {
			kind = ReadConfigMaps
		}
		return n.Read[kind].add(part)
	case "nodes":
		if ev.Verb != "create" || ref.Name != n.name || ev.Code != 201 && ev.Code != 409 {
			return false
		}
		changed := n.Started.add(part)
		if ev.Code == 201 {
			return n.Joined.add(part) || changed
		}
		return n.Owes.add(part) || changed // it compares what is there with itself
	}
	return false
}

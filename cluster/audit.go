package cluster

import (
	"bytes"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/nodeauthz"
)

// effective is when the change that a request made took effect, as nearly as its audit event says.
func effective(ev *audit.Event) time.Time { return ev.StageTime }

// lag is how much before that it may have been, of a request that was answered late: the object is stored, and watchers see it, before the answer is
// written. Of others the skew tells.
func lag(ev *audit.Event) time.Duration {
	took := ev.StageTime.Sub(ev.RequestReceived)
	if ev.RequestReceived.IsZero() || took < time.Second {
		return 0
	}
	return took
}

const (
	// refineWithin is how far what a watcher saw may be from the audit event of the request that may have caused it.
	refineWithin = 2 * time.Second
	// refineNear is the same for a request of which it is not known that it was the end.
	refineNear = 250 * time.Millisecond
	// settled is how long after a request its effect is in the graph, if a watcher saw it at all.
	settled = time.Second
)

// ApplyAudit takes from an audit event what it says of the state: from the bodies of requests that succeeded, and without bodies
// at least when something happened that is known already. The state stays open by it: what was not seen may still exist.
//
// Only events of the stage ResponseComplete with a code of 2xx count, and no dry runs. The body of a request says less than that of the
// response, since admission and defaults come later: it counts only where no journal or snapshot was loaded. Load those first.
// Nothing of the event is kept.
func (s *State) ApplyAudit(ev *audit.Event) { s.ApplyRead(ev, nil) }

// Read is what was read of an event's body before its turn; it may alias the body. See [State.ReadAudit].
type Read struct {
	uid, version string // read if versioned
	versioned    bool
	// object is the object, or of what was deleted its metadata; nil where none was read.
	object *object
	usable bool // object
}

// ReadAudit reads what [State.ApplyAudit] will need of the event's body, and changes nothing. It may be called concurrently. It returns nil where there
// is nothing to read.
func (s *State) ReadAudit(ev *audit.Event) *Read {
	id, ok := changes(ev)
	if !ok || len(ev.ResponseObject) == 0 {
		return nil
	}
	d := readers.Get().(*decoder)
	defer readers.Put(d)
	r := &Read{}
	switch sub := ev.ObjectRef.Subresource; {
	case ev.Verb == "delete" && sub == "":
		r.read(d.auditObject(ev.ResponseObject, id, ev, d.head))
	case ev.Verb == "delete" || ev.Verb == "deletecollection" || id == kindLease || !writes(sub):
		return nil
	default:
		if versioned(id, ev) {
			r.uid, r.version = d.version(ev.ResponseObject)
			r.versioned = true
			s.mu.Lock()
			known := s.versions.has(r.uid, r.version)
			s.mu.Unlock()
			if known {
				return r
			}
		}
		r.read(d.auditObject(ev.ResponseObject, id, ev, d.object))
	}
	return r
}

func (r *Read) read(o object, usable bool) { r.object, r.usable = &o, usable }

// readers are decoders for bodies that are read concurrently. They intern few names: there is one for each processor.
var readers = sync.Pool{New: func() any {
	d := newDecoder()
	d.most = maxInterned >> 5
	return d
}}

// changes reports whether a request changed an object of a kind that matters.
func changes(ev *audit.Event) (id kindID, ok bool) {
	if ev.Stage != audit.StageResponseComplete || ev.Code < 200 || ev.Code > 299 || !ev.HasObjectRef {
		return 0, false
	}
	switch ev.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
	default:
		return 0, false
	}
	id, ok = kindByResource(ev.ObjectRef.APIGroup, ev.ObjectRef.Resource)
	return id, ok && !effective(ev).IsZero() && !pretends(ev)
}

// writes reports whether a write of the subresource is answered with the object.
func writes(subresource string) bool {
	switch subresource {
	case "", "status", "ephemeralcontainers", "resize", "approval":
		return true
	}
	return false
}

// ApplyRead is ApplyAudit with what ReadAudit returned, which may be nil: the outcome is the same.
func (s *State) ApplyRead(ev *audit.Event, read *Read) {
	id, ok := changes(ev)
	if !ok {
		return
	}
	if read == nil {
		read = &Read{}
	}
	at := nodeauthz.Stamp{Time: effective(ev), Lag: lag(ev), Source: nodeauthz.SourceAudit}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch ev.Verb {
	case "delete":
		if ev.ObjectRef.Subresource == "" {
			s.learn(id, at)
			s.auditDelete(id, ev, at, read)
		}
	case "deletecollection":
		s.learn(id, at)
		s.auditDeleteCollection(id, ev, at)
	default:
		switch sub := ev.ObjectRef.Subresource; {
		case sub == "binding":
			s.learn(id, at)
			s.auditBinding(ev, at)
		case sub == "eviction":
			s.refine(id, ev.ObjectRef.Namespace, ev.ObjectRef.Name, at, ev)
		case writes(sub):
			s.auditWrite(id, ev, at, read)
		}
	}
}

// pretends reports whether a request changed nothing by its own wish. A deletion has its options in its body, and only without one in the URI
// (k8s.io/apiserver/pkg/endpoints/handlers/delete.go); all others have them in the URI.
func pretends(ev *audit.Event) bool {
	if len(ev.RequestObject) > 0 && (ev.Verb == "delete" || ev.Verb == "deletecollection") {
		if !namesDryRun(ev.RequestObject) {
			return false
		}
		o, read := deleteOptionsOf(ev.RequestObject)
		return read && len(o.DryRun) > 0
	}
	return dryRun(ev.RequestURI)
}

// namesDryRun reports whether JSON may have a member dryRun. It spares almost all deletions a whole reading: keys are case-sensitive, and only with a
// backslash can one be written in another way.
func namesDryRun(raw []byte) bool {
	return bytes.Contains(raw, []byte("dryRun")) || bytes.IndexByte(raw, '\\') >= 0
}

// dryRun reports whether a URI asks for a change that is not carried out.
func dryRun(uri string) bool {
	if !strings.Contains(uri, "dryRun") && !strings.Contains(uri, "%") {
		return false
	}
	_, query, _ := strings.Cut(uri, "?")
	values, _ := url.ParseQuery(query)
	return values.Get("dryRun") != ""
}

// learn notes that audit events, and nothing else so far, show a change. The state is locked.
func (s *State) learn(id kindID, at nodeauthz.Stamp) {
	if id != kindLease {
		s.learned = max(s.learned, at.Time.UnixNano())
	}
}

// auditWrite takes in an object that was created or changed.
func (s *State) auditWrite(id kindID, ev *audit.Event, at nodeauthz.Stamp, read *Read) {
	if s.nothingNew(id, ev, at, read) {
		s.fromAudit[id]++
		return
	}
	if read.object == nil {
		read.read(s.decoder.auditObject(ev.ResponseObject, id, ev, s.decoder.object))
	}
	o, ok := *read.object, read.usable
	if !ok {
		plainWrite := ev.Verb != "patch" && ev.ObjectRef.Subresource == "" && s.inputs == 0
		if plainWrite {
			o, ok = s.decoder.auditObject(ev.RequestObject, id, ev, s.decoder.object)
			o.admitted.asked()
		}
		if !ok {
			if graphKind[id] != nodeauthz.KindNone && ev.Verb == "create" {
				s.cameUnseen(id, at.Time.UnixNano())
			}
			if id == kindNode && ev.Verb == "create" && ev.ObjectRef.Name != "" {
				s.learn(id, at)
				s.Nodes.set(strings.Clone(ev.ObjectRef.Name), strings.Clone(ev.ObjectRef.UID), at, readiness{})
			}
			return
		}
	}
	if s.fromAudit[id]++; id != kindNode || ev.Verb == "create" { // a Node reports itself again and again
		s.learn(id, at)
	}
	s.versions.add(o.uid, o.version)
	if o.deletion != 0 && o.graceless && !o.finalizers {
		s.remove(id, o.ref, o.uid, at) // the last finalizer of an object that was to be deleted went with this write
		return
	}
	s.auditSet(&o, ev.Verb == "create", at)
}

// auditObject decodes a body if it is an object of the kind, and takes its name from the event where it has none.
func (d *decoder) auditObject(body []byte, id kindID, ev *audit.Event, decode func(kindID, []byte) (object, error)) (o object, ok bool) {
	if len(body) == 0 {
		return object{}, false
	}
	kind, apiVersion, err := d.typeOf(body)
	if err != nil || kind != kinds[id].Name || groupOf(apiVersion) != kinds[id].Group {
		return object{}, false
	}
	o, err = decode(id, body)
	if err != nil {
		return object{}, false
	}
	if o.ref.Name == "" {
		o.ref.Name = strings.Clone(ev.ObjectRef.Name)
	}
	if o.ref.Namespace == "" && kinds[id].Namespaced {
		o.ref.Namespace = strings.Clone(ev.ObjectRef.Namespace)
	}
	if o.uid == "" {
		o.uid = strings.Clone(ev.ObjectRef.UID)
	}
	if o.pod != nil {
		o.pod.Namespace, o.pod.Name, o.pod.UID = o.ref.Namespace, o.ref.Name, o.uid
	}
	if o.volume != nil {
		o.volume.Name, o.volume.UID = o.ref.Name, o.uid
	}
	nameRole(o.role, o.ref)
	return o, o.ref.Name != ""
}

// auditSet passes an object on as it was after a request. The request says when it was so, and, if it created the object, since when;
// otherwise the object's own timestamps do, for what may have begun long before.
func (s *State) auditSet(o *object, created bool, at nodeauthz.Stamp) {
	name := o.ref.Name
	s.admitAudit(o, at)
	since := at
	if !created && o.created != 0 {
		since = ownTime(o.created)
	}
	switch o.kind {
	case kindPod:
		if own := o.granted; !created && o.pod.NodeName != "" {
			if own == 0 || o.pod.Mirror {
				own = o.created
			}
			if own != 0 {
				o.pod.Bound = ownTime(own)
			}
		}
		s.Graph.SetPod(o.pod, at)
	case kindPersistentVolume:
		s.Graph.SetPersistentVolume(o.volume, at)
	case kindVolumeAttachment:
		s.Graph.SetVolumeAttachment(name, o.uid, o.node, since)
	case kindResourceSlice:
		s.Graph.SetResourceSlice(name, o.uid, o.node, since)
	case kindPodCertificateRequest:
		s.Graph.SetPodCertificateRequest(o.ref.Namespace, name, o.uid, o.node, since)
	case kindNode:
		o.ready.seen = at.Time.UnixNano()
		o.ready.first = o.ready.seen
		s.Nodes.set(name, o.uid, since, o.ready)
		s.Nodes.locate(name, o.addresses)
	default:
		s.setRole(o.role, at.Time)
	}
}

// auditBinding takes in a pods/binding: its body names the node; without one, the node that the pod had a moment later and not before.
func (s *State) auditBinding(ev *audit.Event, at nodeauthz.Stamp) {
	if ev.ObjectRef.Resource != "pods" || ev.ObjectRef.APIGroup != "" {
		return
	}
	ns, name, uid := ev.ObjectRef.Namespace, ev.ObjectRef.Name, ev.ObjectRef.UID
	node := ""
	if len(ev.RequestObject) > 0 {
		var b binding
		s.decoder.binding(ev.RequestObject, &b)
		node = b.node
		if b.uid != "" {
			uid = b.uid
		}
		if name == "" {
			name = b.name
		}
	}
	if node == "" {
		if _, before := s.Graph.PodNode(ns, name, at.Time.Add(-refineWithin)); before {
			return
		}
		if node, _ = s.Graph.PodNode(ns, name, at.Time.Add(settled)); node == "" {
			s.cameUnseen(kindPod, at.Time.UnixNano())
		}
	}
	if node != "" && name != "" {
		s.fromAudit[kindPod]++
		s.Graph.BindPod(ns, name, uid, node, at)
		s.admitBinding(ns, name, uid, node, at)
	}
}

// binding is what a v1.Binding says.
type binding struct{ name, uid, node string }

// binding reads a Binding; b keeps parts of the JSON. What is no Binding leaves b empty.
func (d *decoder) binding(raw []byte, b *binding) {
	var read binding
	d.s.Reset(raw)
	d.members(func(key string) {
		switch key {
		case "metadata":
			d.members(func(key string) {
				switch key {
				case "name":
					read.name = d.text()
				case "uid":
					read.uid = d.text()
				default:
					d.s.Skip()
				}
			})
		case "target":
			read.node, _ = d.name("name")
		default:
			d.s.Skip()
		}
	})
	if d.s.Err() == nil {
		*b = read
	}
}

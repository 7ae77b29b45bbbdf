package cluster

import (
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	kjson "sigs.k8s.io/json"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/internal/jscan"
	"github.com/nodetrail/nodetrail/internal/nodeid"
	"github.com/nodetrail/nodetrail/nodeauthz"
)

// auditDelete takes in a delete that succeeded. Often it only begins the end: a pod has its grace period, other objects their
// finalizers. What shows that the object is gone is the response, or for a pod a request without grace: unless somebody watches all pods then,
// who sees whether a finalizer keeps it.
func (s *State) auditDelete(id kindID, ev *audit.Event, at nodeauthz.Stamp, read *Read) {
	ref := nodeauthz.NamespacedName{Namespace: ev.ObjectRef.Namespace, Name: ev.ObjectRef.Name}
	if read.object == nil { // of which the metadata is enough
		read.read(s.decoder.auditObject(ev.ResponseObject, id, ev, s.decoder.head))
	}
	o, whole := read.object, read.usable
	switch {
	case ref.Name == "":
		return
	case whole:
		if gone(o) {
			s.fromAudit[id]++
			s.remove(id, ref, o.uid, at)
			return
		}
	case len(ev.ResponseObject) > 0:
		// The API server answers with a Status when nothing keeps the object any longer, and names its UID.
		if uid, ok := s.decoder.deletedStatus(ev.ResponseObject); ok && id != kindPod {
			s.fromAudit[id]++
			s.remove(id, ref, uid, at)
			return
		}
	case id == kindPod:
		if options, _ := deleteOptionsOf(ev.RequestObject); options.graceless() && !s.showsPods(at.Time) {
			s.fromAudit[id]++
			s.remove(id, ref, options.uid(), at)
			return
		}
	}
	s.refine(id, ref.Namespace, ref.Name, at, ev)
}

// gone reports whether nothing keeps an object that a delete answered with.
func gone(o *object) bool { return o.graceless && !o.finalizers }

// refine betters the time of a pod's end that is known already. A kubelet deletes its pods without grace, when all is over; of anybody
// else's request the level may not tell whether it was the end or only asked for it, and then it must lie close to count.
func (s *State) refine(id kindID, namespace, name string, at nodeauthz.Stamp, ev *audit.Event) {
	if id != kindPod {
		return
	}
	within := refineWithin
	if _, isNode := nodeid.Of(ev.User.Username, ev.User.Groups); !isNode {
		within = refineNear
	}
	if s.Graph.RefineDeletion(namespace, name, at, within) {
		return
	}
	if len(s.early) >= maxEarly {
		clear(s.early) // those ends keep the interval in which a watch saw them
	}
	s.early[nodeauthz.NamespacedName{Namespace: strings.Clone(namespace), Name: strings.Clone(name)}] = earlyEnd{at, within}
}

// maxEarly bounds State.early.
const maxEarly = 4096

// earlyEnd is a request that may have ended a pod, which no watch has shown yet. After an outage the log is often ahead of the watch.
type earlyEnd struct {
	at     nodeauthz.Stamp
	within time.Duration
}

// ended betters the end of a pod, which a watch has shown now, by the request that was known before.
func (s *State) ended(pod nodeauthz.NamespacedName) {
	if e, ok := s.early[pod]; ok {
		delete(s.early, pod)
		s.Graph.RefineDeletion(pod.Namespace, pod.Name, e.at, e.within)
	}
}

// auditDeleteCollection takes in the deletion of many. The response lists what there was: of an object without finalizers that has no
// grace period either, it is the end.
func (s *State) auditDeleteCollection(id kindID, ev *audit.Event, at nodeauthz.Stamp) {
	if len(ev.ResponseObject) == 0 || ev.ObjectRef.Subresource != "" {
		return
	}
	options, _ := deleteOptionsOf(ev.RequestObject)
	for _, raw := range s.decoder.items(ev.ResponseObject) {
		o, err := s.decoder.object(id, raw)
		if err != nil || o.ref.Name == "" {
			continue
		}
		if o.finalizers || id == kindPod && !options.graceless() {
			s.refine(id, o.ref.Namespace, o.ref.Name, at, ev)
			continue
		}
		s.fromAudit[id]++
		s.remove(id, o.ref, o.uid, at)
	}
}

// deleteOptions are those of metav1.DeleteOptions that matter.
type deleteOptions struct {
	DryRun             []string `json:"dryRun"`
	GracePeriodSeconds *int64   `json:"gracePeriodSeconds"`
	Preconditions      *struct {
		UID *string `json:"uid"`
	} `json:"preconditions"`
}

func deleteOptionsOf(body []byte) (o deleteOptions, read bool) {
	if len(body) == 0 || kjson.UnmarshalCaseSensitivePreserveInts(body, &o) != nil {
		return deleteOptions{}, false
	}
	return o, true
}

func (o deleteOptions) graceless() bool {
	return o.GracePeriodSeconds != nil && *o.GracePeriodSeconds == 0
}

func (o deleteOptions) uid() string {
	if o.Preconditions == nil || o.Preconditions.UID == nil {
		return ""
	}
	return *o.Preconditions.UID
}

// deletedStatus reads a Status that reports success, and the UID in its details.
func (d *decoder) deletedStatus(raw []byte) (uid string, ok bool) {
	var kind, status string
	d.s.Reset(raw)
	d.members(func(key string) {
		switch key {
		case "kind":
			kind = d.text()
		case "status":
			if d.s.Peek() == jscan.String {
				status = d.text()
			} else {
				d.s.Skip()
			}
		case "details":
			uid, _ = d.name("uid")
		default:
			d.s.Skip()
		}
	})
	return uid, d.s.Err() == nil && kind == "Status" && status == "Success"
}

// items are the raw items of a list.
func (d *decoder) items(raw []byte) [][]byte {
	var out [][]byte
	d.s.Reset(raw)
	d.members(func(key string) {
		if key != "items" {
			d.s.Skip()
			return
		}
		d.each(func() { out = append(out, d.s.Raw()) })
	})
	if d.s.Err() != nil {
		return nil
	}
	return out
}

// nameRole gives an RBAC object the name that its body lacked.
func nameRole(role any, ref nodeauthz.NamespacedName) {
	switch o := role.(type) {
	case *rbacv1.ClusterRole:
		o.Name = ref.Name
	case *rbacv1.ClusterRoleBinding:
		o.Name = ref.Name
	case *rbacv1.Role:
		o.Namespace, o.Name = ref.Namespace, ref.Name
	case *rbacv1.RoleBinding:
		o.Namespace, o.Name = ref.Namespace, ref.Name
	}
}

package cluster

import (
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodetrail/nodetrail/internal/jscan"
	"github.com/nodetrail/nodetrail/nodeauthz"
)

// object is what is kept of one state of one object. Times are Unix nanoseconds of whole seconds, 0 where there is none.
type object struct {
	kind kindID
	ref  nodeauthz.NamespacedName
	uid  string
	// version is metadata.resourceVersion.
	version string

	created int64
	// changed is when its content was last written, by managedFields.
	changed int64
	// granted is when what it grants began: a pod's binding, a volume's.
	granted int64
	// deletion is metadata.deletionTimestamp: for a pod, the end of its grace period.
	deletion int64
	// latest is the latest time found anywhere in it, and reported that of a kubelet's report, a condition's lastHeartbeatTime; only looked for when the
	// input has no clock of its own.
	latest, reported int64

	// graceless is true when deletionGracePeriodSeconds is there and zero.
	graceless  bool
	finalizers bool

	pod      *nodeauthz.Pod
	finished bool // the pod has succeeded or failed
	volume   *nodeauthz.PersistentVolume
	node     string // spec.nodeName of the kinds that have little else
	role     any    // *rbacv1.ClusterRole and the like

	ready readiness // of a Node
	// addresses are a Node's, of all types.
	addresses []string
	virtual   bool // a Node's label says that it has no kubelet

	admitted admitted

	// Of a Lease: whether it is an API server's, whose identity it holds, and when that was renewed.
	server  bool
	holder  string
	renewed int64
}

// readiness is the condition Ready of a Node: since when it is what it is, in Unix nanoseconds of whole seconds, and when it was seen to be so. The zero value
// says nothing. Since when a Node is Ready or not its kubelet writes, by its own clock; that it is Unknown the control plane does.
type readiness struct {
	since int64
	seen  int64
	// first is when it was seen for the first time by the clock of who looked, 0 if that is not known. live is true if a watch showed it then: it had just come to be.
	first int64
	live  bool
	ready bool
	// silent says that it is Unknown: the control plane hears nothing of the kubelet. One that says that it is not Ready is alive.
	silent bool
}

var (
	errNotAnObject = errors.New("not a Kubernetes object: it has no kind")
	errNoName      = errors.New("the object has no metadata.name")
	errNoVersion   = errors.New("the object has no apiVersion")
)

// decoder turns the JSON of objects into objects. It is not safe for concurrent use. What it returns shares no memory with the JSON.
type decoder struct {
	s     jscan.Scanner
	names map[string]string
	most  int // of names
	pod   podScratch
	// labels are those of pods by their JSON: the pods of a workload have the same.
	labels map[string]map[string]string
	pv     corev1.PersistentVolume // being read
	role   roleScratch
	// dates makes it look for object.latest and object.reported.
	dates    bool
	reported int64 // being read
}

func newDecoder() *decoder {
	return &decoder{names: map[string]string{}, most: maxInterned, labels: map[string]map[string]string{}}
}

const maxInterned = 1 << 17

// intern copies a name that many objects are likely to share.
func (d *decoder) intern(s string) string {
	if s == "" {
		return ""
	}
	if v, ok := d.names[s]; ok {
		return v
	}
	if len(d.names) >= d.most {
		clear(d.names)
	}
	s = strings.Clone(s)
	d.names[s] = s
	return s
}

// typeOf finds kind and apiVersion of an object, which are nearly always its first members. It reads no further: see typeMember.
func (d *decoder) typeOf(raw []byte) (kind, apiVersion string, err error) {
	var key string
	s := &d.s
	s.Reset(raw)
	for s.Object(); s.Key(&key); {
		switch key {
		case "kind":
			kind = d.text()
		case "apiVersion":
			apiVersion = d.text()
		default:
			s.Skip()
		}
		if kind != "" && apiVersion != "" {
			break
		}
	}
	return kind, apiVersion, s.Err()
}

// typeMember reads a member if it is the kind or apiVersion of an object, and reports whether it is. Of two that differ, nobody knows which one counts: then
// the object cannot be read.
func (d *decoder) typeMember(key, kind, group string) bool {
	if key != "kind" && key != "apiVersion" {
		return false
	}
	if t := d.text(); t != "" && (key == "kind" && t != kind || key == "apiVersion" && groupOf(t) != group) {
		d.s.Fail("more than one kind or apiVersion")
	}
	return true
}

// otherType goes through an object of a kind that does not matter.
func (d *decoder) otherType(raw []byte, kind, group string) error {
	var key string
	s := &d.s
	s.Reset(raw)
	for s.Object(); s.Key(&key); {
		if !d.typeMember(key, kind, group) {
			s.Skip()
		}
	}
	return s.Err()
}

// text reads a string, or null as the empty one.
func (d *decoder) text() string {
	if d.s.Null() {
		return ""
	}
	return d.s.String()
}

// seconds reads a timestamp. Null and the empty string are none, as for metav1.Time.
func (d *decoder) time() int64 {
	text := d.text()
	if text == "" {
		return 0
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		d.s.Fail("a time that is not in RFC 3339")
		return 0
	}
	return unixNano(t)
}

// unixNano is the time as Unix nanoseconds, 0 for one that they cannot express.
func unixNano(t time.Time) int64 {
	if y := t.Year(); y < 1700 || y > 2250 {
		return 0
	}
	return t.UnixNano()
}

func groupOf(apiVersion string) string {
	group, _, found := strings.Cut(apiVersion, "/")
	if !found {
		return ""
	}
	return group
}

// object decodes one object of a kind that matters. It may have no name yet.
func (d *decoder) object(id kindID, raw []byte) (object, error) {
	o := object{kind: id}
	var err error
	if id == kindPod {
		err = d.decodePod(raw, &o)
	} else if err = d.header(raw, &o); err == nil {
		switch id {
		case kindPersistentVolume:
			d.persistentVolume(&o)
		case kindClusterRole, kindRole, kindClusterRoleBinding, kindRoleBinding:
			d.roleOf(&o)
		}
	}
	if err == nil {
		err = d.admitted(raw, &o)
	}
	if err != nil {
		return object{}, fmt.Errorf("decoding a %s: %w", id, err)
	}
	if !kinds[id].Namespaced {
		o.ref.Namespace = ""
	}
	if d.dates {
		o.latest, o.reported = d.latest(raw)
	}
	return o, nil
}

// head decodes the metadata of an object that is known to be JSON, and reads no further.
func (d *decoder) head(id kindID, raw []byte) (object, error) {
	o := object{kind: id}
	var key string
	s := &d.s
	s.Reset(raw)
	for s.Object(); s.Key(&key); {
		if key != "metadata" {
			s.Skip()
			continue
		}
		d.metadata(&o, false, nil)
		break
	}
	if s.Err() != nil {
		return object{}, fmt.Errorf("decoding a %s: %w", id, s.Err())
	}
	if !kinds[id].Namespaced {
		o.ref.Namespace = ""
	}
	return o, nil
}

// header reads the metadata and what the kind holds in addition to it. Of a persistent volume, a role or a binding that is in d afterwards.
func (d *decoder) header(raw []byte, o *object) error {
	var key string
	s := &d.s
	s.Reset(raw)
	d.pv, d.role = corev1.PersistentVolume{}, roleScratch{}
	for s.Object(); s.Key(&key); {
		switch {
		case key == "metadata":
			d.metadata(o, true, nil)
		case key == "spec" && (o.kind == kindVolumeAttachment || o.kind == kindResourceSlice || o.kind == kindPodCertificateRequest):
			d.nodeName(o)
		case key == "nodeName" && o.kind == kindResourceSlice: // resource.k8s.io/v1alpha2, of Kubernetes 1.30
			o.node = d.intern(d.text())
		case key == "spec" && o.kind == kindPersistentVolume:
			d.volumeSpec(&d.pv.Spec)
		case key == "status" && o.kind == kindPersistentVolume:
			d.members(func(key string) {
				if key == "lastPhaseTransitionTime" {
					o.granted = d.time()
				} else {
					s.Skip()
				}
			})
		case key == "status" && o.kind == kindNode:
			d.readiness(o)
		case key == "spec" && o.kind == kindLease:
			d.members(func(key string) {
				switch key {
				case "holderIdentity":
					o.holder = strings.Clone(d.text())
				case "renewTime":
					o.renewed = d.time()
				default:
					s.Skip()
				}
			})
		case isRole(o.kind) && d.roleMember(key), d.typeMember(key, kinds[o.kind].Name, kinds[o.kind].Group):
		default:
			s.Skip()
		}
	}
	s.End()
	return s.Err()
}

// maxAddresses bounds the addresses of a Node that are kept.
const maxAddresses = 64

// readiness reads the condition Ready of a Node's status, and its addresses.
func (d *decoder) readiness(o *object) {
	s := &d.s
	d.members(func(key string) {
		if key == "addresses" && !s.Null() {
			for s.Array(); s.More(); {
				d.members(func(key string) {
					if key == "address" && len(o.addresses) < maxAddresses {
						o.addresses = append(o.addresses, strings.Clone(d.text()))
					} else {
						s.Skip()
					}
				})
			}
			return
		}
		if key != "conditions" || s.Null() {
			s.Skip()
			return
		}
		for s.Array(); s.More(); {
			kind, r := "", readiness{}
			d.members(func(key string) {
				switch key {
				case "type":
					kind = strings.Clone(d.text())
				case "status":
					text := d.text()
					r.ready, r.silent = text == "True", text == "Unknown"
				case "lastTransitionTime":
					r.since = d.time()
				default:
					s.Skip()
				}
			})
			if kind == "Ready" {
				o.ready = r
			}
		}
	})
}

func (d *decoder) nodeName(o *object) {
	var key string
	s := &d.s
	if s.Null() {
		return
	}
	for s.Object(); s.Key(&key); {
		if key == "nodeName" {
			o.node = d.intern(d.text())
		} else {
			s.Skip()
		}
	}
}

// metadata reads an ObjectMeta. managed says whether managedFields are looked at; annotation, if not nil, is called with each
// annotation's name.
func (d *decoder) metadata(o *object, managed bool, annotation func(name string)) {
	var key string
	s := &d.s
	if s.Null() {
		return
	}
	for s.Object(); s.Key(&key); {
		switch key {
		case "name":
			if t := d.text(); t != "" {
				o.ref.Name = strings.Clone(t)
			}
		case "namespace":
			if t := d.text(); t != "" {
				o.ref.Namespace = d.intern(t)
			}
		case "uid":
			if t := d.text(); t != "" {
				o.uid = strings.Clone(t)
			}
		case "resourceVersion":
			o.version = strings.Clone(d.text())
		case "creationTimestamp":
			o.created = d.time()
		case "deletionTimestamp":
			o.deletion = d.time()
		case "deletionGracePeriodSeconds":
			if !s.Null() {
				o.graceless = s.Int64() == 0
			}
		case "finalizers":
			if !s.Null() {
				for s.Array(); s.More(); s.Skip() {
					o.finalizers = true
				}
			}
		case "annotations":
			if annotation == nil {
				s.Skip()
				continue
			}
			if s.Null() {
				continue
			}
			var name string
			for s.Object(); s.Key(&name); s.Skip() {
				annotation(name)
			}
		case "labels":
			switch o.kind {
			case kindPod, kindPersistentVolume:
				o.admitted.labels = d.labelsOf(s.Raw())
			case kindLease:
				d.members(func(key string) {
					if key == identityLabel {
						o.server = d.text() == identityServer
					} else {
						s.Skip()
					}
				})
			case kindNode:
				d.members(func(key string) {
					if key == virtualLabel {
						o.virtual = isVirtual(d.text())
					} else {
						s.Skip()
					}
				})
			default:
				s.Skip()
			}
		case "managedFields":
			if !managed {
				s.Skip()
				continue
			}
			d.managedFields(o)
		default:
			s.Skip()
		}
	}
}

// virtualLabel is by which virtual-kubelet and KWOK mark the nodes that they play.
const virtualLabel = "type"

func isVirtual(value string) bool { return value == "virtual-kubelet" || value == "kwok" }

func (d *decoder) managedFields(o *object) {
	var key string
	s := &d.s
	if s.Null() {
		return
	}
	for s.Array(); s.More(); {
		for s.Object(); s.Key(&key); {
			if key == "time" {
				o.changed = max(o.changed, d.time())
			} else {
				s.Skip()
			}
		}
	}
}

// latest finds the latest time that was written into an object. Only those members are looked at that say when something happened: a
// deletionTimestamp or a certificate's end lie in the future. It returns the latest lastHeartbeatTime, too.
func (d *decoder) latest(raw []byte) (latest, reported int64) {
	d.s.Reset(raw)
	d.reported = 0
	latest = d.latestIn("")
	return latest, d.reported
}

func (d *decoder) latestIn(member string) int64 {
	var t int64
	var key string
	s := &d.s
	switch s.Peek() {
	case jscan.Object:
		for s.Object(); s.Key(&key); {
			t = max(t, d.latestIn(key))
		}
	case jscan.Array:
		for s.Array(); s.More(); {
			t = max(t, d.latestIn(""))
		}
	case jscan.String:
		switch member {
		case "creationTimestamp", "time", "lastTransitionTime", "lastHeartbeatTime", "lastUpdateTime", "startTime", "startedAt", "finishedAt", "lastPhaseTransitionTime":
			if p, err := time.Parse(time.RFC3339, s.String()); err == nil {
				t = unixNano(p)
			}
			if member == "lastHeartbeatTime" {
				d.reported = max(d.reported, t)
			}
		default:
			s.Skip()
		}
	default:
		s.Skip()
	}
	return t
}

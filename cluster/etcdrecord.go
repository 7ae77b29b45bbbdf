package cluster

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// etcdResources are the kinds by their part of the key in etcd.
var etcdResources = func() map[string]kindID {
	out := map[string]kindID{"minions": kindNode} // the name of before Kubernetes 1.0
	for id := range kinds {
		if kindID(id) != kindNode {
			out[kinds[id].Resource] = kindID(id)
		}
	}
	return out
}()

// storedObject is an object as Kubernetes stores it: protobuf.
type storedObject interface {
	Unmarshal(b []byte) error
	SetResourceVersion(version string)
	runtime.Object
}

// storedTypes makes an object of each kind and version that etcd may hold.
var storedTypes = map[string]func() storedObject{
	"v1/Pod":                                            func() storedObject { return &corev1.Pod{} },
	"v1/Node":                                           func() storedObject { return &corev1.Node{} },
	"v1/PersistentVolume":                               func() storedObject { return &corev1.PersistentVolume{} },
	"v1/PersistentVolumeClaim":                          func() storedObject { return &corev1.PersistentVolumeClaim{} },
	"v1/ServiceAccount":                                 func() storedObject { return &corev1.ServiceAccount{} },
	rbacGroup + "/v1/ClusterRole":                       func() storedObject { return &rbacv1.ClusterRole{} },
	rbacGroup + "/v1/ClusterRoleBinding":                func() storedObject { return &rbacv1.ClusterRoleBinding{} },
	rbacGroup + "/v1/Role":                              func() storedObject { return &rbacv1.Role{} },
	rbacGroup + "/v1/RoleBinding":                       func() storedObject { return &rbacv1.RoleBinding{} },
	"storage.k8s.io/v1/VolumeAttachment":                func() storedObject { return &storagev1.VolumeAttachment{} },
	"storage.k8s.io/v1/CSIDriver":                       func() storedObject { return &storagev1.CSIDriver{} },
	"coordination.k8s.io/v1/Lease":                      func() storedObject { return &coordinationv1.Lease{} },
	"resource.k8s.io/v1/ResourceSlice":                  func() storedObject { return &resourcev1.ResourceSlice{} },
	"resource.k8s.io/v1beta2/ResourceSlice":             func() storedObject { return &resourcev1beta2.ResourceSlice{} },
	"resource.k8s.io/v1beta1/ResourceSlice":             func() storedObject { return &resourcev1beta1.ResourceSlice{} },
	"certificates.k8s.io/v1/PodCertificateRequest":      func() storedObject { return &certificatesv1.PodCertificateRequest{} },
	"certificates.k8s.io/v1beta1/PodCertificateRequest": func() storedObject { return &certificatesv1beta1.PodCertificateRequest{} },
}

// etcdRecord is etcd's record of a revision: mvccpb.KeyValue.
type etcdRecord struct {
	key, value []byte
	made       int64 // the revision that made the key
}

// protoField takes the next field off a message. v is set for bytes, and x for varints; of other types it returns the number alone.
func protoField(b []byte) (num protowire.Number, v []byte, x uint64, rest []byte, ok bool) {
	num, typ, n := protowire.ConsumeTag(b)
	if n < 0 {
		return 0, nil, 0, nil, false
	}
	b = b[n:]
	switch typ {
	case protowire.BytesType:
		v, n = protowire.ConsumeBytes(b)
	case protowire.VarintType:
		x, n = protowire.ConsumeVarint(b)
	default:
		n = protowire.ConsumeFieldValue(num, typ, b)
	}
	if n < 0 {
		return 0, nil, 0, nil, false
	}
	return num, v, x, b[n:], true
}

func readRecord(b []byte) (r etcdRecord, err error) {
	for len(b) > 0 {
		num, v, x, rest, ok := protoField(b)
		if !ok {
			return etcdRecord{}, fmt.Errorf("%w: a revision cannot be read", errSnapshot)
		}
		switch num {
		case 1:
			r.key = v
		case 2:
			r.made = int64(x)
		case 5:
			r.value = v
		}
		b = rest
	}
	return r, nil
}

// hash is of all that a record holds.
func (r *etcdRecord) hash(seed maphash.Seed) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	_ = binary.Write(&h, binary.LittleEndian, [2]int64{r.made, int64(len(r.key))}) // it never fails
	_, _ = h.Write(r.key)
	_, _ = h.Write(r.value)
	return h.Sum64()
}

// kindOfKey tells the kind by what comes after the prefix of a key, such as pods/shop/web-1.
func kindOfKey(rest []byte) (kindID, bool) {
	resource, name, _ := bytes.Cut(rest, []byte("/"))
	id, ok := etcdResources[string(resource)]
	if !ok || id == kindLease && !bytes.HasPrefix(name, []byte(serversNamespace+"/")) {
		return 0, false
	}
	return id, true
}

// storedJSON makes JSON of an object as it is stored.
func storedJSON(id kindID, r etcdRevision, record etcdRecord) ([]byte, error) {
	key, value := record.key, record.value
	if bytes.HasPrefix(value, []byte("{")) {
		return value, nil
	}
	if rest, ok := bytes.CutPrefix(value, []byte("k8s:enc:")); ok {
		how, _, _ := bytes.Cut(rest, []byte(":"))
		return nil, fmt.Errorf("the snapshot holds %s encrypted (%.20q): nodetrail does not decrypt; record the state with 'nodetrail record'", kinds[id].Resource, how)
	}
	raw, ok := bytes.CutPrefix(value, []byte("k8s\x00"))
	if !ok {
		return nil, fmt.Errorf("%w: %.200q is neither protobuf nor JSON of Kubernetes", errSnapshot, key)
	}
	var unknown runtime.Unknown
	if err := unknown.Unmarshal(raw); err != nil {
		return nil, fmt.Errorf("%w: %.200q cannot be read", errSnapshot, key)
	}
	name := unknown.APIVersion + "/" + unknown.Kind
	newObject, ok := storedTypes[name]
	if !ok {
		// A version that nobody serves any more, or not yet: without its content, but it is named.
		return json.Marshal(map[string]string{"apiVersion": unknown.APIVersion, "kind": unknown.Kind})
	}
	o := newObject()
	if err := o.Unmarshal(unknown.Raw); err != nil {
		return nil, fmt.Errorf("%w: %.200q cannot be read", errSnapshot, key)
	}
	o.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(unknown.APIVersion, unknown.Kind))
	o.SetResourceVersion(strconv.FormatInt(r.main, 10)) // it is not stored
	return json.Marshal(o)
}

// written are the times in one state of an object, in Unix nanoseconds; 0 where there is none.
type written struct {
	// created and managed are whole seconds by the clock of an API server: metadata.creationTimestamp, and the latest of metadata.managedFields.
	created, managed int64
	// renewed is a Lease's, by its holder's clock; server says that this is an API server.
	renewed int64
	holder  string
	server  bool
}

// readWritten finds the times in an object as it is stored. What cannot be read has none.
func readWritten(lease bool, value []byte) (w written) {
	if lease && bytes.HasPrefix(value, []byte("{")) {
		var o coordinationv1.Lease
		if json.Unmarshal(value, &o) == nil {
			return writtenInLease(&o)
		}
		return written{}
	}
	raw, ok := bytes.CutPrefix(value, []byte("k8s\x00"))
	if !ok {
		return written{}
	}
	object := protoMember(raw, 2) // of runtime.Unknown: raw
	if lease {
		var o coordinationv1.Lease
		if o.Unmarshal(object) == nil {
			return writtenInLease(&o)
		}
		return written{}
	}
	for b := protoMember(object, 1); len(b) > 0; { // in all objects of Kubernetes, field 1 is the metadata
		num, v, _, rest, ok := protoField(b)
		if !ok {
			break
		}
		switch num {
		case 8:
			w.created = protoTime(v)
		case 17:
			w.managed = max(w.managed, protoTime(protoMember(v, 4)))
		}
		b = rest
	}
	return w
}

func writtenInLease(o *coordinationv1.Lease) (w written) {
	w.created, w.server = unixNano(o.CreationTimestamp.Time), o.Labels[identityLabel] == identityServer
	for _, m := range o.ManagedFields {
		if m.Time != nil {
			w.managed = max(w.managed, unixNano(m.Time.Time))
		}
	}
	if o.Spec.RenewTime != nil && o.Spec.HolderIdentity != nil {
		w.renewed, w.holder = unixNano(o.Spec.RenewTime.Time), *o.Spec.HolderIdentity
	}
	return w
}

// protoMember returns the first field of the number that holds bytes.
func protoMember(b []byte, want protowire.Number) []byte {
	for len(b) > 0 {
		num, v, _, rest, ok := protoField(b)
		if !ok {
			return nil
		}
		if num == want {
			return v
		}
		b = rest
	}
	return nil
}

// protoTime reads metav1.Time: seconds, then nanoseconds.
func protoTime(b []byte) int64 {
	var s, ns int64
	for len(b) > 0 {
		num, _, x, rest, ok := protoField(b)
		if !ok {
			return 0
		}
		switch num {
		case 1:
			s = int64(x)
		case 2:
			ns = int64(x)
		}
		b = rest
	}
	if s <= 0 || s > 1<<33 {
		return 0
	}
	return s*second + ns
}

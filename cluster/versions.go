package cluster

import (
	"bytes"
	"hash/maphash"
	"math/bits"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/nodeauthz"
)

// versions remembers which versions of which objects were taken in, so that the bodies of a log whose journal was loaded need not be
// decoded again: on most logs that is nearly all of them. It is a hash table of keyed hashes with open addressing, of which three quarters are used at most.
type versions struct {
	seed maphash.Seed
	keys []uint64
	n    int
}

// maxVersions bounds what is remembered. When it is reached all is forgotten, which costs time only.
const maxVersions = 1 << 20

// key is not 0, which stands for none.
func (v *versions) key(uid, version string) uint64 {
	return (maphash.String(v.seed, uid) ^ maphash.String(v.seed, version)*0x9e3779b97f4a7c15) | 1
}

// place is where a key is, or where it would be put.
func (v *versions) place(key uint64) *uint64 {
	at, _ := bits.Mul64(key, uint64(len(v.keys)))
	for i := int(at); ; i++ {
		if i == len(v.keys) {
			i = 0
		}
		if k := &v.keys[i]; *k == key || *k == 0 {
			return k
		}
	}
}

func (v *versions) add(uid, version string) {
	if uid == "" || version == "" {
		return
	}
	if len(v.keys) == 0 || v.n >= maxVersions {
		*v = versions{seed: maphash.MakeSeed(), keys: make([]uint64, 64)}
	}
	if 4*v.n >= 3*len(v.keys) {
		old := v.keys
		v.keys = make([]uint64, len(old)+len(old)/2)
		for _, k := range old {
			if k != 0 {
				*v.place(k) = k
			}
		}
	}
	key := v.key(uid, version)
	if k := v.place(key); *k == 0 {
		*k = key
		v.n++
	}
}

func (v *versions) has(uid, version string) bool {
	return v.n > 0 && uid != "" && version != "" && *v.place(v.key(uid, version)) != 0
}

// nothingNew reports whether a write tells nothing that is not known: the kind is only counted, or this version of the pod or node was
// taken in already. What it tells of times is taken.
func (s *State) nothingNew(id kindID, ev *audit.Event, at nodeauthz.Stamp, read *Read) bool {
	if id == kindLease {
		return true // only journals tell of them
	}
	uid, version := read.uid, read.version
	if !read.versioned {
		if read.object != nil || !versioned(id, ev) {
			return false
		}
		uid, version = s.decoder.version(ev.ResponseObject)
	}
	if !s.versions.has(uid, version) {
		return false
	}
	if id == kindPod && ev.Verb == "create" {
		name := ev.ObjectRef.Name
		if name == "" {
			return false
		}
		s.Graph.RefineBinding(ev.ObjectRef.Namespace, name, uid, at)
	}
	return true
}

// versioned reports whether a write whose answer is a version that is known tells nothing else.
func versioned(id kindID, ev *audit.Event) bool {
	switch id {
	case kindPod, kindNode, kindPersistentVolumeClaim, kindCSIDriver, kindServiceAccount:
	default:
		return false
	}
	if sub := ev.ObjectRef.Subresource; sub != "" && sub != "status" {
		return false // new containers name new objects, from this very request on
	}
	return len(ev.ResponseObject) > 0 && !bytes.Contains(ev.ResponseObject, deletionTimestamp)
}

var deletionTimestamp = []byte("deletionTimestamp")

// version reads an object's UID and resourceVersion and no further.
func (d *decoder) version(raw []byte) (uid, version string) {
	var key string
	s := &d.s
	s.Reset(raw)
	for s.Object(); s.Key(&key); {
		if key != "metadata" || s.Null() {
			s.Skip()
			continue
		}
		for s.Object(); s.Key(&key); {
			switch key {
			case "uid":
				uid = d.text()
			case "resourceVersion":
				version = d.text()
			default:
				s.Skip()
			}
			if uid != "" && version != "" {
				return uid, version
			}
		}
		break
	}
	return uid, version
}

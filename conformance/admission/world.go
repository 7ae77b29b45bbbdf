package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/nodetrail/nodetrail/nodeadmission"
)

// object is anything that is JSON.
type object = map[string]any

// World is a cluster at one instant. It is nodeadmission's state by itself.
type World struct {
	nodes, pods, claims, volumes, drivers, accounts, slices, csiNodes map[string]object
	informers                                                         informers.SharedInformerFactory
	grants                                                            map[string]error // by verb, resource and name; a nil error allows
	asked                                                             []string         // what the authorizer was asked
	// lacks is what is taken away from ours.
	lacks lack
	cache map[string]any // what ours decoded
}

// lack is a set of inputs that are taken away.
type lack uint

const (
	lackBody lack = 1 << iota
	lackPods
	lackPodSpec
	lackPodStatus
	lackNodes
	lackNodeMeta
	lackClaims
	lackVolumes
	lackDrivers
	lackAccounts
	lackSlices
	lackObjects
	lackAuthorizer
	lackPatch
)

// lackCount is how many there are.
const lackCount = 14

// key is the name in a namespace, as informers have it.
func key(o object) string {
	m, _ := o["metadata"].(object)
	name, _ := m["name"].(string)
	if ns, ok := m["namespace"].(string); ok && ns != "" {
		return ns + "/" + name
	}
	return name
}

func keyed(list []object) map[string]object {
	out := map[string]object{}
	for _, o := range list {
		out[key(o)] = o
	}
	return out
}

// newWorld makes a random cluster.
func newWorld(g *generator) (*World, error) {
	w := &World{cache: map[string]any{}, informers: informers.NewSharedInformerFactory(nil, time.Hour)}
	w.nodes, w.pods, w.claims, w.volumes = keyed(g.nodes()), keyed(g.pods()), keyed(g.claims()), keyed(g.volumes())
	w.drivers, w.accounts, w.slices, w.csiNodes = keyed(g.drivers()), keyed(g.accounts()), keyed(g.slices()), keyed(g.csiNodes())
	w.grants = g.grants()
	if err := errors.Join(stored[corev1.Node](w.nodes), stored[corev1.Pod](w.pods), stored[corev1.PersistentVolumeClaim](w.claims), stored[storagev1.CSINode](w.csiNodes)); err != nil {
		return nil, err
	}
	core, storage := w.informers.Core().V1(), w.informers.Storage().V1()
	return w, errors.Join(
		fill[corev1.Node](core.Nodes().Informer(), w.nodes), fill[corev1.Pod](core.Pods().Informer(), w.pods),
		fill[corev1.PersistentVolumeClaim](core.PersistentVolumeClaims().Informer(), w.claims),
		fill[corev1.PersistentVolume](core.PersistentVolumes().Informer(), w.volumes),
		fill[corev1.ServiceAccount](core.ServiceAccounts().Informer(), w.accounts),
		fill[storagev1.CSIDriver](storage.CSIDrivers().Informer(), w.drivers))
}

// stored makes of the objects what an API server has of them after it has decoded them: no member that its version does not know, no empty map.
func stored[T any](objects map[string]object) error {
	for key, o := range objects {
		typed := new(T)
		if err := into(o, typed); err != nil {
			return err
		}
		var again object
		if err := into(typed, &again); err != nil {
			return err
		}
		objects[key] = again
	}
	return nil
}

// fill puts objects into an informer's indexer, where its lister finds them.
func fill[T any](informer cache.SharedIndexInformer, objects map[string]object) error {
	for _, o := range objects {
		typed := new(T)
		if err := into(o, typed); err != nil {
			return err
		}
		if err := informer.GetIndexer().Add(typed); err != nil {
			return fmt.Errorf("filling an indexer: %w", err)
		}
	}
	return nil
}

func into(from, to any) error {
	data, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(data, to)
	}
	if err != nil {
		return fmt.Errorf("an object of a random cluster: %w", err)
	}
	return nil
}

// typed decodes an object once.
func typed[T any](w *World, kind string, objects map[string]object, key string) *T {
	o, ok := objects[key]
	if !ok {
		return nil
	}
	if t, ok := w.cache[kind+key].(*T); ok {
		return t
	}
	t := new(T)
	if into(o, t) != nil {
		return nil
	}
	w.cache[kind+key] = t
	return t
}

// authorize is the authorizer of both sides.
func (w *World) authorize(attrs authorizer.Attributes) (authorizer.Decision, error) {
	question := fmt.Sprint(attrs.GetUser().GetName(), attrs.GetVerb(), attrs.GetAPIGroup(), attrs.GetAPIVersion(), attrs.GetResource(), attrs.GetNamespace(),
		attrs.GetName(), attrs.IsResourceRequest(), attrs.GetSubresource())
	w.asked = append(w.asked, question)
	err, ok := w.grants[attrs.GetVerb()+" "+attrs.GetResource()+" "+attrs.GetName()]
	switch {
	case ok && err == nil:
		return authorizer.DecisionAllow, nil
	case ok:
		return authorizer.DecisionNoOpinion, err
	}
	return authorizer.DecisionNoOpinion, nil
}

func (w *World) authorizer() authorizer.AuthorizerFunc {
	return func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		d, err := w.authorize(a)
		return d, "", err
	}
}

// state is the world for ours, without what it lacks.
func (w *World) state() nodeadmission.State {
	return nodeadmission.State{Pods: w, Nodes: w, Claims: w, Volumes: w, Drivers: w, ServiceAccounts: w, Slices: w, Objects: w, Authorizer: w}
}

func (w *World) sight(l lack) nodeadmission.Sight { return nodeadmission.Sight{Known: w.lacks&l == 0} }

// Pod is nodeadmission's look-up; so are the methods below.
func (w *World) Pod(namespace, name string, _ time.Time) (*nodeadmission.Pod, nodeadmission.Sight) {
	s := w.sight(lackPods)
	pod := typed[corev1.Pod](w, "pod", w.pods, namespace+"/"+name)
	if pod == nil || !s.Known {
		return nil, s
	}
	p := once(w, "ours"+namespace+"/"+name, func() *nodeadmission.Pod {
		o := w.pods[namespace+"/"+name]
		p := &nodeadmission.Pod{UID: string(pod.UID), Node: pod.Spec.NodeName, ServiceAccount: pod.Spec.ServiceAccountName, Labels: pod.Labels}
		_, p.Mirror = pod.Annotations[corev1.MirrorPodAnnotationKey]
		volumes, _ := json.Marshal(o["spec"].(object)["volumes"])
		p.Uses, _ = nodeadmission.UsesOf(name, volumes)
		p.ClaimStatuses, _ = json.Marshal(o["status"])
		return p
	})
	if w.lacks&(lackPodSpec|lackPodStatus) == 0 {
		return p, s
	}
	less := *p
	if less.SpecUnknown = w.lacks&lackPodSpec != 0; less.SpecUnknown {
		less.ServiceAccount, less.Mirror, less.Uses = "", false, nil
	}
	if less.StatusUnknown = w.lacks&lackPodStatus != 0; less.StatusUnknown {
		less.Labels, less.ClaimStatuses = nil, nil
	}
	return &less, s
}

// PodAsksToken asks a nodeadmission.Store that has the pod.
func (w *World) PodAsksToken(namespace, name, node, uid, audience string, at time.Time) (bool, nodeadmission.Sight) {
	p, s := w.Pod(namespace, name, at)
	if p == nil {
		return false, s
	}
	store := once(w, fmt.Sprintf("asks/%d/%s/%s", w.lacks, namespace, name), func() *nodeadmission.Store {
		store := nodeadmission.NewStore()
		store.SetPod(namespace, name, p, nodeadmission.Moment{Time: at})
		return store
	})
	asks, _ := store.PodAsksToken(namespace, name, node, uid, audience, at)
	return asks, s
}

// once keeps what is made of the world's objects.
func once[T any](w *World, key string, make func() T) T {
	v, ok := w.cache[key].(T)
	if !ok {
		v = make()
		w.cache[key] = v
	}
	return v
}

// Node looks a Node up.
func (w *World) Node(name string, _ time.Time) (*nodeadmission.Node, nodeadmission.Sight) {
	s := w.sight(lackNodes)
	n := typed[corev1.Node](w, "node", w.nodes, name)
	switch {
	case n == nil || !s.Known:
		return nil, s
	case w.lacks&lackNodeMeta != 0:
		return &nodeadmission.Node{UID: string(n.UID), MetaUnknown: true}, s
	}
	return &nodeadmission.Node{UID: string(n.UID), Labels: n.Labels, Taints: n.Spec.Taints, Owners: n.OwnerReferences, ConfigSource: n.Spec.ConfigSource}, s
}

// ClaimVolume looks a claim up.
func (w *World) ClaimVolume(namespace, name string, _ time.Time) (*string, nodeadmission.Sight) {
	s := w.sight(lackClaims)
	if c := typed[corev1.PersistentVolumeClaim](w, "claim", w.claims, namespace+"/"+name); c != nil && s.Known {
		return &c.Spec.VolumeName, s
	}
	return nil, s
}

// VolumeDriver looks a volume up.
func (w *World) VolumeDriver(name string, _ time.Time) (*nodeadmission.Driver, nodeadmission.Sight) {
	s := w.sight(lackVolumes)
	if v := typed[corev1.PersistentVolume](w, "volume", w.volumes, name); v != nil && s.Known {
		d := nodeadmission.DriverOf(v)
		return &d, s
	}
	return nil, s
}

// DriverAudiences looks a driver up.
func (w *World) DriverAudiences(name string, _ time.Time) (*[]string, nodeadmission.Sight) {
	s := w.sight(lackDrivers)
	d := typed[storagev1.CSIDriver](w, "driver", w.drivers, name)
	if d == nil || !s.Known {
		return nil, s
	}
	audiences := []string{}
	for _, r := range d.Spec.TokenRequests {
		audiences = append(audiences, r.Audience)
	}
	return &audiences, s
}

// ServiceAccountUID looks a service account up.
func (w *World) ServiceAccountUID(namespace, name string, _ time.Time) (*string, nodeadmission.Sight) {
	s := w.sight(lackAccounts)
	if a := typed[corev1.ServiceAccount](w, "account", w.accounts, namespace+"/"+name); a != nil && s.Known {
		uid := string(a.UID)
		return &uid, s
	}
	return nil, s
}

// SliceNode looks a slice up.
func (w *World) SliceNode(name string, _ time.Time) (*string, nodeadmission.Sight) {
	s := w.sight(lackSlices)
	slice, ok := w.slices[name]
	if !ok || !s.Known {
		return nil, s
	}
	node, _ := slice["spec"].(object)["nodeName"].(string)
	return &node, s
}

// Object looks a whole object up.
func (w *World) Object(resource, namespace, name string, _ time.Time) ([]byte, nodeadmission.Sight) {
	s := w.sight(lackObjects)
	o, ok := w.csiNodes[name]
	if resource == "persistentvolumeclaims" {
		o, ok = w.claims[namespace+"/"+name]
	}
	if !ok || !s.Known {
		return nil, s
	}
	data := once(w, "object"+resource+namespace+"/"+name, func() []byte {
		data, _ := json.Marshal(o)
		return data
	})
	return data, s
}

// Authorize asks the authorizer.
func (w *World) Authorize(attrs authorizer.Attributes, _ time.Time) (allowed, known bool, err error) {
	if w.lacks&lackAuthorizer != 0 {
		return false, false, nil
	}
	d, err := w.authorize(attrs)
	return d == authorizer.DecisionAllow, true, err
}

// source is a reproducible source of random numbers.
func source(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 15)) }

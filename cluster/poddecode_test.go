package cluster

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	kjson "sigs.k8s.io/json"

	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/nodeadmission"
	"github.com/nodetrail/nodetrail/nodeauthz"
)

// filler sets every field of an API type at random: pointers to nil or something, lists of up to two, strings from a few, so that names meet.
type filler struct{ *rand.Rand }

func (f filler) fill(v reflect.Value) {
	switch p := v.Addr().Interface().(type) {
	case *metav1.Time:
		*p = metav1.Unix(1_700_000_000+f.Int64N(1e8), 0)
		return
	case *metav1.MicroTime:
		*p = metav1.NewMicroTime(time.Unix(1_700_000_000, 0))
		return
	case *resource.Quantity:
		*p = *resource.NewQuantity(f.Int64N(1000), resource.DecimalSI)
		return
	case *intstr.IntOrString:
		*p = intstr.FromInt32(f.Int32N(1000))
		return
	case *metav1.FieldsV1:
		p.SetRawString(`{"f:metadata":{"f:name":{}}}`)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if f.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			f.fill(v.Elem())
		}
	case reflect.Slice:
		if n := f.IntN(3); n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				f.fill(v.Index(i))
			}
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range f.IntN(2) {
			key, elem := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			f.fill(key)
			f.fill(elem)
			v.SetMapIndex(key, elem)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f.fill(v.Field(i))
		}
	case reflect.String:
		words := []string{"", "a", "b", "web-1", "caf\u00e9 \"q\" \\ \u2028", "kube-root-ca.crt", "PodScheduled", "True", corev1.MirrorPodAnnotationKey}
		v.SetString(words[f.IntN(len(words))])
	case reflect.Bool:
		v.SetBool(f.IntN(2) == 0)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(f.Int64N(3))
	case reflect.Uint8:
		v.SetUint(uint64(f.IntN(256)))
	}
}

// pod makes a random pod; one volume in three has one source only, as validation wants it.
func (f filler) pod() *corev1.Pod {
	var p corev1.Pod
	f.fill(reflect.ValueOf(&p).Elem())
	p.TypeMeta = metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}
	for i := range p.Spec.Volumes {
		if f.IntN(3) > 0 {
			continue
		}
		source := reflect.ValueOf(&p.Spec.Volumes[i].VolumeSource).Elem()
		keep := f.IntN(source.NumField())
		for j := range source.NumField() {
			if j != keep {
				source.Field(j).SetZero()
			}
		}
	}
	return &p
}

// claimsOf are the claims that a pod of the API's types has.
func claimsOf(p *corev1.Pod) (claims nodeauthz.PodClaims) {
	for _, c := range p.Spec.ResourceClaims {
		claims.Claims = append(claims.Claims, nodeauthz.PodClaim{Name: c.Name, ClaimName: c.ResourceClaimName, TemplateName: c.ResourceClaimTemplateName})
	}
	if s := p.Status.ExtendedResourceClaimStatus; s != nil {
		claims.Extended = &nodeauthz.ExtendedClaim{ClaimName: s.ResourceClaimName}
		for _, m := range s.RequestMappings {
			claims.Extended.Mappings = append(claims.Extended.Mappings, nodeauthz.ExtendedClaimMapping{Container: m.ContainerName, Resource: m.ResourceName, Request: m.RequestName})
		}
	}
	return claims
}

// Older API servers write some fields elsewhere.
func TestOldFields(t *testing.T) {
	o, err := newDecoder().object(kindPod, []byte(`{"metadata":{"namespace":"ns","name":"p"},"spec":{"nodeName":"n1","resourceClaims":[
		{"name":"a","source":{"resourceClaimName":"mine"}},{"name":"b","source":{"resourceClaimTemplateName":"t"}},{"name":"c","source":{"name":"x","source":{"resourceClaimName":"no"}}}]},
		"status":{"resourceClaimStatuses":[{"name":"b","resourceClaimName":"made"}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"mine", "made"}; !slices.Equal(o.pod.ResourceClaims, want) {
		t.Errorf("claims %q, want %q", o.pod.ResourceClaims, want)
	}
	for _, raw := range []string{
		`{"apiVersion":"resource.k8s.io/v1alpha2","kind":"ResourceSlice","metadata":{"name":"s","uid":"1"},"nodeName":"n1"}`,
		`{"apiVersion":"resource.k8s.io/v1alpha3","kind":"ResourceSlice","metadata":{"name":"s","uid":"1"},"spec":{"nodeName":"n1"}}`,
	} {
		o, err := newDecoder().object(kindResourceSlice, []byte(raw))
		if err != nil || o.node != "n1" {
			t.Errorf("%s: node %q, %v", raw, o.node, err)
		}
	}
}

// samePod compares what the fast decoder made with what the API types and nodeauthz.PodOf make.
func samePod(t *testing.T, raw []byte) {
	t.Helper()
	var p corev1.Pod
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &p); err != nil {
		return
	}
	if p.Kind != "" && p.Kind != "Pod" || groupOf(p.APIVersion) != "" {
		return // no pod
	}
	want := nodeauthz.PodOf(&p, claimsOf(&p))
	o, err := newDecoder().object(kindPod, raw)
	if err != nil {
		t.Fatalf("%v\n%s", err, raw)
	}
	sorted := func(names []string) []string {
		names = slices.DeleteFunc(slices.Clone(names), func(s string) bool { return s == "" })
		if len(names) == 0 {
			return nil
		}
		slices.Sort(names)
		return names
	}
	for _, p := range []*nodeauthz.Pod{&want, o.pod} {
		for _, l := range []*[]string{&p.Secrets, &p.ConfigMaps, &p.PersistentVolumeClaims, &p.ResourceClaims, &p.NoPulls, &p.NoSecrets} {
			*l = sorted(*l)
		}
	}
	if d := cmp.Diff(&want, o.pod); d != "" {
		t.Fatalf("(-api types +fast decoder):\n%s\n%s", d, raw)
	}
	wantObject := object{
		ref: nodeauthz.NamespacedName{Namespace: p.Namespace, Name: p.Name}, uid: string(p.UID), version: p.ResourceVersion,
		finalizers: len(p.Finalizers) > 0, graceless: p.DeletionGracePeriodSeconds != nil && *p.DeletionGracePeriodSeconds == 0,
	}
	if !p.CreationTimestamp.IsZero() {
		wantObject.created = unixNano(p.CreationTimestamp.Time)
	}
	if p.DeletionTimestamp != nil && !p.DeletionTimestamp.IsZero() {
		wantObject.deletion = unixNano(p.DeletionTimestamp.Time)
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			wantObject.granted = 0
			if !c.LastTransitionTime.IsZero() {
				wantObject.granted = unixNano(c.LastTransitionTime.Time)
			}
		}
	}
	sameAdmitted(t, raw, o.admitted.pod)
	o.pod, o.admitted = nil, admitted{}
	if d := cmp.Diff(wantObject, o, cmp.AllowUnexported(object{}, readiness{}, admitted{})); d != "" {
		t.Fatalf("(-api types +fast decoder):\n%s\n%s", d, raw)
	}
}

// sameAdmitted compares what the fast decoder keeps for the admission plugin with what nodeadmission reads of the pod's JSON.
func sameAdmitted(t *testing.T, raw []byte, got *nodeadmission.Pod) {
	t.Helper()
	want, ok := nodeadmission.ReadPod(raw)
	if !ok {
		t.Fatalf("not read: %s", raw)
	}
	statuses := func(p *nodeadmission.Pod) (members map[string]any) {
		if p.ClaimStatuses != nil && json.Unmarshal(p.ClaimStatuses, &members) != nil {
			t.Fatalf("%s\n%s", p.ClaimStatuses, raw)
		}
		p.ClaimStatuses = nil
		return members
	}
	if d := cmp.Diff(statuses(want), statuses(got)); d != "" {
		t.Fatalf("(-nodeadmission +fast decoder):\n%s\n%s", d, raw)
	}
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		t.Fatalf("(-nodeadmission +fast decoder):\n%s\n%s", d, raw)
	}
}

func TestFastPodDecoder(t *testing.T) {
	f := filler{rand.New(rand.NewPCG(1, 2))}
	for range effort.Of(3000, 300) {
		raw, err := json.Marshal(f.pod())
		if err != nil {
			t.Fatal(err)
		}
		samePod(t, raw)
	}
	for _, raw := range []string{
		`{"metadata":null,"spec":null,"status":null}`,
		`{"spec":{"volumes":[null,{"name":"v","ephemeral":{},"secret":null}],"containers":[null],"imagePullSecrets":[null]},"metadata":{"name":"p"}}`,
		`{"spec":{"volumes":[{"projected":{"sources":[{"secret":{"name":"a"}}]},"azureFile":{"secretName":"b"},"configMap":{"name":"c"}}]}}`,
		`{"spec":{"resourceClaims":[{"name":"x","resourceClaimTemplateName":"t"}]},"status":{"resourceClaimStatuses":[{"name":"x","resourceClaimName":"y"}]}}`,
	} {
		samePod(t, []byte(raw))
	}
}

// FuzzPod feeds the bytes of pods, damaged, to both decoders: what the API types accept must come out the same.
func FuzzPod(f *testing.F) {
	for _, raw := range []string{
		`{"metadata":{"name":"p","namespace":"n","uid":"u","creationTimestamp":"2026-01-02T03:04:05Z","annotations":{"kubernetes.io/config.mirror":""},"managedFields":[{"time":null}]}}`,
		`{"metadata":{"deletionTimestamp":"2026-01-02T03:04:05+01:00","deletionGracePeriodSeconds":0,"finalizers":["f"]},"spec":{"nodeName":"w","serviceAccountName":"s"}}`,
		`{"spec":{"imagePullSecrets":[{"name":"a"},null],"containers":[{"env":[{"name":"e","value":"v"},{"valueFrom":{"secretKeyRef":{"name":"b"},"configMapKeyRef":{"name":"c"}}}]}]}}`,
		`{"spec":{"initContainers":[{"envFrom":[{"secretRef":{"name":"d"}},{"configMapRef":{"name":"e"}}]}],"ephemeralContainers":[{},{"name":"x"}]}}`,
		`{"spec":{"volumes":[{"name":"v","projected":{"sources":[{"secret":{"name":"a"}},{"configMap":{"name":"b"}}]}},{"name":"w","ephemeral":{}},{"persistentVolumeClaim":{"claimName":"c"}}]}}`,
		`{"spec":{"volumes":[{"azureFile":{"secretName":"a"}},{"cephfs":{"secretRef":{"name":"b"}}},{"cinder":{"secretRef":null}},{"flexVolume":{"secretRef":{"name":"c"}}},{"rbd":{"secretRef":{}}}]}}`,
		`{"spec":{"volumes":[{"secret":{"secretName":"a"}},{"scaleIO":{"secretRef":{"name":"b"}}},{"iscsi":{}},{"storageos":{"secretRef":{"name":"c"}}},{"csi":{"nodePublishSecretRef":{"name":"d"}}},{"configMap":{"name":"e"}}]}}`,
		`{"spec":{"resourceClaims":[{"name":"x","resourceClaimTemplateName":"t"},{"name":"y","resourceClaimName":"z"}]},"status":{"resourceClaimStatuses":[{"name":"x","resourceClaimName":"r"}],"extendedResourceClaimStatus":{"resourceClaimName":"q"}}}`,
		`{"status":{"conditions":[{"type":"PodScheduled","status":"True","lastTransitionTime":"2026-01-02T03:04:05Z"},null,{"type":"Ready"}]}}`,
	} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if duplicates(raw) {
			return // the API types merge what comes twice; no API server writes such
		}
		samePod(t, raw)
	})
}

// duplicates reports whether an object in the JSON has a member twice.
func duplicates(raw []byte) bool {
	strict, err := kjson.UnmarshalStrict(raw, new(any))
	return err != nil || len(strict) > 0
}

func BenchmarkPod(b *testing.B) {
	raw, err := json.Marshal(filler{rand.New(rand.NewPCG(5, 6))}.pod())
	if err != nil {
		b.Fatal(err)
	}
	d := newDecoder()
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.object(kindPod, raw); err != nil {
			b.Fatal(err)
		}
	}
}

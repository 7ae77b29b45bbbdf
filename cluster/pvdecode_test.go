package cluster

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodetrail/nodetrail/nodeadmission"
	"github.com/nodetrail/nodetrail/nodeauthz"
)

// TestFastVolumeDecoder holds the decoder against the API's own types: each volume source alone, and several at once, in which case the
// order of nodeauthz.PersistentVolumeOf decides.
func TestFastVolumeDecoder(t *testing.T) {
	f := filler{rand.New(rand.NewPCG(3, 4))}
	source := reflect.TypeFor[corev1.PersistentVolumeSource]()
	with := 0
	for i := range 60 * source.NumField() {
		pv := &corev1.PersistentVolume{}
		pv.Name, pv.UID = "pv", "uid"
		v := reflect.ValueOf(&pv.Spec.PersistentVolumeSource).Elem()
		for range 1 + i%3/2 {
			n := (i + f.IntN(2)*f.IntN(source.NumField())) % source.NumField()
			field := v.Field(n)
			field.Set(reflect.New(field.Type().Elem()))
			f.fill(field.Elem())
		}
		if f.IntN(4) > 0 {
			pv.Spec.ClaimRef = &corev1.ObjectReference{}
			f.fill(reflect.ValueOf(pv.Spec.ClaimRef).Elem())
		}
		raw, err := json.Marshal(pv)
		if err != nil {
			t.Fatal(err)
		}
		o, err := newDecoder().object(kindPersistentVolume, raw)
		if err != nil {
			t.Fatalf("%v\n%s", err, raw)
		}
		want := nodeauthz.PersistentVolumeOf(pv)
		with += len(want.Secrets)
		var read corev1.PersistentVolume
		if err := json.Unmarshal(raw, &read); err != nil {
			t.Fatal(err)
		}
		driver := nodeadmission.DriverOf(&read)
		if d := cmp.Diff(&driver, o.admitted.driver); d != "" {
			t.Fatalf("the driver (-api types +fast decoder):\n%s\n%s", d, raw)
		}
		if d := cmp.Diff(&want, o.volume); d != "" {
			t.Fatalf("(-api types +fast decoder):\n%s\n%s", d, raw)
		}
	}
	if with == 0 {
		t.Error("no volume named a secret: the test shows nothing")
	}
}

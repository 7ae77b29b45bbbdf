package nodeadmission_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/nodeadmission"
)

// onlyPods hides that a store answers more than the look-up of a pod.
type onlyPods struct{ nodeadmission.Pods }

// TestTokenAtAQuickLook holds the answer to a request for a token against that of the same state without the quick look at the pod: for random pods, any
// number of audiences, with the restriction of audiences and without.
func TestTokenAtAQuickLook(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	verdicts := map[string]int{}
	for range 2000 {
		s := nodeadmission.NewStore()
		for _, kind := range []nodeadmission.Kind{nodeadmission.KindPod, nodeadmission.KindDriver} {
			s.CoverFrom(kind, epoch)
		}
		for range 1 + r.IntN(3) {
			s.SetPod("a", "p", randomPod(r), nodeadmission.Moment{Time: epoch.Add(time.Duration(r.IntN(20)) * time.Second), Slop: time.Duration(r.IntN(3)) * time.Second})
		}
		asked := make([]string, r.IntN(4))
		for i := range asked {
			asked[i] = audiences[r.IntN(len(audiences))]
		}
		list, err := json.Marshal(asked)
		if err != nil {
			t.Fatal(err)
		}
		body := fmt.Sprintf(`{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","metadata":{},"spec":{"audiences":%s,"expirationSeconds":3607,"boundObjectRef":`+
			`{"kind":"Pod","apiVersion":"v1","name":"p","uid":%q}},"status":{"token":"","expirationTimestamp":null}}`, list, strconv.Itoa(r.IntN(2)))
		version := []string{"1.31", "1.32", "1.33", "1.36.3", "1.37.1"}[r.IntN(5)]
		quick, slow := s.State(nil), s.State(nil)
		slow.Pods = onlyPods{s}
		at, skew := epoch.Add(time.Duration(r.IntN(42))*time.Second/2), time.Duration(r.IntN(2))*time.Second
		request := write("create", "", "serviceaccounts", "token", "a", "default", body)
		got, want := plugin(t, version, quick, skew).Decide(request, at), plugin(t, version, slow, skew).Decide(request, at)
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%s, %s at %v: %+v, without the quick look %+v", version, body, at.Sub(epoch), got, want)
		}
		verdicts[fmt.Sprintf("%v of %d", got.Verdict, min(len(asked), 2))]++
	}
	if len(verdicts) < 7 {
		t.Errorf("not all answers came: %v", verdicts)
	}
}

package judging_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/app/judging"
	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/nodeadmission"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rules"
)

// What the options say reaches the judge. Only a state that follows a cluster does not know yet that a Node will never come.
func TestNew(t *testing.T) {
	features, err := nodeauthz.FeaturesFor("1.35")
	if err != nil {
		t.Fatal(err)
	}
	mode, err := pipeline.ParseMode("RBAC")
	if err != nil {
		t.Fatal(err)
	}
	const node = `{"observedAt":"2026-11-21T05:00:00Z","type":"ADDED","object":{"kind":"Node","apiVersion":"v1","metadata":{"name":"worker-1","uid":"u1"}}}`
	for _, live := range []bool{false, true} {
		state := cluster.NewState()
		if err := state.Load([]string{"-"}, strings.NewReader(node+"\n"+node+"\n")); err != nil {
			t.Fatal(err)
		}
		s := judging.New(state, judging.Options{
			Features: features, Skew: time.Second, Mode: mode, Rules: rules.All()[:2], Kubelets: []string{"my-kubelet"}, Live: live,
		})
		j := s.Judge
		if s.State != state || j.RBAC != state.RBAC || j.Node != s.Auth || s.Auth.Features() != features || j.Mode != mode || len(j.Rules) != 2 ||
			!slices.Equal(j.Memory.Kubelets, []string{"my-kubelet"}) {
			t.Errorf("%+v", j)
		}
		if _, known := j.State.NodeRegistered("worker-9", time.Date(2026, 11, 21, 5, 0, 0, 0, time.UTC)); known == live {
			t.Errorf("live %t: that a Node is not there is known: %t", live, known)
		}
	}
}

// TestAdmissionOf wants the plugin of each minor that the authorizer is known of, with the gates that both depend on.
func TestAdmissionOf(t *testing.T) {
	for minor := nodeauthz.OldestMinor; minor <= nodeauthz.NewestMinor; minor++ {
		features, err := nodeauthz.FeaturesFor(fmt.Sprintf("1.%d", minor))
		if err != nil {
			t.Fatal(err)
		}
		v := judging.AdmissionOf(&features, nil)
		if v.Minor != minor || v.Patch != nodeadmission.AnyPatch {
			t.Errorf("1.%d: %+v", minor, v)
		}
		want, err := nodeadmission.VersionOf(fmt.Sprintf("1.%d", minor))
		if err != nil {
			t.Fatal(err)
		}
		if v != want {
			t.Errorf("1.%d with its defaults: %+v, want %+v", minor, v, want)
		}
		if minor < 34 {
			continue
		}
		features.PodCertificateRequest = !features.PodCertificateRequest
		if judging.AdmissionOf(&features, nil) == want {
			t.Errorf("1.%d: the gate PodCertificateRequest makes no difference", minor)
		}
	}
}

// TestGatesOfThePlugin: gates on which the plugin alone depends reach it, whether the version is given or found in the log.
func TestGatesOfThePlugin(t *testing.T) {
	gates := map[string]bool{"ServiceAccountNodeAudienceRestriction": false, "AllowInsecureKubeletCertificateSigningRequests": true, "RecoverVolumeExpansionFailure": true}
	for minor := nodeauthz.OldestMinor; minor <= nodeauthz.NewestMinor; minor++ {
		version := fmt.Sprintf("1.%d", minor)
		features, err := nodeauthz.FeaturesFor(version)
		if err != nil {
			t.Fatal(err)
		}
		want, err := nodeadmission.VersionOf(version)
		if err != nil {
			t.Fatal(err)
		}
		for name, on := range gates {
			_ = want.SetGate(name, on) // older minors do not have all of them
		}
		if got := judging.AdmissionOf(&features, gates); got != want {
			t.Errorf("%s: %+v, want %+v", version, got, want)
		}
	}
}

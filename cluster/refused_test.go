package cluster

import (
	"context"
	"testing"
	"time"

	"github.com/rs/zerolog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// What a kind is refused for in the end is tried seldom; what it is refused for only now, as by an API server that starts, soon.
func TestRefusedAnew(t *testing.T) {
	cfg := RecordConfig{MinBackoff: time.Second, RetryRefused: time.Hour}.withDefaults()
	k := newKindRecorder(&cfg, nil, kindPodCertificateRequest, &journalWriter{}, zerolog.Nop())
	over, cancel := context.WithCancel(t.Context())
	cancel() // nothing waits
	of := schema.GroupResource{Group: "certificates.k8s.io", Resource: "podcertificaterequests"}
	absent, forbidden := apierrors.NewNotFound(of, ""), apierrors.NewForbidden(of, "", nil)
	for _, c := range []struct {
		err   error
		times int
		wait  time.Duration
		phase phase
	}{
		{absent, 1, time.Second, phaseAbsent},
		{absent, 30, time.Hour, phaseAbsent},
		{forbidden, 1, time.Second, phaseRefused},
		{forbidden, 2, 4 * time.Second, phaseRefused},
		{absent, 1, time.Second, phaseAbsent},
	} {
		for range c.times {
			k.turn(phaseLost, c.err) // as after a watch
			k.refused(over, "watch", c.err)
		}
		if k.refusal != c.wait || k.phase != c.phase {
			t.Errorf("%v, %d times: waits %s in phase %d", c.err, c.times, k.refusal, k.phase)
		}
	}
}

package nodeadmission_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/internal/nodeid"
	"github.com/nodetrail/nodetrail/nodeadmission"
	"github.com/nodetrail/nodetrail/rbac"
)

const (
	captureFolder = "../internal/demo/capture-writes/"
	captureSkew   = 150 * time.Millisecond
)

// rbacAt is RBAC of the capture, which alone may allow what the plugin asks the authorizer.
type rbacAt struct{ store *rbac.Store }

func (r rbacAt) Authorize(attrs authorizer.Attributes, at time.Time) (allowed, known bool, err error) {
	d := r.store.Authorize(attrs, at)
	return d.Allowed, d.Known, nil
}

func openCapture(t testing.TB, name string) *os.File {
	t.Helper()
	f, err := os.Open(captureFolder + name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// capture is the plugin over a capture's state, and the writes of nodes in its log.
func capture(t testing.TB, skew time.Duration) (*nodeadmission.Admission, []*audit.Event) {
	t.Helper()
	store, roles := readJournal(t, unzip(t, openCapture(t, "journal.jsonl.gz")))
	v, err := nodeadmission.VersionOf("1.36.3")
	if err != nil {
		t.Fatal(err)
	}
	a := nodeadmission.New(v, store.State(rbacAt{roles}), skew)
	var events []*audit.Event
	d := audit.Decoder{}
	d.Chunk(unzip(t, openCapture(t, "audit.log.gz")), 1, func(ev *audit.Event) {
		if ev.Stage == audit.StageResponseComplete {
			events = append(events, ev.Clone())
		}
	}, func(m audit.Malformed) { t.Errorf("%+v", m) })
	return a, events
}

// asked makes a request of an event.
func asked(ev *audit.Event, attrs *audit.Attributes) nodeadmission.Request {
	who := ev.Effective()
	r := nodeadmission.Request{Attributes: attrs.Of(ev, true), Name: ev.ObjectRef.Name, Body: ev.RequestObject, Refused: ev.Decision != "allow"}
	r.Node, r.IsNode = nodeid.Of(who.Username, who.Groups)
	r.NotFound = ev.Code == 404 && observed(ev) != nodeadmission.ObservedDeny
	return r
}

func observed(ev *audit.Event) nodeadmission.Observed {
	return nodeadmission.Observe(&nodeadmission.Response{
		Verb: ev.Verb, Subresource: ev.ObjectRef.Subresource, Authorized: ev.Decision == "allow", Code: ev.Code, Message: ev.StatusMessage,
	})
}

func kindOf(ev *audit.Event) string {
	kind := ev.Verb + " " + ev.ObjectRef.Resource
	if ev.ObjectRef.Subresource != "" {
		kind += "/" + ev.ObjectRef.Subresource
	}
	return kind
}

// tally is what a replay found.
type tally struct {
	refusals, predicted, races, passed, unknown int
}

// replay holds the answers to the events against what the API server's plugin said.
func replay(t *testing.T, strip bool) tally {
	t.Helper()
	a, events := capture(t, captureSkew)
	c := tally{}
	var attrs audit.Attributes
	for _, ev := range events {
		r := asked(ev, &attrs)
		if strip {
			r.Body = nil
		}
		said := observed(ev)
		ans := a.Decide(&r, ev.RequestReceived)
		if !r.IsNode || said != nodeadmission.ObservedAllow && said != nodeadmission.ObservedDeny {
			continue
		}
		c.take(t, ev, &ans, said)
	}
	return c
}

func (c *tally) take(t *testing.T, ev *audit.Event, ans *nodeadmission.Answer, said nodeadmission.Observed) {
	t.Helper()
	refused := said == nodeadmission.ObservedDeny
	if refused {
		c.refusals++
	} else {
		c.passed++
	}
	switch {
	case ans.Race:
		c.races++
	case ans.Verdict == nodeadmission.Unknown:
		c.unknown++
	case refused && !predicts(ans, ev):
		t.Errorf("%s %s %s: %+v, but the API server said %d %q", ev.AuditID, kindOf(ev), ev.ObjectRef.Name, ans, ev.Code, ev.StatusMessage)
	case refused:
		c.predicted++
	case ans.Verdict != nodeadmission.Allow:
		t.Errorf("%s %s %s: %+v, but it went through with %d", ev.AuditID, kindOf(ev), ev.ObjectRef.Name, ans, ev.Code)
	}
}

func predicts(ans *nodeadmission.Answer, ev *audit.Event) bool {
	if ans.Verdict != nodeadmission.Deny || ans.Code != ev.Code {
		return false
	}
	if ans.Prefix {
		return strings.HasPrefix(ev.StatusMessage, ans.Message)
	}
	return ans.Message == ev.StatusMessage
}

// TestCapture predicts what the plugin of a real API server refused, message by message. The one refusal that it cannot tell is over a
// CSIDriver, which the journal does not have.
func TestCapture(t *testing.T) {
	c := replay(t, false)
	t.Logf("%+v", c)
	if c.refusals != 503 || c.predicted != c.refusals-1 || c.passed < 500 {
		t.Errorf("%d of %d refusals predicted, %d writes went through", c.predicted, c.refusals, c.passed)
	}
	if all := c.refusals + c.passed; c.unknown*50 > all {
		t.Errorf("%d of %d are unknown", c.unknown, all)
	}
}

// TestCaptureFromMetadata does the same without bodies. What is decided is right; package app has how much it is.
func TestCaptureFromMetadata(t *testing.T) {
	c := replay(t, true)
	if c.refusals != 503 || c.predicted < 200 {
		t.Errorf("%d of %d refusals predicted", c.predicted, c.refusals)
	}
}

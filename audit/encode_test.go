package audit

import (
	"bytes"
	"io"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"

	"github.com/nodetrail/nodetrail/internal/test/effort"
)

// What is written of an event is read as the same event: over the whole capture, and over one with everything in it.
func TestAppendJSON(t *testing.T) {
	f, err := os.Open("../internal/demo/capture/audit.log.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	log, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	log = append(log, `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Request","auditID":"\u00e9\u2028<","stage":"RequestReceived",`+
		`"requestURI":"/a?b=c&d","verb":"get","user":{"username":"system:node:a","uid":"u","groups":["system:nodes"],"extra":{`+
		`"authentication.kubernetes.io/credential-id":["X509SHA256=1"]}},"impersonatedUser":{"username":"b"},"sourceIPs":["::1","1.2.3.4"],`+
		`"userAgent":"x","requestObject":{"a":[1]},"responseStatus":{"code":404,"reason":"NotFound","message":"m"},`+
		`"requestReceivedTimestamp":"2026-11-21T06:00:00.000001Z"}`+"\n"...)
	malformed := func(m Malformed) { t.Fatalf("malformed: %+v", m) }
	n := 0
	(&Decoder{Want: Want{State: true}}).Chunk(log, 1, func(ev *Event) {
		if n++; n%effort.Of(1, 6) != 0 {
			return
		}
		line, err := ev.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		var got Event
		if bytes.IndexByte(line, '\n') >= 0 {
			t.Fatalf("more than a line: %s", line)
		}
		(&Decoder{Want: Want{State: true}}).Chunk(line, ev.Line, func(ev *Event) { got = *ev }, malformed)
		if diff := cmp.Diff(*ev, got); diff != "" {
			t.Fatalf("%s\n%s", line, diff)
		}
	}, malformed)
	if n < 2000 {
		t.Errorf("only %d events", n)
	}
}

package audit

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// paddedRead is an event with a URI of so many more bytes.
func paddedRead(id string, more int) string {
	return fmt.Sprintf(`{"level":"Metadata","auditID":%q,"stage":"ResponseComplete","requestURI":"/api/v1/namespaces/shop/secrets/db?%s","verb":"get",`+
		`"user":{"username":"system:node:worker-1","groups":["system:nodes"]},"sourceIPs":["10.0.0.9"],"objectRef":{"resource":"secrets","namespace":"shop","name":"db"},`+
		`"responseStatus":{"code":200},"requestReceivedTimestamp":"2026-11-21T06:00:00.000000Z","stageTimestamp":"2026-11-21T06:00:00.000000Z"}`,
		id, strings.Repeat(`\u0026`, more/6))
}

// Of a list of any length each event is decoded as it would be by itself, whatever the reads and the events before and behind it.
func TestShrinkKeepsEachEvent(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 7))
		var want, items []string
		for i := range 1 + r.IntN(12) {
			id := fmt.Sprint("id-", i, `"[{\`)
			more := 0
			if r.IntN(3) == 0 {
				more = r.IntN(200_000)
			}
			want, items = append(want, id), append(items, paddedRead(id, more))
		}
		text := "[" + strings.Join(items, " ,\n") + "]"
		if r.IntN(2) == 0 {
			text = `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{"x":["{"]},"items":` + text + "}\n"
		}
		var from io.Reader = strings.NewReader(text)
		if r.IntN(2) == 0 {
			from = iotest.OneByteReader(from)
		}
		s := &Shrinker{R: from, MaxEvent: 4096, Least: 1024}
		short, err := io.ReadAll(s)
		if err != nil {
			t.Fatal(err)
		}
		if len(short) > len(items)*(4096+300) {
			t.Errorf("seed %d: %d bytes are left of %d", seed, len(short), len(text))
		}
		var got []string
		d := Decoder{MaxEventBytes: 4096}
		d.Split(short, func(ev *Event, _ []byte) {
			got = append(got, ev.AuditID)
			if ev.ObjectRef.Name != "db" || ev.User.Username != "system:node:worker-1" || ev.Code != 200 || len(ev.SourceIPs) != 1 {
				t.Errorf("seed %d: %+v", seed, ev)
			}
		}, func(m Malformed, raw []byte) { t.Errorf("seed %d: %s: %.200s", seed, m.Cause, raw) })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("seed %d (-want +got):\n%s", seed, diff)
		}
	}
}

// What is short comes back as it is, and what cannot be reduced is malformed and no longer.
func TestShrinkChangesNothingElse(t *testing.T) {
	for _, text := range []string{"", "null", `{"kind":"EventList","items":[]}`, paddedRead("a", 10_000), "[" + paddedRead("a", 0), `]]}}[{"\"`, "\x00[{}", `["{",{"a":[[{}]]}]`} {
		short, err := io.ReadAll(&Shrinker{R: strings.NewReader(text), MaxEvent: 2048})
		if err != nil || string(short) != text {
			t.Errorf("%.60q became %.60q: %v", text, short, err)
		}
	}
	text := `[{"x":"` + strings.Repeat("y", 5000) + `"},` + paddedRead("a", 0) + `]`
	short, err := io.ReadAll(&Shrinker{R: strings.NewReader(text), MaxEvent: 2048})
	if err != nil {
		t.Fatal(err)
	}
	read, bad := 0, 0
	(&Decoder{}).Split(short, func(*Event, []byte) { read++ }, func(Malformed, []byte) { bad++ })
	if read != 1 || bad != 1 || bytes.Contains(short, []byte("yyy")) {
		t.Errorf("%d read, %d malformed: %s", read, bad, short)
	}
}

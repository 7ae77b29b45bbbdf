package rules

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
)

// What is appended by hand is what encoding/json makes of it, byte by byte.
func TestAppendIsEncodingJSON(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	text := func() string {
		return []string{"", "get", "a b", `"`, `\`, "<&>", "\x00\n", "é", "\xff", "\u2028", "\x7f", "6f0f9f9e-0000-4000-8000-000000000001"}[rnd.IntN(12)]
	}
	texts := func() (out []string) {
		for range rnd.IntN(4) {
			out = append(out, text())
		}
		return out
	}
	number := func() int64 { return []int64{0, 1, -1, 12345, -1 << 63, 1<<63 - 1}[rnd.IntN(6)] }
	when := func() time.Time {
		return []time.Time{{}, at(1), at(1).Add(time.Microsecond), time.Date(9999, 1, 2, 3, 4, 5, 6, time.UTC), at(0).In(time.FixedZone("", 3600))}[rnd.IntN(5)]
	}
	amount := func() float64 { return []float64{0, 1, 2.5, 1e22, 1e-9, -3, 1 << 60}[rnd.IntN(7)] }
	for range 1000 {
		subject := &spikeSubject{Seen: number(), Last: number()}
		for range rnd.IntN(3) {
			subject.Past = append(subject.Past, spikeHour{Hour: number(), Sum: amount(), Sq: amount(), Most: number()})
			subject.Now = &spikeState{Onset: number(), LastAt: when(), AuditIDs: texts()}
		}
		node := &enumerationNode{FoundAt: when()}
		for range rnd.IntN(3) {
			node.Objects = append(node.Objects, reached{ID: uint64(number()), Last: number(), Weight: int8(number()), Passed: rnd.IntN(2) == 0})
			node.Examples = append(node.Examples, reachedExample{Name: text(), AuditID: text(), Product: text(), Passed: rnd.IntN(2) == 0})
		}
		for _, v := range []appender{subject, node} {
			got, err := v.appendJSON(nil)
			want, wantErr := json.Marshal(v)
			if err != nil || wantErr != nil {
				t.Fatal(err, wantErr)
			}
			if diff := gocmp.Diff(string(want), string(got)); diff != "" {
				t.Fatalf("-encoding/json +appended:\n%s", diff)
			}
		}
	}
	late := time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	if out := remember(nil, "k", "n", &spikeSubject{Now: &spikeState{LastAt: late}}); len(out) != 0 {
		t.Errorf("a time without a form is remembered: %s", out[0].Value)
	}
}

// Every byte, in every place of strings of every length that matters, is written as encoding/json does.
func TestAppendTextIsJSON(t *testing.T) {
	for length := range 20 {
		for at := range length {
			for c := range 256 {
				for _, around := range []byte{'a', ' ', '~', '%'} {
					text := bytes.Repeat([]byte{around}, length)
					text[at] = byte(c)
					want, err := json.Marshal(string(text))
					if err != nil {
						t.Fatal(err)
					}
					if got := appendText(nil, string(text)); !bytes.Equal(got, want) {
						t.Fatalf("%q: %s, want %s", text, got, want)
					}
				}
			}
		}
	}
	if got := string(appendText(nil, "")); got != `""` {
		t.Error(got)
	}
}

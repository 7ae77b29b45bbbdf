package store

import (
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

func FuzzEscape(f *testing.F) {
	for _, s := range hostileNames() {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		text := escape(s)
		if !utf8.ValidString(text) || strings.ContainsAny(text, "\x00\n") {
			t.Errorf("%q becomes %q", s, text)
		}
		if back, err := unescape(text); err != nil || back != s {
			t.Errorf("%q comes back as %q: %v", s, back, err)
		}
		_, _ = unescape(s) // anything may be in a database
		k := tally.Key{Rule: s, Name: "x" + s, Reason: rules.Reason(s + "z"), Apart: s + "y", Binding: rbac.BindingRef{Namespace: s}}
		if got, err := parseKey(keyText(&k)); err != nil || got != k {
			t.Errorf("%+v comes back as %+v: %v", k, got, err)
		}
		a := tally.AmbientKey{Verb: s, Binding: rbac.BindingRef{Kind: s}}
		if got, err := parseAmbient(ambientText(&a)); err != nil || got != a {
			t.Errorf("%+v comes back as %+v: %v", a, got, err)
		}
		w := tally.AdmissionKey{Outcome: rules.Outcome(s), Missing: s + "x", Resource: s}
		if got, err := parseAdmission(admissionText(&w)); err != nil || got != w {
			t.Errorf("%+v comes back as %+v: %v", w, got, err)
		}
		ids := []string{s, "", s + " "}
		got, err := parseAuditIDs(auditIDs(ids), 3)
		if diff := cmp.Diff(ids, got); err != nil || diff != "" {
			t.Errorf("audit IDs (-want +got):\n%s%v", diff, err)
		}
		if n := len(laneText(s)); n > 2000 {
			t.Errorf("a lane's key has %d bytes", n)
		}
	})
}

func TestDamagedText(t *testing.T) {
	for _, s := range []string{`\`, `\0`, `\zz`, `a\1`} {
		if got, err := unescape(s); err == nil {
			t.Errorf("%s is read as %q", s, got)
		}
	}
	for _, s := range []string{"", "[]", `["a"]`, "{}", `["\\","","","",""]`} {
		if _, err := parseAmbient(s); err == nil {
			t.Errorf("%s is read", s)
		}
		if _, err := parseKey(s); err == nil {
			t.Errorf("%s is read", s)
		}
		if _, err := parseAdmission(s); err == nil {
			t.Errorf("%s is read", s)
		}
	}
}

func TestTimes(t *testing.T) {
	for _, x := range []time.Time{{}, start, time.Unix(0, 0).UTC(), time.Unix(0, -1).UTC()} {
		if got := fromNanos(nanos(x, noFirst)); !got.Equal(x) {
			t.Errorf("%v comes back as %v", x, got)
		}
		if got := fromNanos(nanos(x, noLast)); !got.Equal(x) {
			t.Errorf("%v comes back as %v", x, got)
		}
	}
	for year, want := range map[int]int64{1: math.MinInt64 + 1, 1600: math.MinInt64 + 1, 2300: math.MaxInt64 - 1, 9999: math.MaxInt64 - 1} {
		if got := nanos(time.Date(year, 2, 1, 0, 0, 0, 0, time.UTC), noLast); got != want {
			t.Errorf("year %d is %d", year, got)
		}
	}
	for _, x := range []struct{ seconds, want int64 }{{0, 0}, {3599, 0}, {3600, 1}, {-1, -1}, {-3600, -1}, {-3601, -2}} {
		if got := (&Store{seconds: 3600}).stepOf(time.Unix(x.seconds, 0)); got != x.want {
			t.Errorf("second %d is in hour %d, want %d", x.seconds, got, x.want)
		}
	}
}

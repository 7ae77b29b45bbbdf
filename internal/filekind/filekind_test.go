package filekind

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode"

	"github.com/nodetrail/nodetrail/internal/test/effort"
)

// samples are beginnings, and what they show.
var samples = map[string]Kind{
	"":       Empty,
	" \n\n":  Unknown,
	"text\n": Unknown,
	`{"kind":"Event","apiVersion":"audit.k8s.io/v1","auditID":"a"`:                                 AuditLog,
	"{\n \"kind\": \"EventList\",\n \"apiVersion\": \"audit.k8s.io/v1\"":                           AuditLog,
	`[{"kind":"Event","apiVersion":"audit.k8s.io/v1beta1"}]`:                                       AuditLog,
	`{"kind":"Policy","apiVersion":"audit.k8s.io/v1"}`:                                             AuditPolicy,
	`{"kind":"Polciy","apiVersion":"audit.k8s.io/v1"}`:                                             Unknown,
	`{"apiVersion":"audit.k8s.io/v1","level":"Metadata"}`:                                          AuditLog,
	"\xef\xbb\xbf# x: y\nkind: Policy\nrules:\n- level: None\napiVersion: \"audit.k8s.io/v1\"\r\n": AuditPolicy,
	"apiVersion: policy/v1\nkind: PodDisruptionBudget\n":                                           State,
	`{"type":"ADDED","object":{"kind":"Pod"`:                                                       State,
	`{"observedAt":"2026","type":"BOOKMARK","object":{}}`:                                          State,
	`{"type":"other","object":{}}`:                                                                 Unknown,
	`{"kind":"Config","apiVersion":"v1","users":[]}`:                                               Kubeconfig,
	`{"kind":"Config","apiVersion":"operator.openshift.io/v1"}`:                                    State,
	"E1121 06:03:57.603813       1 x.go:1] {\"kind\":\"Event\"}":                                   ApiserverLog,
	`{"id":"1","rule":"node-identity","severity":"low","node":"a"}`:                                Findings,
	`{"level":"info","sources":[],"time":"2026-11-21T06:03:57Z","message":"ready"}`:                OwnLog,
	`{"auditID":"a","verdict":"allow"}`:                                                            Verdicts,
	`{"auditID":"a","stage":"Panic","verdict":"allow"}`:                                            AuditLog,
	`{"cluster":"","window":{"from":"`:                                                             Unknown,
	"rules:\n- name: a\n":                                                                          OwnRules,
	"tests: []\nrules: []\n":                                                                       OwnRules,
	"cluster: a\nrules: {files: []}\n":                                                             Unknown,
	"\x1f\x8b\x08":                                                                                 Unknown,
	"\xff\xfe{\x00":                                                                                UTF16,
	"<HTML><body>":                                                                                 WebPage,
	"[":                                                                                            Unknown,
	"[]":                                                                                           Unknown,
	"[[[[":                                                                                         Unknown,
	`{"":{`:                                                                                        Unknown,
	"{\"kind\":\"Policy\"":                                                                         Unknown,
}

func TestOf(t *testing.T) {
	for text, want := range samples {
		if got := Of([]byte(text), true); got != want {
			t.Errorf("%q is %d (%s), want %d (%s)", text, got, got, want, want)
		}
	}
	if got := Of(nil, false); got != Unknown {
		t.Errorf("nothing yet is %s", got)
	}
}

// Of each pair of kinds there is one clause that says what it is, what it is not and what to do, but for those that fit.
func TestMisplacedPairs(t *testing.T) {
	for k := range numKinds {
		for wanted := range numKinds {
			got := k.Misplaced(wanted)
			checkClause(t, got)
			fits := k == wanted || k == Unknown || (k == EtcdSnapshot || k == Store) && wanted == State
			if (got == "") != fits {
				t.Errorf("%q as %q: %q", k, wanted, got)
			}
			if !fits && k != Empty && (!strings.HasPrefix(got, k.String()) || !strings.Contains(got, wanted.String()) || !strings.Contains(got, ": ")) {
				t.Errorf("%q as %q: %q", k, wanted, got)
			}
		}
	}
}

// checkClause holds that something can stand in a sentence on one line.
func checkClause(t *testing.T, s string) {
	t.Helper()
	if len(s) > 200 || strings.HasSuffix(s, ".") || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Errorf("%q cannot stand in a sentence", s)
	}
}

// Whatever is cut from, put into or changed in a sample has a kind, always the same, without a panic.
func TestMangled(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var all []string
	for text := range samples {
		all = append(all, text)
	}
	for range effort.Of(200_000, 20_000) {
		b := []byte(all[rng.IntN(len(all))] + all[rng.IntN(len(all))])
		for range rng.IntN(4) {
			if len(b) == 0 {
				break
			}
			i := rng.IntN(len(b))
			switch rng.IntN(3) {
			case 0:
				b = b[:i]
			case 1:
				b[i] = byte(rng.IntN(256))
			case 2:
				b = append(b[:i:i], b[min(len(b), i+rng.IntN(9)):]...)
			}
		}
		checkOf(t, b)
	}
}

func checkOf(t *testing.T, b []byte) {
	t.Helper()
	copied := strings.Clone(string(b))
	k := Of(b, true)
	if k >= numKinds || k != Of([]byte(copied), true) || string(b) != copied {
		t.Fatalf("%q is %d", b, k)
	}
	checkClause(t, k.Misplaced(AuditLog))
}

// Deep and long values cost no memory beyond what is kept of them.
func TestHostile(t *testing.T) {
	for name, text := range map[string]string{
		"deep arrays":    strings.Repeat("[", 1<<20),
		"deep objects":   strings.Repeat(`{"a":`, 1<<18),
		"many keys":      "{" + strings.Repeat(`"a`+`":1,"b":2,`, 1<<16),
		"distinct keys":  distinct(1 << 14),
		"a long string":  `{"kind":"` + strings.Repeat("x", 1<<20),
		"many lines":     strings.Repeat("a: b\n", 1<<18),
		"one line":       strings.Repeat("a", 1<<20),
		"escapes":        `{"kind":"` + strings.Repeat(`\u0041`, 1<<17) + `"}`,
		"zeros":          strings.Repeat("\x00", 1<<20),
		"colons":         strings.Repeat(":", 1<<20),
		"a long comment": "#" + strings.Repeat("kind: Policy ", 1<<16),
	} {
		b := []byte(text)
		if got := Of(b, true); got != Unknown {
			t.Errorf("%s: %s", name, got)
		}
		var most int
		if text[0] == '{' || text[0] == '[' {
			most = len(membersOf(b[:HeadBytes]))
		} else {
			most = len(yamlMembers(b[:HeadBytes]))
		}
		if most > mostMembers {
			t.Errorf("%s: %d members are kept", name, most)
		}
		// Under the race detector each look-up by a key's bytes makes a string.
		if n := testing.AllocsPerRun(5, func() { Of(b, true) }); n > effort.Of(1000.0, 10_000) {
			t.Errorf("%s: %f allocations", name, n)
		}
	}
}

func distinct(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(`,"k` + strings.Repeat("x", i%7) + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + `":""`)
	}
	return "{" + b.String()[1:]
}

func FuzzOf(f *testing.F) {
	for text := range samples {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) { checkOf(t, b) })
}

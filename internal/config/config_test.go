package config

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/rs/zerolog"
	"go.yaml.in/yaml/v3"

	"github.com/nodetrail/nodetrail/internal/test/golden"
)

// testEnv is the environment of all tests here.
func testEnv(name string) (string, bool) {
	v, ok := map[string]string{
		"HOST": "127.0.0.1", "PASSWORD": "hunter2-of-the-environment", "EMPTY": "", "SKEW": "2s", "LINES": "a: b\nc: d # e", "DSN": "postgres://u:hunter2@db/n",
	}[name]
	return v, ok
}

func equal() cmp.Options {
	return cmp.Options{cmp.AllowUnexported(Config{}, Secret{}), cmpopts.IgnoreFields(Config{}, "hash"), cmpopts.EquateEmpty()}
}

func TestDefaultFileIsTheDefault(t *testing.T) {
	c, err := Parse("defaults.yaml", []byte(DefaultYAML()), testEnv)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Default(), c, equal()); diff != "" {
		t.Errorf("defaults.yaml differs from Default (-code +file):\n%s", diff)
	}
	empty, err := Parse("empty.yaml", nil, testEnv)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Default(), empty, equal()); diff != "" {
		t.Errorf("an empty file differs from Default:\n%s", diff)
	}
}

// uncomment makes keys of the lines in which no blank, or more than one, follows the #.
func uncomment(text string) string {
	hidden := regexp.MustCompile(`^(\s*)#(\S.*|  .*)$`)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		m := hidden.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if i > 0 && strings.HasSuffix(lines[i-1], ": []") && !strings.HasSuffix(line, "]") && regexp.MustCompile(`^\s*#  #|#- `).MatchString(line) {
			if !hidden.MatchString(lines[i-1]) && len(m[1]) == indent(lines[i-1]) {
				lines[i-1] = strings.TrimSuffix(lines[i-1], " []")
			}
		}
		lines[i] = m[1] + m[2]
	}
	return strings.Join(lines, "\n")
}

func indent(s string) int { return len(s) - len(strings.TrimLeft(s, " ")) }

// Each key of the structs is in the file of defaults, with the same default and an explanation, and the other way round.
func TestDefaultFileHasEveryKey(t *testing.T) {
	text := uncomment(DefaultYAML())
	d := &decoder{errs: &FileError{File: "uncommented"}, env: testEnv, lines: map[string]int{}, raw: map[string]string{}}
	c := Default()
	root := d.document([]byte(text))
	if root != nil {
		d.value(root, reflect.ValueOf(c).Elem(), "", "")
	}
	if len(d.errs.Problems) > 0 {
		t.Fatalf("%v\n%s", d.errs, text)
	}
	var got []string
	collect(root, "", &got)
	want := allKeys(reflect.TypeFor[Config](), "")
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("keys (-structs +file):\n%s", diff)
	}

	full := Default()
	full.Sources = Sources{Files: make([]FileSource, 1), Webhook: &Webhook{}, Kafka: &KafkaSource{}}
	full.Exceptions = []Exception{{}}
	full.Waivers = []Waiver{{Scope: WaiverScope{Hours: &WaiverHours{}}}}
	full.Gateway = &Gateway{}
	full.Store.SQLite, full.Store.Postgres = &SQLite{}, &Postgres{}
	full.Sinks.JSONL, full.Sinks.HTTP, full.Sinks.Kafka = make([]JSONLSink, 1), make([]HTTPSink, 1), make([]KafkaSink, 1)
	full.Sinks.Alertmanager = []AlertmanagerSink{{}}
	full.Coverage.ApiserverMetrics = &ApiserverMetrics{}
	for _, s := range []defaulter{
		&full.Sources.Files[0], full.Sources.Webhook, full.Sources.Kafka, full.Gateway, &full.Sinks.Alertmanager[0], &full.Sinks.HTTP[0],
		&full.Sinks.Kafka[0], &full.Sinks.JSONL[0], full.Coverage.ApiserverMetrics,
	} {
		s.SetDefaults()
	}
	if diff := cmp.Diff(full, c, equal()); diff != "" {
		t.Errorf("defaults of optional sections (-code +file):\n%s", diff)
	}

	key := regexp.MustCompile(`^\s*(- )?([A-Za-z]+):`)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if key.MatchString(line) && (i == 0 || !strings.HasPrefix(strings.TrimSpace(lines[i-1]), "# ")) {
			t.Errorf("no explanation above %q", line)
		}
	}
}

func collect(n *yaml.Node, path string, to *[]string) {
	switch n.Kind {
	case yaml.SequenceNode:
		for _, c := range n.Content {
			collect(c, path+"[]", to)
		}
	case yaml.MappingNode:
		for i := 0; i < len(n.Content); i += 2 {
			p := join(path, n.Content[i].Value)
			*to = append(*to, p)
			collect(n.Content[i+1], p, to)
		}
	}
}

// The file says "at run time" of exactly the keys that can change then.
func TestDefaultFileSaysWhatIsLive(t *testing.T) {
	var got []string
	lines := strings.Split(DefaultYAML(), "\n")
	for i, line := range lines {
		if !strings.Contains(line, "an change at run time") {
			continue
		}
		for _, next := range lines[i:] {
			if !strings.HasPrefix(strings.TrimSpace(next), "#") {
				name, _, _ := strings.Cut(strings.TrimSpace(next), ":")
				got = append(got, name)
				break
			}
		}
	}
	var want []string
	var walk func(reflect.Type)
	walk = func(ty reflect.Type) {
		for f := range fields(ty) {
			if f.Tag.Get("live") != "" {
				want = append(want, f.Name)
			} else if f.Type.Kind() == reflect.Struct && f.Type != reflect.TypeFor[Secret]() {
				walk(f.Type)
			}
		}
	}
	walk(reflect.TypeFor[Config]())
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("live keys (-structs +file):\n%s", diff)
	}
}

func TestGood(t *testing.T) {
	for _, path := range glob(t, "good") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			if _, err := Load(path, testEnv); err != nil {
				t.Errorf("%v", err)
			}
		})
	}
}

// Each file of bad has its errors next to it.
func TestBad(t *testing.T) {
	for _, path := range glob(t, "bad") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Parse(filepath.Base(path), data, testEnv)
			if err == nil {
				t.Fatal("no error")
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error holds a secret: %v", err)
			}
			golden.Check(t, strings.TrimSuffix(path, ".yaml")+".err", err.Error()+"\n")
		})
	}
}

func glob(t *testing.T, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", dir, "*.yaml"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no files in testdata/%s: %v", dir, err)
	}
	return paths
}

func TestValues(t *testing.T) {
	c, err := Parse("x.yaml", []byte(`
cluster: "${HOST}-$${HOST}-$HOST-$$"
listen: ${HOST}:0
skew: ${SKEW}
store: {retention: 1d12h, hourly: 1d}
authorization: {kubernetesVersion: 1.34, featureGates: {PodCertificateRequest: true}}
log: {level: "debug"}
sinks:
  http:
  - {url: "https://r/x", bearerToken: "${PASSWORD}", headers: {X-Key: "${EMPTY}"}}
  queue: {maxBytes: 1048576}
`), testEnv)
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Cluster, want.Listen, want.Skew = "127.0.0.1-${HOST}-$HOST-$$", "127.0.0.1:0", 2e9
	want.Store.Retention, want.Store.Hourly = 36*3600e9, 24*3600e9
	want.Authorization.KubernetesVersion = "1.34"
	want.Authorization.FeatureGates = map[string]bool{"PodCertificateRequest": true}
	want.Log.Level = "debug"
	h := HTTPSink{}
	h.SetDefaults()
	h.Name = "r"
	h.URL, h.BearerToken, h.Headers = "https://r/x", NewSecret("hunter2-of-the-environment"), map[string]Secret{"X-Key": {}}
	want.Sinks.HTTP = []HTTPSink{h}
	want.Sinks.Queue.MaxBytes = 1 << 20
	if diff := cmp.Diff(want, c, equal()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A default gives way to what the file says of another key that bounds it.
func TestDefaultsFollow(t *testing.T) {
	c, err := Parse("x.yaml", []byte("store: {retention: 2d}\nstate: {waitAtMost: 100ms}\nsources: {webhook: {maxBodyBytes: 64MiB}}"), testEnv)
	if err != nil {
		t.Fatal(err)
	}
	if c.Store.Hourly != c.Store.Retention || c.State.Settle != c.State.WaitAtMost || c.Sources.Webhook.MaxInFlightBytes != 384<<20 {
		t.Errorf("%+v, %+v, %+v", c.Store, c.State, c.Sources.Webhook)
	}
}

func TestWaitFollowsTheWebhook(t *testing.T) {
	f := func(text string, wait, settle Duration) {
		t.Helper()
		c, err := Parse("x.yaml", []byte(text), testEnv)
		if err != nil {
			t.Fatal(err)
		}
		if c.State.WaitAtMost != wait || c.State.Settle != settle {
			t.Errorf("%s: waitAtMost %s, settle %s", text, c.State.WaitAtMost, c.State.Settle)
		}
	}
	f("sources: {webhook: {}}", 20e9, 500e6)
	f("sources: {webhook: {commitTimeout: 10s}}", 8e9, 500e6)
	f("state: {waitAtMost: 9s}\nsources: {webhook: {commitTimeout: 10s}}", 9e9, 500e6)
	f("state: {waitAtMost: 5m}\nsources: {kafka: {brokers: [a:1], topics: [a], group: g}}", 300e9, 500e6)
}

// A variable's value is text, never YAML: it cannot bring in keys.
func TestVariableIsNotYAML(t *testing.T) {
	c, err := Parse("x.yaml", []byte("data: ${LINES}"), testEnv)
	if err != nil || c.Data != "a: b\nc: d # e" {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestSecretsAreNeverPrinted(t *testing.T) {
	h := HTTPSink{BearerToken: NewSecret("hunter2"), Headers: map[string]Secret{"A": NewSecret("hunter2")}}
	asJSON, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	asYAML, err := yaml.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	var logged strings.Builder
	log := zerolog.New(&logged)
	log.Info().Interface("sink", h).Any("t", h.BearerToken).Stringer("s", h.BearerToken).Msg("")
	all := []string{string(asJSON), string(asYAML), logged.String(), h.BearerToken.String()}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		all = append(all, fmt.Sprintf(verb, h), fmt.Sprintf(verb, &h), fmt.Sprintf(verb, h.BearerToken))
	}
	for _, s := range all {
		if strings.Contains(s, "hunter2") || strings.Contains(s, fmt.Sprintf("%x", "hunter2")) {
			t.Errorf("a secret shows: %s", s)
		}
	}
	if h.BearerToken.String() != Hidden || (Secret{}).String() != "" || h.BearerToken.Reveal() != "hunter2" {
		t.Error("String or Reveal is wrong")
	}
}

func TestDurationsAndSizes(t *testing.T) {
	for in, want := range map[string]string{"90d": "90d", "1d12h": "36h", "1h30m": "1h30m", "500ms": "500ms", "0s": "0s", "24h": "1d", "0d": "0s"} {
		d, err := parseDuration(in)
		if err != nil || d.String() != want {
			t.Errorf("%s is %s (%v), want %s", in, d, err, want)
		}
	}
	for _, in := range []string{"", "5", "d", "-1d", "1d-1h", "1.5d", "99999d", "1d1d", "soon", "65000d2540400h"} {
		if d, err := parseDuration(in); err == nil {
			t.Errorf("%q is %s", in, d)
		}
	}
	for in, want := range map[string]string{"4MiB": "4MiB", "4 MiB": "4MiB", "512KiB": "512KiB", "1024": "1KiB", "1000": "1000", "0": "0", "2GiB": "2GiB"} {
		n, err := parseSize(in)
		if err != nil || n.String() != want {
			t.Errorf("%s is %s (%v), want %s", in, n, err, want)
		}
	}
	for _, in := range []string{"", "-1", "4MB", "4M", "1.5MiB", "9223372036854775807KiB", "MiB"} {
		if n, err := parseSize(in); err == nil {
			t.Errorf("%q is %s", in, n)
		}
	}
}

func TestReadSecret(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "token")
	for text, want := range map[string]string{"abc\n": "abc", "abc\r\n": "abc", "a b": "a b"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if s, err := ReadSecret(path); err != nil || s.Reveal() != want {
			t.Errorf("%q: %q, %v", text, s.Reveal(), err)
		}
	}
	for _, text := range []string{"", "\n", strings.Repeat("x", 70_000)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadSecret(path); err == nil {
			t.Errorf("%d bytes are taken", len(text))
		}
	}
	if _, err := ReadSecret(filepath.Join(dir, "none")); err == nil {
		t.Error("no error for no file")
	}
}

func FuzzParse(f *testing.F) {
	for _, dir := range []string{"good", "bad"} {
		paths, err := filepath.Glob(filepath.Join("testdata", dir, "*.yaml"))
		if err != nil {
			f.Fatal(err)
		}
		for _, p := range paths {
			data, err := os.ReadFile(p)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Add([]byte(DefaultYAML()))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("f.yaml", data, testEnv)
		if (c == nil) == (err == nil) {
			t.Fatalf("%v and %v", c, err)
		}
		if err != nil {
			for line := range strings.Lines(err.Error()) {
				if !strings.HasPrefix(line, "f.yaml:") || len(line) > 2000 {
					t.Fatalf("a line of the error is %q", line)
				}
			}
			return
		}
		again, err := Parse("f.yaml", data, testEnv)
		if err != nil || !cmp.Equal(c, again, cmp.AllowUnexported(Config{}, Secret{})) || len(Changed(c, again)) > 0 {
			t.Fatalf("not the same twice: %v", err)
		}
	})
}

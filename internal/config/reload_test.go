package config

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// eventually waits until ok, at most as long as a very slow machine needs.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(60 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never happened: %s", what)
		}
	}
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

type recorder struct {
	mu   sync.Mutex
	seen []string
	fail error
}

func (c *recorder) onChange(old, fresh *Config) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = append(c.seen, old.Log.Level+">"+fresh.Log.Level)
	return c.fail
}

func (c *recorder) log() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.seen)
}

func TestReload(t *testing.T) {
	path := filepath.Join(t.TempDir(), "n.yaml")
	put(t, path, "log: {level: info}\n")
	rec, logged := &recorder{}, &strings.Builder{}
	r, err := NewReloader(ReloaderOptions{Path: path, Env: testEnv, OnChange: rec.onChange, Log: zerolog.New(logged)})
	if err != nil {
		t.Fatal(err)
	}
	first := r.Stats()
	if first.Hash == "" || !first.OK || first.LastSuccess.IsZero() {
		t.Errorf("after the first load: %+v", first)
	}

	put(t, path, "log: {level: debug}\n")
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	good := r.Stats()
	if good.Applied != 1 || good.Hash == first.Hash || r.Current().Log.Level != "debug" {
		t.Errorf("after a good one: %+v", good)
	}

	put(t, path, "log: {level: loud}\nsinks: {http: [{url: 'https://x/', bearerToken: hunter2, nam: a}]}\n")
	var bad *FileError
	if err := r.Reload(); !errors.As(err, &bad) || len(bad.Problems) != 2 {
		t.Errorf("of a bad one: %v", err)
	}
	if s := r.Stats(); s.Refused != 1 || s.OK || s.Hash != good.Hash || s.LastSuccess != good.LastSuccess || r.Current().Log.Level != "debug" {
		t.Errorf("after a bad one: %+v", s)
	}

	// What is live does not change either where something else needs a restart.
	put(t, path, "log: {level: warn}\nlisten: 127.0.0.1:1\nstore: {sqlite: {path: x}, retention: 8d}\nsources: {files: [{paths: [a]}]}\n")
	var restart *NeedsRestartError
	err = r.Reload()
	if !errors.As(err, &restart) || fmt.Sprint(restart.Fields) != "[listen sources.files store.sqlite store.retention]" {
		t.Errorf("of one that needs a restart: %v", err)
	}
	if s := r.Stats(); s.NeedRestart != 1 || s.OK || s.Hash != good.Hash || r.Current().Log.Level != "debug" {
		t.Errorf("after one that needs a restart: %+v", s)
	}

	// A refusal by those who should take it over.
	rec.fail = errors.New("no")
	put(t, path, "log: {level: error}\n")
	if err := r.Reload(); !errors.Is(err, rec.fail) || r.Current().Log.Level != "debug" {
		t.Errorf("of a refusal: %v, and the level is %s", err, r.Current().Log.Level)
	}

	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := r.Reload(); !errors.Is(err, os.ErrNotExist) || r.Current().Log.Level != "debug" {
		t.Errorf("without a file: %v", err)
	}
	if got := fmt.Sprint(rec.log()); got != "[info>debug debug>error]" {
		t.Errorf("changes are %s", got)
	}
	if strings.Contains(logged.String(), "hunter2") {
		t.Errorf("a secret was logged: %s", logged)
	}
}

func TestReloadSinks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "n.yaml")
	put(t, path, "sinks: {http: [{url: 'https://x/', bearerToken: a}]}\n")
	called := 0
	r, err := NewReloader(ReloaderOptions{Path: path, Env: testEnv, OnChange: func(old, fresh *Config) error {
		if old.Sinks.HTTP[0].BearerToken.Reveal() != "a" || fresh.Sinks.HTTP[0].BearerToken.Reveal() != "b" {
			t.Error("not the secrets of the files")
		}
		called++
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	put(t, path, "sinks: {http: [{url: 'https://x/', bearerToken: b}]}\n")
	for range 2 {
		if err := r.Reload(); err != nil {
			t.Fatal(err)
		}
	}
	if called != 1 {
		t.Errorf("%d changes", called)
	}
}

func TestNoFileAndAdjust(t *testing.T) {
	r, err := NewReloader(ReloaderOptions{Adjust: func(c *Config) error { c.Cluster = "x"; return nil }})
	if err != nil || r.Current().Cluster != "x" || r.Reload() != nil {
		t.Fatalf("%v", err)
	}
	r.Watch(context.Background()) // returns at once
	no := errors.New("no")
	if _, err := NewReloader(ReloaderOptions{Adjust: func(*Config) error { return no }}); !errors.Is(err, no) {
		t.Errorf("%v", err)
	}
	if _, err := NewReloader(ReloaderOptions{Path: filepath.Join(t.TempDir(), "none")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// Whoever writes in place empties the file first: what is between is not taken over.
func TestHalfWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "n.yaml")
	whole := "log: {level: debug}\nrules:\n  disable: [node-identity]\n"
	put(t, path, whole)
	called := 0
	r, err := NewReloader(ReloaderOptions{Path: path, Env: testEnv, OnChange: func(_, _ *Config) error { called++; return nil }})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		text  string
		again bool
	}{{"", true}, {whole, false}, {"log: {level: warn}\n", true}, {"log: {level: warn}\nrul", true}, {whole, false}, {whole, false}} {
		put(t, path, step.text)
		if again := r.look(); again != step.again {
			t.Errorf("%q: again %t", step.text, again)
		}
	}
	if s := r.Stats(); called != 0 || s.Refused+s.Applied+s.NeedRestart != 0 {
		t.Errorf("%d changes, %+v", called, s)
	}
	put(t, path, "log: {level: warn}\n")
	if !r.look() || r.look() || called != 1 || r.Current().Log.Level != "warn" {
		t.Errorf("%d changes, level %s", called, r.Current().Log.Level)
	}
}

// Each way in which a file is replaced is noticed, by notifications alone and by looking alone.
func TestWatch(t *testing.T) {
	writes := map[string]func(t *testing.T, dir, text string){
		"in place": func(t *testing.T, dir, text string) { put(t, filepath.Join(dir, "n.yaml"), text) },
		"an editor's rename": func(t *testing.T, dir, text string) {
			put(t, filepath.Join(dir, ".n.yaml.swp"), text)
			if err := os.Rename(filepath.Join(dir, ".n.yaml.swp"), filepath.Join(dir, "n.yaml")); err != nil {
				t.Fatal(err)
			}
		},
		"removed and made again": func(t *testing.T, dir, text string) {
			if err := os.Remove(filepath.Join(dir, "n.yaml")); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			put(t, filepath.Join(dir, "n.yaml"), text)
		},
		"a ConfigMap's swap": configMap,
		"a link to another folder": func(t *testing.T, dir, text string) {
			there := filepath.Join(dir, "elsewhere")
			if err := os.MkdirAll(there, 0o700); err != nil {
				t.Fatal(err)
			}
			put(t, filepath.Join(there, "new"), text)
			if err := os.Rename(filepath.Join(there, "new"), filepath.Join(there, "real.yaml")); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(filepath.Join("elsewhere", "real.yaml"), filepath.Join(dir, "n.yaml")); err != nil && !errors.Is(err, os.ErrExist) {
				t.Fatal(err)
			}
		},
	}
	for name, write := range writes {
		for how, poll := range map[string]string{"notified": "1h", "polled": "1s"} {
			t.Run(name+" "+how, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				level := func(l string) string { return "reload: {poll: " + poll + "}\nlog: {level: " + l + "}\n" }
				write(t, dir, level("info"))
				r, err := NewReloader(ReloaderOptions{Path: filepath.Join(dir, "n.yaml"), Env: testEnv, Debounce: time.Millisecond})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				done := make(chan struct{})
				go func() { defer close(done); r.Watch(ctx) }()
				for _, l := range []string{"debug", "warn", "error"} {
					write(t, dir, level(l))
					eventually(t, l, func() bool { return r.Current().Log.Level == l })
				}
				write(t, dir, "nonsense: 1\n")
				eventually(t, "a refusal", func() bool { return !r.Stats().OK && r.Stats().Refused > 0 })
				if r.Current().Log.Level != "error" {
					t.Error("the bad one is in force")
				}
				write(t, dir, level("debug"))
				eventually(t, "recovery", func() bool { return r.Current().Log.Level == "debug" && r.Stats().OK })
				cancel()
				<-done
			})
		}
	}
}

// configMap writes as the kubelet does (k8s.io/kubernetes/pkg/volume/util/atomic_writer.go): n.yaml -> ..data/n.yaml, ..data -> ..<time>.
func configMap(t *testing.T, dir, text string) {
	version, err := os.MkdirTemp(dir, "..v")
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(version, "n.yaml"), text)
	old, _ := os.Readlink(filepath.Join(dir, "..data"))
	if err := os.Symlink(filepath.Base(version), filepath.Join(dir, "..data_tmp")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join("..data", "n.yaml"), filepath.Join(dir, "n.yaml")); err != nil && !errors.Is(err, os.ErrExist) {
		t.Fatal(err)
	}
	if old != "" {
		if err := os.RemoveAll(filepath.Join(dir, old)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestChangedCoversEveryKey(t *testing.T) {
	a, b := Default(), Default()
	if c := Changed(a, b); len(c) != 0 {
		t.Errorf("equal ones differ: %v", c)
	}
	a.Sinks.JSONL = []JSONLSink{}
	if c := Changed(a, b); len(c) != 0 {
		t.Errorf("no list and an empty one differ: %v", c)
	}
	b.Rules.Disable = []string{"x"}
	b.Log.Level = "debug"
	b.Log.Format = "json"
	b.Sinks.Queue.MaxBytes = 1
	b.Sources.Webhook = &Webhook{}
	got := fmt.Sprint(Changed(a, b))
	if want := "[{log.level true} {log.format false} {rules.disable true} {sources.webhook false} {sinks.queue.maxBytes true}]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

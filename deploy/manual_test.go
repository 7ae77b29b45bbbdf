package deploy

import (
	"os"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nodetrail/nodetrail/internal/config"
)

// keys are the keys below a type of the configuration, each with those before it, joined by dots.
func keys(t reflect.Type, before string) []string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	var out []string
	for i := range t.NumField() {
		f := t.Field(i)
		name, option, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case option == "inline":
			out = append(out, keys(f.Type, before)...)
		case name != "":
			out = append(out, before+name)
			out = append(out, keys(f.Type, before+name+".")...)
		}
	}
	return out
}

// What the manuals say of the configuration and of metrics is so: sections are good, and each key and metric that they name is there.
func TestManuals(t *testing.T) {
	all := keys(reflect.TypeFor[config.Config](), "")
	if len(all) < 100 || !slices.Contains(all, "sources.webhook.tls.clientNames") || !slices.Contains(all, "sinks.kafka.topic") {
		t.Fatalf("%d keys: %q", len(all), all)
	}
	metrics, err := os.ReadFile(path.Join("..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"README.md", "docs/run.md", "docs/store.md", "docs/operations.md", "docs/scale-out.md", "docs/webhook.md", "docs/troubleshooting.md"} {
		b, err := os.ReadFile(path.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		text := string(b)
		for _, section := range regexp.MustCompile("(?s)```yaml\n(.*?)\n *```").FindAllStringSubmatch(text, -1) {
			if _, err := config.Parse(name, []byte(section[1]), func(string) (string, bool) { return "", false }); err != nil {
				t.Error(err)
			}
		}
		for _, word := range regexp.MustCompile("`[a-z][A-Za-z]*(\\.[a-z][A-Za-z]*)+`").FindAllString(text, -1) {
			word = strings.Trim(word, "`")
			section, _, _ := strings.Cut(word, ".")
			if slices.Contains(all, section) && !slices.Contains(all, word) {
				t.Errorf("%s: there is no key %s", name, word)
			}
		}
		for _, metric := range regexp.MustCompile(`nodetrail_[a-z_]+[a-z]`).FindAllString(text, -1) {
			if !strings.Contains(string(metrics), "`"+metric+"`") {
				t.Errorf("%s: there is no metric %s", name, metric)
			}
		}
	}
}

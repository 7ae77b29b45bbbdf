package dashboards

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/nodetrail/nodetrail/e2e/plane"
)

func unitTests(t testing.TB) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder(t), "prometheus", "tests", "*.yaml"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no unit tests of the rules: %v", err)
	}
	return paths
}

func TestPromtool(t *testing.T) {
	promtool := plane.MustFind(t, "promtool")
	for _, args := range [][]string{
		append([]string{"check", "rules", "--lint=all", "--lint-fatal"}, ruleFiles(t)...),
		append([]string{"test", "rules"}, unitTests(t)...),
	} {
		if out, err := exec.Command(promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args[:2], " "), err, out)
		}
	}
}

// TestEachAlertIsTested: the unit tests have for each alert a moment at which it fires and one at which it does not, while something is there.
func TestEachAlertIsTested(t *testing.T) {
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, path := range unitTests(t) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var file struct {
			Tests []struct {
				Name        string
				InputSeries []struct{ Series string } `yaml:"input_series"`
				PromqlTests []struct {
					Expr    string
					Samples []struct{ Labels string } `yaml:"exp_samples"`
				} `yaml:"promql_expr_test"`
			}
		}
		if err := yaml.Unmarshal(b, &file); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, test := range file.Tests {
			for _, q := range test.PromqlTests {
				_, rest, ok := strings.Cut(q.Expr, `alertname="`)
				if !ok {
					continue
				}
				name, _, _ := strings.Cut(rest, `"`)
				if len(q.Samples) > 0 {
					fires[name] = true
				} else if len(test.InputSeries) > 0 {
					quiet[name] = true
				}
			}
		}
	}
	var names []string
	for _, r := range loadRules(t) {
		if r.Alert == "" {
			continue
		}
		names = append(names, r.Alert)
		if !fires[r.Alert] || !quiet[r.Alert] {
			t.Errorf("%s: tested where it fires: %t, where it does not: %t", r.Alert, fires[r.Alert], quiet[r.Alert])
		}
	}
	for name := range fires {
		if !slices.Contains(names, name) {
			t.Errorf("%s is tested and is no alert", name)
		}
	}
}

// TestRunbooks: the page that an alert names is there.
func TestRunbooks(t *testing.T) {
	for _, r := range loadRules(t) {
		if r.Alert == "" {
			continue
		}
		path, ok := strings.CutPrefix(r.Annotations["runbook_url"], "https://github.com/nodetrail/nodetrail/blob/main/")
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(path))); err != nil || !ok {
			t.Errorf("%s: the runbook %q: %v", r.Alert, r.Annotations["runbook_url"], err)
		}
	}
}

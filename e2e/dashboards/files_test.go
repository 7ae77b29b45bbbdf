package dashboards

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
)

// dashboard is what the tests look at in a dashboard's JSON.
type dashboard struct {
	UID        string
	Title      string
	Templating struct {
		List []struct {
			Name, Type string
			// Query is a text, or an object with the text.
			Query   json.RawMessage
			Current struct{ Value any }
		}
	}
	Panels []struct {
		Title, Type string
		Targets     []struct {
			Expr, LegendFormat string
			Range              bool
		}
	}
}

// query is one query of a dashboard, with Grafana's variables in it.
type query struct {
	where, expr, legend string
	isRange             bool
}

func folder(t testing.TB) string { return filepath.Join(root, "dashboards") }

func loadDashboards(t testing.TB) []dashboard {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder(t), "grafana", "*.json"))
	if err != nil || len(paths) != 4 {
		t.Fatalf("the dashboards are %v, %v; want four", paths, err)
	}
	var out []dashboard
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var d dashboard
		if err := json.Unmarshal(b, &d); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		out = append(out, d)
	}
	return out
}

func (d *dashboard) queries() []query {
	var out []query
	for _, p := range d.Panels {
		for i, q := range p.Targets {
			out = append(out, query{fmt.Sprintf("%s: %s, query %d", d.UID, p.Title, i+1), q.Expr, q.LegendFormat, q.Range})
		}
	}
	return out
}

// variableQueries are the queries label_values(selector, label) of the variables, by the variable.
func (d *dashboard) variableQueries(t testing.TB) map[string][2]string {
	t.Helper()
	out := map[string][2]string{}
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		var q struct{ Query string }
		if err := json.Unmarshal(v.Query, &q); err != nil {
			t.Fatal(err)
		}
		inner, ok := strings.CutPrefix(q.Query, "label_values(")
		at := strings.LastIndex(inner, ",")
		if !ok || at < 0 || !strings.HasSuffix(inner, ")") {
			t.Fatalf("%s: the variable %s has the query %q", d.UID, v.Name, q.Query)
		}
		out[v.Name] = [2]string{inner[:at], strings.TrimSpace(strings.TrimSuffix(inner[at+1:], ")"))}
	}
	return out
}

func ruleFiles(t testing.TB) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder(t), "prometheus", "*.yaml"))
	if err != nil || len(paths) != 3 {
		t.Fatalf("the rules' files are %v, %v; want alerts, findings and recording", paths, err)
	}
	return paths
}

func loadRules(t testing.TB) []rulefmt.Rule {
	t.Helper()
	var out []rulefmt.Rule
	for _, path := range ruleFiles(t) {
		groups, errs := rulefmt.ParseFile(path, false, model.UTF8Validation)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		for _, g := range groups.Groups {
			out = append(out, g.Rules...)
		}
	}
	return out
}

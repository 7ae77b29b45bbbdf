package dashboards

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/nodetrail/nodetrail/sinks/metrics"
)

// exported are the metrics that there are, with their labels: the program's, those that Prometheus makes, and recorded ones.
type exported map[string][]string

// target are the labels that the scrape configuration gives; README.md of dashboards asks for cluster.
func target() []string { return []string{"cluster", "instance", "job"} }

func metricsOf(t testing.TB) exported {
	t.Helper()
	all := exported{
		"up":     target(),
		"ALERTS": append(target(), "alertname", "alertstate", "severity", "component"),
	}
	for _, m := range metrics.All() {
		of := append(target(), m.Labels...)
		if m.Type == metrics.Histogram {
			all[m.Name+"_bucket"], all[m.Name+"_sum"], all[m.Name+"_count"] = append(slices.Clone(of), "le"), of, of
		} else {
			all[m.Name] = of
		}
	}
	families, err := metrics.New(metrics.Options{}).Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if name := f.GetName(); strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") {
			all[name] = target()
		}
	}
	return all
}

// withRecorded adds what the recording rules make.
func (all exported) withRecorded(t testing.TB) exported {
	t.Helper()
	for _, r := range loadRules(t) {
		if r.Record != "" {
			of, err := all.check(r.Expr)
			if err != nil {
				t.Errorf("%s: %v", r.Record, err)
			}
			all[r.Record] = of
		}
	}
	return all
}

// check parses a query and returns the labels that its result may have. It fails on metrics and labels that there are not.
func (all exported) check(expr string) ([]string, error) {
	e, err := parser.ParseExpr(expr)
	if err != nil {
		return nil, err
	}
	return all.labels(e)
}

func (all exported) labels(e parser.Expr) ([]string, error) {
	switch e := e.(type) {
	case *parser.VectorSelector:
		return all.selector(e)
	case *parser.MatrixSelector:
		return all.labels(e.VectorSelector)
	case *parser.SubqueryExpr:
		return all.labels(e.Expr)
	case *parser.ParenExpr:
		return all.labels(e.Expr)
	case *parser.StepInvariantExpr:
		return all.labels(e.Expr)
	case *parser.UnaryExpr:
		return all.labels(e.Expr)
	case *parser.AggregateExpr:
		return all.aggregate(e)
	case *parser.BinaryExpr:
		return all.binary(e)
	case *parser.Call:
		var out []string
		for _, arg := range e.Args {
			of, err := all.labels(arg)
			if err != nil {
				return nil, err
			}
			out = append(out, of...)
		}
		return out, nil
	case *parser.NumberLiteral, *parser.StringLiteral:
		return nil, nil
	}
	return nil, fmt.Errorf("the test does not know %T", e)
}

func (all exported) selector(e *parser.VectorSelector) ([]string, error) {
	of, ok := all[e.Name]
	if !ok {
		return nil, fmt.Errorf("no metric is called %q", e.Name)
	}
	for _, m := range e.LabelMatchers {
		if m.Name != model.MetricNameLabel && !slices.Contains(of, m.Name) {
			return nil, fmt.Errorf("%s has no label %q", e.Name, m.Name)
		}
	}
	return of, nil
}

func (all exported) aggregate(e *parser.AggregateExpr) ([]string, error) {
	of, err := all.labels(e.Expr)
	if err != nil {
		return nil, err
	}
	for _, l := range e.Grouping {
		if !slices.Contains(of, l) {
			return nil, fmt.Errorf("%s: there is no label %q", e, l)
		}
	}
	switch {
	case e.Op == parser.TOPK || e.Op == parser.BOTTOMK:
		return of, nil
	case e.Without:
		return slices.DeleteFunc(slices.Clone(of), func(l string) bool { return slices.Contains(e.Grouping, l) }), nil
	}
	return e.Grouping, nil
}

func (all exported) binary(e *parser.BinaryExpr) ([]string, error) {
	left, err := all.labels(e.LHS)
	if err != nil {
		return nil, err
	}
	right, err := all.labels(e.RHS)
	if err != nil {
		return nil, err
	}
	if e.VectorMatching != nil {
		for _, l := range slices.Concat(e.VectorMatching.MatchingLabels, e.VectorMatching.Include) {
			if !slices.Contains(left, l) && !slices.Contains(right, l) {
				return nil, fmt.Errorf("%s: there is no label %q", e, l)
			}
		}
	}
	if e.Op == parser.LOR || e.LHS.Type() == parser.ValueTypeScalar {
		return append(slices.Clone(left), right...), nil
	}
	return left, nil
}

var variable = regexp.MustCompile(`\$\{?(\w+)\}?`)

// fill puts values in place of Grafana's variables.
func fill(expr string, values map[string]string) (string, error) {
	var unknown string
	out := variable.ReplaceAllStringFunc(expr, func(s string) string {
		name := variable.FindStringSubmatch(s)[1]
		v, ok := values[name]
		if !ok {
			unknown = name
		}
		return v
	})
	if unknown != "" {
		return "", fmt.Errorf("the dashboard has no variable %q", unknown)
	}
	return out, nil
}

// examples are values for the dashboard's variables.
func (d *dashboard) examples() map[string]string {
	out := map[string]string{"__rate_interval": "1m", "__range": "1h", "__interval": "1m"}
	for _, v := range d.Templating.List {
		out[v.Name] = ".*"
		if s, ok := v.Current.Value.(string); ok && v.Type == "custom" {
			out[v.Name] = s
		}
	}
	return out
}

func TestQueries(t *testing.T) {
	all := metricsOf(t).withRecorded(t)
	for _, d := range loadDashboards(t) {
		values := d.examples()
		for _, q := range d.queries() {
			expr, err := fill(q.expr, values)
			if err != nil {
				t.Errorf("%s: %v", q.where, err)
				continue
			}
			of, err := all.check(expr)
			if err != nil {
				t.Errorf("%s: %s: %v", q.where, expr, err)
				continue
			}
			for _, m := range regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`).FindAllStringSubmatch(q.legend, -1) {
				if !slices.Contains(of, m[1]) {
					t.Errorf("%s: the legend names %q, which the result of %s does not have", q.where, m[1], expr)
				}
			}
		}
		for name, q := range d.variableQueries(t) {
			selector, err := fill(q[0], values)
			if err != nil {
				t.Errorf("%s: %s: %v", d.UID, name, err)
				continue
			}
			if of, err := all.check(selector); err != nil || !slices.Contains(of, q[1]) {
				t.Errorf("%s: the variable %s asks for the label %q of %s: %v", d.UID, name, q[1], selector, err)
			}
		}
	}
}

// TestAlerts: queries, and the labels in the texts.
func TestAlerts(t *testing.T) {
	all := metricsOf(t).withRecorded(t)
	seen := map[string]bool{}
	for _, r := range loadRules(t) {
		if r.Alert == "" {
			continue
		}
		if seen[r.Alert] {
			t.Errorf("%s is there twice", r.Alert)
		}
		seen[r.Alert] = true
		of, err := all.check(r.Expr)
		if err != nil {
			t.Errorf("%s: %v", r.Alert, err)
			continue
		}
		of = slices.AppendSeq(slices.Clone(of), maps.Keys(r.Labels))
		if !slices.Contains(of, "cluster") || !slices.Contains(of, "severity") || r.Labels["component"] != "nodetrail" {
			t.Errorf("%s has the labels %v, and lacks one of cluster, severity and component=nodetrail", r.Alert, of)
		}
		for name, text := range r.Annotations {
			for _, m := range regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(text, -1) {
				if !slices.Contains(of, m[1]) {
					t.Errorf("%s: the %s names the label %q, which it does not have", r.Alert, name, m[1])
				}
			}
		}
	}
}

// TestCheckItself: what the two tests above must not let through.
func TestCheckItself(t *testing.T) {
	all := metricsOf(t)
	f := func(expr, want string) {
		t.Helper()
		if _, err := all.check(expr); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", expr, err, want)
		}
	}
	f(`nodetrail_no_such_metric_total`, "no metric")
	f(`nodetrail_commit_seconds`, "no metric") // a histogram has only its parts
	f(`nodetrail_commit_seconds_total`, "no metric")
	f(`sum by (cluster) (rate(nodetrail_commit_failures_total{sink="x"}[5m]))`, `no label "sink"`)
	f(`sum by (node) (rate(nodetrail_findings_total[5m]))`, `no label "node"`)
	f(`sum by (le) (rate(nodetrail_commit_seconds_sum[5m]))`, `no label "le"`)
	f(`sum by (cluster) (nodetrail_source_up) / on (source) nodetrail_queue_bytes`, `no label "source"`)
	f(`sum(rate(nodetrail_findings_total[5m])`, "unclosed")
	f(`up and nodetrail_sourc_up`, "no metric")
}

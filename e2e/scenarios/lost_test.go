package scenarios

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/nodetrail/nodetrail/e2e/plane"
)

// checkAlerts is a Prometheus that scrapes nodetrail and evaluates its alerts.
type checkAlerts struct {
	w   *world
	api string
}

// watchChecks starts one.
func (w *world) watchChecks(t *testing.T) *checkAlerts {
	t.Helper()
	dir, listen := t.TempDir(), plane.MustAddress(t)
	rules := plane.Must(filepath.Abs(filepath.Join("..", "..", "dashboards", "prometheus", "*.yaml")))(t)
	config := filepath.Join(dir, "prometheus.yml")
	plane.Check(t, os.WriteFile(config, fmt.Appendf(nil, `
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs:
  - job_name: nodetrail
    static_configs: [{targets: [%q], labels: {cluster: test}}]
`, rules, w.trail.Listen), 0o600))
	work.MustStart(t, "prometheus-"+w.name, plane.MustFind(t, "prometheus"), "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "tsdb"), "--web.listen-address="+listen)
	return &checkAlerts{w, "http://" + listen + "/api/v1/query?query="}
}

// figures are what the metrics of nodetrail say: whether nothing-depends fails, whether it is lost, and whether the answer is ready.
func (p *checkAlerts) figures() ([3]float64, error) {
	m, err := p.w.trail.Metrics()
	if err != nil {
		return [3]float64{}, err
	}
	return [3]float64{
		m.Sum("nodetrail_check", "check=nothing-depends", "state=failed"), m.Sum("nodetrail_check_lost", "check=nothing-depends", "question=ready"),
		m.Sum("nodetrail_answer", "question=ready", "answer=ready"),
	}, nil
}

// ready waits until the metrics say ready. An earlier loss is reported for some minutes more.
func (p *checkAlerts) ready(t *testing.T) {
	t.Helper()
	p.w.eventually(t, "the metrics say ready", func() error {
		got, err := p.figures()
		if err == nil && (got[0] != 0 || got[2] != 1) {
			err = fmt.Errorf("failed, lost, ready: %g", got)
		}
		return err
	})
}

// firing waits until the metrics say that a check that had passed fails, and the alert of Prometheus fires.
func (p *checkAlerts) firing(t *testing.T) {
	t.Helper()
	p.w.eventually(t, "NodetrailReadinessLost fires", func() error {
		got, err := p.figures()
		if err != nil {
			return err
		}
		if got != [3]float64{1, 1, 0} {
			return fmt.Errorf("failed, lost, ready: %g", got)
		}
		n, err := p.count(`ALERTS{alertname="NodetrailReadinessLost", alertstate="firing", check="nothing-depends"}`)
		if err == nil && n != 1 {
			err = fmt.Errorf("%d alerts fire", n)
		}
		return err
	})
}

// count is how many series a query has.
func (p *checkAlerts) count(query string) (n int, err error) {
	resp, err := http.Get(p.api + url.QueryEscape(query))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	var answer struct {
		Data struct{ Result []json.RawMessage }
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return 0, err
	}
	return len(answer.Data.Result), nil
}

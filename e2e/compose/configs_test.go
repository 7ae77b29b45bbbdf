package compose

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/types"
	amconfig "github.com/prometheus/alertmanager/config"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/model/rulefmt"
	"go.yaml.in/yaml/v3"
)

// serves are the ports that services listen on.
func serves() map[string]bool {
	return map[string]bool{
		"kafka:9092": true, "nodetrail:9876": true, "prometheus:9090": true, "alertmanager:9093": true, "grafana:3000": true,
		"localhost:9090": true, // Prometheus itself
	}
}

// TestPrometheus loads its configuration with its own code, and the rules that it names.
func TestPrometheus(t *testing.T) {
	s, c := prometheus(t)
	if files := ruleFiles(t, s, c); len(files) < 2 {
		t.Errorf("rules in %q", files)
	}
	seen := map[string]bool{}
	check := func(what string, sd discovery.Configs) {
		for _, d := range sd {
			static, ok := d.(discovery.StaticConfig)
			if !ok {
				t.Errorf("%s: targets of %s", what, d.Name())
				continue
			}
			for _, group := range static {
				for _, target := range group.Targets {
					address := string(target["__address__"])
					seen[address] = true
					if !serves()[address] {
						t.Errorf("%s: nobody serves %s", what, address)
					}
				}
			}
		}
	}
	for _, sc := range c.ScrapeConfigs {
		check(sc.JobName, sc.ServiceDiscoveryConfigs)
	}
	for _, am := range c.AlertingConfig.AlertmanagerConfigs {
		check("alertmanagers", am.ServiceDiscoveryConfigs)
	}
	if !seen["nodetrail:9876"] || !seen["alertmanager:9093"] {
		t.Errorf("targets %v", seen)
	}
}

// ruleFiles are the files of the repository that Prometheus reads rules from, which it must understand.
func ruleFiles(t *testing.T, s types.ServiceConfig, c *config.Config) []string {
	t.Helper()
	var all []string
	for _, pattern := range c.RuleFiles {
		files, err := filepath.Glob(inRepository(t, s, pattern))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, files...)
	}
	for _, path := range all {
		groups, errs := rulefmt.ParseFile(path, false, model.UTF8Validation)
		if len(errs) > 0 || len(groups.Groups) == 0 {
			t.Errorf("%s: %v", path, errs)
		}
	}
	return all
}

// prometheus is its configuration.
func prometheus(t *testing.T) (types.ServiceConfig, *config.Config) {
	t.Helper()
	s := load(t).Services["prometheus"]
	c, err := config.LoadFile(inRepository(t, s, flag(t, s.Command, "--config.file")), false, promslog.NewNopLogger())
	if err != nil {
		t.Fatal(err)
	}
	return s, c
}

// TestAlertmanager loads its configuration with its own code.
func TestAlertmanager(t *testing.T) {
	s := load(t).Services["alertmanager"]
	c, err := amconfig.LoadFile(inRepository(t, s, flag(t, s.Command, "--config.file")))
	if err != nil {
		t.Fatal(err)
	}
	if c.Route == nil || len(c.Receivers) == 0 {
		t.Errorf("route %v, receivers %v", c.Route, c.Receivers)
	}
}

// decode reads a YAML file strictly.
func decode(t *testing.T, path string, into any) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d := yaml.NewDecoder(f)
	d.KnownFields(true)
	if err := d.Decode(into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// TestGrafana holds the provisioning to what Grafana reads: one source of data, and dashboards from the mounted folder.
func TestGrafana(t *testing.T) {
	s := load(t).Services["grafana"]
	var sources struct {
		APIVersion  int `yaml:"apiVersion"`
		Datasources []struct {
			Name, UID, Type, Access, URL string
			IsDefault                    bool `yaml:"isDefault"`
			Editable                     bool
			JSONData                     map[string]any `yaml:"jsonData"`
		}
	}
	decode(t, inRepository(t, s, "/etc/grafana/provisioning/datasources/prometheus.yaml"), &sources)
	if len(sources.Datasources) != 1 || sources.APIVersion != 1 {
		t.Fatalf("%+v", sources)
	}
	d := sources.Datasources[0]
	if u, err := url.Parse(d.URL); err != nil || !serves()[u.Host] || d.Type != "prometheus" || d.UID != "prometheus" || !d.IsDefault {
		t.Errorf("%+v", d)
	}
	var providers struct {
		APIVersion int `yaml:"apiVersion"`
		Providers  []struct {
			Name, Folder, Type string
			DisableDeletion    bool `yaml:"disableDeletion"`
			AllowUIUpdates     bool `yaml:"allowUiUpdates"`
			Options            struct{ Path string }
		}
	}
	decode(t, inRepository(t, s, "/etc/grafana/provisioning/dashboards/nodetrail.yaml"), &providers)
	if len(providers.Providers) != 1 || providers.Providers[0].Type != "file" {
		t.Fatalf("%+v", providers)
	}
	files, err := filepath.Glob(filepath.Join(inRepository(t, s, providers.Providers[0].Options.Path), "*.json"))
	if err != nil || len(files) < 4 {
		t.Errorf("dashboards %q, %v", files, err)
	}
	if home := s.Environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]; home == nil || !exists(inRepository(t, s, *home)) {
		t.Errorf("the first page %v is not there", home)
	}
}

// TestWiring: what one service calls another is what that one is called, and it is waited for.
func TestWiring(t *testing.T) {
	p := load(t)
	var c struct {
		Listen  string
		Sources struct {
			Kafka struct{ Brokers, Topics []string }
		}
		State struct{ Files []string }
		Sinks struct{ Alertmanager []struct{ URLs []string } }
	}
	s := p.Services["nodetrail"]
	text, err := os.ReadFile(inRepository(t, s, flag(t, s.Command, "--config")))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &c); err != nil { // nodetrail config check looks at the rest
		t.Fatal(err)
	}
	play := p.Services["player"]
	if got, want := c.Sources.Kafka.Brokers, []string{flag(t, play.Command, "--brokers")}; got[0] != want[0] || !serves()[got[0]] {
		t.Errorf("brokers %q of nodetrail, %q of the player", got, want)
	}
	if c.Sources.Kafka.Topics[0] != flag(t, play.Command, "--topic") || flag(t, p.Services["topic"].Command, "--topic") != c.Sources.Kafka.Topics[0] {
		t.Errorf("topics %q", c.Sources.Kafka.Topics)
	}
	if c.State.Files[0] != flag(t, play.Command, "--journal") {
		t.Errorf("the state is read from %q, and written to %s", c.State.Files, flag(t, play.Command, "--journal"))
	}
	if d := s.DependsOn["player"]; d.Condition != types.ServiceConditionHealthy {
		t.Errorf("nodetrail does not wait for the journal: %+v", d)
	}
	for _, am := range c.Sinks.Alertmanager {
		for _, address := range am.URLs {
			if u, err := url.Parse(address); err != nil || !serves()[u.Host] {
				t.Errorf("nobody serves %s: %v", address, err)
			}
		}
	}
	for name, service := range p.Services { // the table above says what is so
		for _, port := range service.Ports {
			if target := net.JoinHostPort(name, port.Published); !serves()[target] || strings.TrimSpace(port.Published) == "" {
				t.Errorf("%s publishes %s", name, port.Published)
			}
		}
	}
}

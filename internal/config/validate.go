package config

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nodetrail/nodetrail/internal/loopback"
	"github.com/nodetrail/nodetrail/nodeadmission"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/rules"
)

func (v *validator) all() {
	c := v.c
	v.unread = len(v.d.errs.Problems)
	v.text("cluster", c.Cluster)
	v.text("instance", c.Instance)
	v.need("data", c.Data)
	v.listen("listen", c.Listen)
	if c.Health != "" {
		v.listen("health", c.Health)
	}
	if c.Pprof != "" && v.listen("pprof", c.Pprof) && !loopback.Address(c.Pprof) {
		v.fail("pprof", "%s is not a loopback address such as 127.0.0.1:6060: profiles show what is in memory", v.q("pprof", c.Pprof))
	}
	v.pages()
	v.authorization()
	v.rules()
	v.readiness()
	v.waivers()
	v.exceptions()
	v.coverage()
	v.state()
	v.sources()
	if g := c.Gateway; g != nil {
		v.webhook("gateway.webhook", &g.Webhook)
		v.producer("gateway.kafka", &g.Kafka)
	}
	v.store()
	v.sinks()
}

func (v *validator) authorization() {
	a := &v.c.Authorization
	v.mode(a.Mode)
	if _, err := nearest(a.KubernetesVersion); err != nil {
		if v.d.raw["authorization.kubernetesVersion"] != "" {
			err = fmt.Errorf("the variable's value is not a version such as 1.%d", nodeauthz.NewestMinor)
		}
		v.fail("authorization.kubernetesVersion", "%v", err)
		return
	}
	if a.KubernetesVersion == "" && a.Newest() != "" {
		return // the cluster says at the start which version it is, or the log does
	}
	_, wrong := a.features(a.KubernetesVersion)
	for _, e := range wrong {
		v.fail("authorization.featureGates"+e.key, "%v", e.err)
	}
}

// Newest is the newest minor, such as 1.36, that has the feature gates and can have them so; empty if there is none.
func (a *Authorization) Newest() string {
	for minor := nodeauthz.NewestMinor; minor >= nodeauthz.OldestMinor; minor-- {
		version := fmt.Sprintf("1.%d", minor)
		if _, wrong := a.features(version); len(wrong) == 0 {
			return version
		}
	}
	return ""
}

// nearest are the features of a version, or of the nearest that is supported; empty is the newest.
func nearest(version string) (nodeauthz.Features, error) {
	if version == "" {
		return nodeauthz.FeaturesFor("")
	}
	f, _, err := nodeauthz.Nearest(version)
	return f, err
}

// Features are those of the version, or of the one given where none is configured, with the feature gates. Of a version that is not supported they
// are the nearest's.
func (a *Authorization) Features(known string) (nodeauthz.Features, error) {
	version := cmp.Or(a.KubernetesVersion, known)
	if f, err := nearest(version); err != nil {
		return f, fmt.Errorf("authorization.kubernetesVersion: %w", err)
	}
	f, wrong := a.features(version)
	switch {
	case len(wrong) == 0:
		return f, nil
	case wrong[0].key == "":
		return f, wrong[0].err
	}
	return f, fmt.Errorf("authorization.featureGates: %w", wrong[0].err)
}

// wrongGate is a gate, or all of them together, that a version does not have or cannot have so.
type wrongGate struct {
	key string // with the dot before it
	err error
}

// features are those of a version with the feature gates, but for what is wrong with these.
func (a *Authorization) features(version string) (features nodeauthz.Features, wrong []wrongGate) {
	features, err := nearest(version)
	if err != nil {
		return features, []wrongGate{{"", err}}
	}
	for _, name := range slices.Sorted(maps.Keys(a.FeatureGates)) {
		if err := SetGate(&features, name, a.FeatureGates[name]); err != nil {
			if s := meant(name, GateNames()); s != "" && s != name {
				err = fmt.Errorf("%w: did you mean %s?", err, s)
			}
			wrong = append(wrong, wrongGate{"." + shown(name), err})
		}
	}
	if err := features.Validate(); len(wrong) == 0 && err != nil {
		wrong = append(wrong, wrongGate{"", err})
	}
	return features, wrong
}

// GateNames are the feature gates that matter, to the Node authorizer or to the admission plugin NodeRestriction, sorted.
func GateNames() []string {
	names := slices.Concat(nodeauthz.GateNames(), nodeadmission.GateNames())
	slices.Sort(names)
	return slices.Compact(names)
}

// SetGate sets a gate of the Node authorizer's. One of the plugin's alone is checked against the version only.
func SetGate(f *nodeauthz.Features, name string, on bool) error {
	if slices.Contains(nodeauthz.GateNames(), name) {
		return f.Set(name, on)
	}
	if all := GateNames(); !slices.Contains(all, name) {
		return nodeauthz.UnknownGate(name, all)
	}
	v, err := nodeadmission.VersionOf(f.Version())
	if err != nil {
		return err
	}
	return v.SetGate(name, on)
}

// mode checks the value of kube-apiserver's flag --authorization-mode.
func (v *validator) mode(mode string) {
	if mode == "auto" {
		return
	}
	known := []string{"Node", "RBAC", "Webhook", "ABAC", "AlwaysAllow", "AlwaysDeny"}
	given := strings.Split(mode, ",")
	for i, name := range given {
		switch {
		case !slices.Contains(known, name):
			text := fmt.Sprintf("%s is neither auto nor a list of %s", v.q("authorization.mode", mode), strings.Join(known, ", "))
			if s := meant(name, known); s != "" {
				text += fmt.Sprintf(": did you mean %s?", s)
			}
			v.fail("authorization.mode", "%s", text)
			return
		case slices.Contains(given[:i], name):
			v.fail("authorization.mode", "%s is there twice", name)
			return
		}
	}
}

func (v *validator) rules() {
	all := rules.Names()
	v.distinct("rules.disable", v.c.Rules.Disable)
	for i, name := range v.c.Rules.Disable {
		if name == "" || slices.Contains(all, name) {
			continue
		}
		text := "the rules are " + strings.Join(all, ", ")
		if s := meant(name, all); s != "" {
			text = fmt.Sprintf("did you mean %s?", s)
		}
		at := fmt.Sprintf("rules.disable[%d]", i)
		v.fail(at, "there is no rule %s: %s", v.q(at, name), text)
	}
	v.distinct("rules.files", v.c.Rules.Files)
	v.distinct("bootstrap.trusted", v.c.Bootstrap.Trusted)
	v.distinct("rules.kubeletUserAgents", v.c.Rules.KubeletUserAgents)
	for i, name := range v.c.Rules.KubeletUserAgents {
		if name != "" && rules.Product(name) != name {
			at := fmt.Sprintf("rules.kubeletUserAgents[%d]", i)
			v.fail(at, "%s must be the first word of a user agent without its version, such as kubelet", v.q(at, name))
		}
	}
}

func (v *validator) readiness() {
	v.distinct("readiness.keep", v.c.Readiness.Keep)
	for i, name := range v.c.Readiness.Keep {
		if _, err := rbac.ParseBindingRef(name); name != "" && err != nil {
			at := fmt.Sprintf("readiness.keep[%d]", i)
			v.fail(at, "%s is none of clusterrolebinding/NAME, rolebinding/NAMESPACE/NAME", v.q(at, name))
		}
	}
}

func (v *validator) state() {
	s := &v.c.State
	v.distinct("state.files", s.Files)
	if !s.Live.Enabled {
		for _, f := range []struct{ path, value string }{{"state.live.kubeconfig", s.Live.Kubeconfig}, {"state.live.context", s.Live.Context}} {
			if f.value != "" {
				v.fail(f.path, "it says which cluster to watch, and state.live.enabled is false")
			}
		}
	}
	if !s.Live.Enabled && len(s.Files) == 0 && !s.FromAudit {
		v.fail("state", "there is no state at all, so that every verdict would be unknown: set live.enabled, files or fromAudit")
	}
	if w := v.c.Sources.Webhook; w != nil && s.WaitAtMost >= w.CommitTimeout && !follow(v, "state.waitAtMost", &s.WaitAtMost, w.CommitTimeout*4/5) {
		v.fail("state.waitAtMost", "%s is not less than sources.webhook.commitTimeout, which is %s: a request that waits would be answered 503 and never stored",
			s.WaitAtMost, w.CommitTimeout)
	}
	if w := v.c.Sources.Webhook; w != nil && v.c.Skew >= w.CommitTimeout {
		v.fail("skew", "%s is not less than sources.webhook.commitTimeout, which is %s: each request waits for it, and would be answered 503",
			v.c.Skew, w.CommitTimeout)
	}
	if s.Settle > s.WaitAtMost && !follow(v, "state.settle", &s.Settle, s.WaitAtMost) {
		v.fail("state.settle", "%s is more than state.waitAtMost, which is %s", s.Settle, s.WaitAtMost)
	}
}

func (v *validator) sources() {
	s := &v.c.Sources
	var before []string
	for i := range s.Files {
		at := fmt.Sprintf("sources.files[%d].paths", i)
		v.atLeastOne(at, s.Files[i].Paths)
		for j, p := range s.Files[i].Paths {
			if _, err := filepath.Match(p, ""); err != nil {
				this := fmt.Sprintf("%s[%d]", at, j)
				v.fail(this, "%s is not a pattern: a [ or a \\ is not ended", v.q(this, p))
			}
			if p != "" && slices.Contains(before, p) {
				this := fmt.Sprintf("%s[%d]", at, j)
				v.fail(this, "%s is in another entry too: each log is read once", v.q(this, p))
			}
		}
		before = append(before, s.Files[i].Paths...)
	}
	if s.Webhook != nil {
		v.webhook("sources.webhook", s.Webhook)
	}
	if k := s.Kafka; k != nil {
		v.brokers("sources.kafka", k.Brokers, &k.TLS, &k.SASL)
		v.atLeastOne("sources.kafka.topics", k.Topics)
		for i, t := range k.Topics {
			v.topic(fmt.Sprintf("sources.kafka.topics[%d]", i), t)
			if t != "" && t == k.DeadLetterTopic {
				v.fail("sources.kafka.deadLetterTopic", "%s is one of the topics that are read: it would feed itself", v.q("sources.kafka.deadLetterTopic", t))
			}
		}
		if k.Group == "" {
			v.fail("sources.kafka.group", "a value is needed: the consumer group that shares the topics")
		}
		v.text("sources.kafka.group", k.Group)
		v.topic("sources.kafka.deadLetterTopic", k.DeadLetterTopic)
	}
}

func (v *validator) webhook(at string, w *Webhook) {
	v.text(at+".name", w.Name)
	v.need(at+".name", w.Name)
	if !strings.HasPrefix(w.Path, "/") || strings.ContainsAny(w.Path, "?# {}") {
		v.fail(at+".path", "%s is not a path such as /audit", v.q(at+".path", w.Path))
	}
	t := &w.TLS
	v.pair(at+".tls.", t.CertFile, t.KeyFile)
	if t.CertFile == "" && t.ClientCAFile != "" {
		v.fail(at+".tls.clientCAFile", "client certificates need tls.certFile and tls.keyFile")
	}
	if len(t.ClientNames) > 0 && t.ClientCAFile == "" {
		v.fail(at+".tls.clientNames", "names of clients need tls.clientCAFile")
	}
	v.distinct(at+".tls.clientNames", t.ClientNames)
	if w.MaxInFlightBytes < 6*w.MaxBodyBytes && !follow(v, at+".maxInFlightBytes", &w.MaxInFlightBytes, 6*w.MaxBodyBytes) {
		v.fail(at+".maxInFlightBytes", "%s is less than six times maxBodyBytes, which is %s: one request may need so much", w.MaxInFlightBytes, w.MaxBodyBytes)
	}
	if !v.listen(at+".listen", w.Listen) || loopback.Address(w.Listen) {
		return
	}
	switch {
	case t.CertFile == "":
		v.fail(at+".listen", "%s can be reached from other machines: set tls.certFile and tls.keyFile, or listen on 127.0.0.1", v.q(at+".listen", w.Listen))
	case t.ClientCAFile == "" && w.BearerTokenFile == "":
		v.fail(at+".listen", "%s can be reached from other machines: set tls.clientCAFile or bearerTokenFile, or listen on 127.0.0.1", v.q(at+".listen", w.Listen))
	}
}

func (v *validator) brokers(at string, brokers []string, t *ClientTLS, s *SASL) {
	v.atLeastOne(at+".brokers", brokers)
	for i, b := range brokers {
		host, port, err := net.SplitHostPort(b)
		n, perr := strconv.ParseUint(port, 10, 16)
		if b != "" && (err != nil || perr != nil || n == 0 || host == "" || strings.Contains(host, "/")) {
			this := fmt.Sprintf("%s.brokers[%d]", at, i)
			v.fail(this, "%s is not an address such as kafka-0:9092", v.q(this, b))
		}
	}
	v.clientTLS(at+".tls", t)
	if s.Mechanism == "" {
		if s.Username != "" || s.Password.IsSet() || s.PasswordFile != "" {
			v.fail(at+".sasl.mechanism", "a value is needed: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512")
		}
		return
	}
	v.need(at+".sasl.username", s.Username)
	v.onePassword(at+".sasl.", "password", s.Password, s.PasswordFile, true)
	if s.Mechanism == "PLAIN" && !t.Enabled && !allLoopback(brokers) {
		v.fail(at+".sasl.mechanism", "PLAIN shows the password to the network: set tls.enabled, or use SCRAM-SHA-512")
	}
}

func (v *validator) clientTLS(at string, t *ClientTLS) {
	v.pair(at+".", t.CertFile, t.KeyFile)
	if !t.Enabled && (t.CAFile != "" || t.CertFile != "" || t.ServerName != "") {
		v.fail(at+".enabled", "it is false, and other keys of tls are set")
	}
}

// topic checks the name of a Kafka topic, by org.apache.kafka.common.internals.Topic.
func (v *validator) topic(path, name string) {
	bad := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r)
	}
	if name == "." || name == ".." || len(name) > 249 || strings.ContainsFunc(name, bad) {
		v.fail(path, "%s is not a topic: letters, digits, '.', '_' and '-' are allowed, at most 249", v.q(path, name))
	}
}

func (v *validator) producer(at string, k *KafkaProducer) {
	v.brokers(at, k.Brokers, &k.TLS, &k.SASL)
	v.need(at+".topic", k.Topic)
	v.topic(at+".topic", k.Topic)
}

// schemaName is a name of PostgreSQL that needs no quotes.
var schemaName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]{0,62}$`)

func (v *validator) store() {
	s := &v.c.Store
	if s.SQLite != nil && s.Postgres != nil {
		v.fail("store.postgres", "store.sqlite is set too: only one of them is allowed")
	}
	if p := s.Postgres; p != nil {
		v.onePassword("store.postgres.", "dsn", p.DSN, p.DSNFile, true)
		if v.checks.DSN != nil && p.DSN.IsSet() {
			if err := v.checks.DSN(p.DSN.Reveal()); err != nil {
				v.fail("store.postgres.dsn", "%v", err)
			}
		}
		if p.Schema != "" && !schemaName.MatchString(p.Schema) {
			v.fail("store.postgres.schema", "%s is not a schema: letters, digits and _ are allowed, at most 63, and no digit first", v.q("store.postgres.schema", p.Schema))
		}
	}
	v.step()
	if s.Hourly > s.Retention && !follow(v, "store.hourly", &s.Hourly, s.Retention) {
		v.fail("store.hourly", "%s is more than store.retention, which is %s", s.Hourly, s.Retention)
	}
}

func (v *validator) sinks() {
	s := &v.c.Sinks
	v.sinkFiles()
	called := map[string]bool{}
	for i := range s.JSONL {
		called[s.JSONL[i].Path] = true
	}
	for i := range s.Alertmanager {
		a := &s.Alertmanager[i]
		at := fmt.Sprintf("sinks.alertmanager[%d]", i)
		v.text(at+".name", a.Name)
		if a.Name == "" {
			a.Name = "alertmanager"
		}
		v.unique(at+".name", a.Name, called)
		v.alertmanager(at, a)
	}
	for i := range s.HTTP {
		h := &s.HTTP[i]
		at := fmt.Sprintf("sinks.http[%d]", i)
		v.text(at+".name", h.Name)
		if u, err := url.Parse(h.URL); h.Name == "" && err == nil {
			h.Name = u.Host
		}
		v.unique(at+".name", h.Name, called)
		v.http(at, h)
	}
	for i := range s.Kafka {
		k := &s.Kafka[i]
		at := fmt.Sprintf("sinks.kafka[%d]", i)
		v.text(at+".name", k.Name)
		if k.Name == "" {
			k.Name = k.Topic
		}
		v.unique(at+".name", k.Name, called)
		v.producer(at, &k.KafkaProducer)
		if src := v.c.Sources.Kafka; src != nil && slices.Contains(src.Topics, k.Topic) {
			v.fail(at+".topic", "%s is one of the topics that sources.kafka reads", v.q(at+".topic", k.Topic))
		}
	}
}

func (v *validator) http(at string, h *HTTPSink) {
	secrets := v.credentials(at, &credentials{h.Username, h.PasswordFile, h.BearerTokenFile, h.Password, h.BearerToken})
	for _, name := range slices.Sorted(maps.Keys(h.Headers)) {
		v.header(at+".headers."+shown(name), name, h.Headers[name])
	}
	v.clientTLS(at+".tls", &h.TLS)
	v.link(at+".externalURL", h.ExternalURL)
	v.address(at+".url", h.URL, "https://receiver/findings", secrets || len(h.Headers) > 0, h.TLS.Enabled)
}

// header checks the name of a header that is sent along.
func (v *validator) header(path, name string, value Secret) {
	token := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	}
	taken := []string{"authorization", "host", "content-type", "content-length", "content-encoding", "transfer-encoding", "connection"}
	switch {
	case name == "" || strings.ContainsFunc(name, token):
		v.fail(path, "this is not the name of a header")
	case slices.Contains(taken, strings.ToLower(name)):
		v.fail(path, "nodetrail sets this header itself")
	case strings.ContainsAny(value.Reveal(), "\r\n\x00"):
		v.fail(path, "the value of a header is one line")
	}
}

// Package config is the one configuration file of `nodetrail run` and `nodetrail gateway`.
//
// What goes in: YAML, and the environment for ${VARIABLES}. What comes out: a [Config] that is complete and consistent, or [FileError], which
// name the line and the field of each thing that is wrong; and a [Reloader], which keeps the last good one in force. Other packages have
// options of their own and never see this one: app translates. The package imports nodeauthz and rules, for their names, and internal/loopback.
//
// The defaults are in defaults.yaml, with a comment for each key; a test holds them equal to those of [Default].
package config

import (
	_ "embed"
	"time"

	"github.com/nodetrail/nodetrail/rules"
)

//go:embed defaults.yaml
var defaultYAML string

// DefaultYAML is the documented file of defaults: it lists every key, and loads as [Default].
func DefaultYAML() string { return defaultYAML }

// Config is a whole configuration. Keys tagged live can change while the program runs; all others need a restart. Tags min, max and
// oneof bound values.
type Config struct {
	Cluster       string        `yaml:"cluster"`
	Instance      string        `yaml:"instance"`
	Data          string        `yaml:"data"`
	Listen        string        `yaml:"listen"`
	Health        string        `yaml:"health"`
	Pprof         string        `yaml:"pprof"`
	Pages         Pages         `yaml:"pages"`
	Log           Log           `yaml:"log"`
	Reload        Reload        `yaml:"reload"`
	Authorization Authorization `yaml:"authorization"`
	Skew          Duration      `yaml:"skew" min:"0s" max:"10m"`
	Rules         Rules         `yaml:"rules" live:"true"`
	Bootstrap     Bootstrap     `yaml:"bootstrap" live:"true"`
	Readiness     Readiness     `yaml:"readiness" live:"true"`
	Exceptions    []Exception   `yaml:"exceptions" live:"true"`
	Waivers       []Waiver      `yaml:"waivers" live:"true"`
	Coverage      Coverage      `yaml:"coverage"`
	State         State         `yaml:"state"`
	Sources       Sources       `yaml:"sources"`
	Gateway       *Gateway      `yaml:"gateway"`
	Pipeline      Pipeline      `yaml:"pipeline"`
	Store         Store         `yaml:"store"`
	Metrics       Metrics       `yaml:"metrics"`
	Sinks         Sinks         `yaml:"sinks" live:"true"`

	own    rules.Own // those of Rules.Files, once they were read
	ownSum string
	hash   string // tells versions of the file apart; "" for the embedded default
}

// Log is what is logged to standard error.
type Log struct {
	Level  string `yaml:"level" oneof:"debug|info|warn|error" live:"true"`
	Format string `yaml:"format" oneof:"auto|json|console"`
}

// Reload is how the file itself is watched.
type Reload struct {
	Watch     bool     `yaml:"watch"`
	Poll      Duration `yaml:"poll" min:"1s" max:"1h"`
	TokenFile string   `yaml:"tokenFile"`
}

// Authorization is how the API server decides.
type Authorization struct {
	Mode              string          `yaml:"mode"`
	KubernetesVersion string          `yaml:"kubernetesVersion"`
	FeatureGates      map[string]bool `yaml:"featureGates"`
}

// Rules are the rules' settings.
type Rules struct {
	Disable           []string `yaml:"disable"`
	Files             []string `yaml:"files"`
	KubeletUserAgents []string `yaml:"kubeletUserAgents"`
	Lateness          Duration `yaml:"lateness" min:"10s" max:"1h"`
}

// Bootstrap is what is usual when nodes join.
type Bootstrap struct {
	Trusted   []string `yaml:"trusted"`
	SingleUse bool     `yaml:"singleUse"`
	MaxNodes  int      `yaml:"maxNodes" min:"1" max:"5000"`
}

// Readiness is what it takes to be ready.
type Readiness struct {
	MinWindow Duration `yaml:"minWindow" min:"0s" max:"90d"`
	Keep      []string `yaml:"keep"`
	// APIServerCount is how many API servers there are, 0 if nobody says.
	APIServerCount int `yaml:"apiserverCount" min:"0" max:"64"`
}

// State is where the cluster's state comes from.
type State struct {
	Live       Live     `yaml:"live"`
	Files      []string `yaml:"files"`
	EtcdPrefix string   `yaml:"etcdPrefix"`
	FromAudit  bool     `yaml:"fromAudit"`
	Horizon    Duration `yaml:"horizon" min:"1m" max:"90d"`
	MaxEnded   int      `yaml:"maxEnded" min:"10000" max:"100000000"`
	Settle     Duration `yaml:"settle" min:"0s" max:"1m"`
	WaitAtMost Duration `yaml:"waitAtMost" min:"0s" max:"10m"`
}

// Live is the cluster that is watched.
type Live struct {
	Enabled    bool   `yaml:"enabled"`
	Kubeconfig string `yaml:"kubeconfig"`
	Context    string `yaml:"context"`
}

// Sources are where audit events come from.
type Sources struct {
	Files   []FileSource `yaml:"files"`
	Webhook *Webhook     `yaml:"webhook"`
	Kafka   *KafkaSource `yaml:"kafka"`
}

// FileSource is one log with its rotated predecessors, or several by globs.
type FileSource struct {
	Paths         []string `yaml:"paths"`
	From          string   `yaml:"from" oneof:"beginning|end"`
	Poll          Duration `yaml:"poll" min:"10ms" max:"1h"`
	PollOnly      bool     `yaml:"pollOnly"`
	FollowLinks   bool     `yaml:"followLinks"`
	MaxEventBytes Size     `yaml:"maxEventBytes" min:"1KiB" max:"64MiB"`
}

// Webhook is an endpoint that API servers post to.
type Webhook struct {
	Name             string    `yaml:"name"`
	Listen           string    `yaml:"listen"`
	Path             string    `yaml:"path"`
	TLS              ServerTLS `yaml:"tls"`
	BearerTokenFile  string    `yaml:"bearerTokenFile"`
	MaxBodyBytes     Size      `yaml:"maxBodyBytes" min:"64KiB" max:"256MiB"`
	MaxEventBytes    Size      `yaml:"maxEventBytes" min:"1KiB" max:"64MiB"`
	MaxInFlight      int       `yaml:"maxInFlight" min:"1" max:"10000"`
	MaxInFlightBytes Size      `yaml:"maxInFlightBytes" min:"1MiB" max:"64GiB"`
	MaxConnections   int       `yaml:"maxConnections" min:"1" max:"100000"`
	HeaderTimeout    Duration  `yaml:"headerTimeout" min:"1s" max:"10m"`
	BodyTimeout      Duration  `yaml:"bodyTimeout" min:"1s" max:"10m"`
	IdleTimeout      Duration  `yaml:"idleTimeout" min:"1s" max:"1h"`
	CommitTimeout    Duration  `yaml:"commitTimeout" min:"1s" max:"10m"`
}

// ServerTLS is the certificate of a server, and whose clients it takes.
type ServerTLS struct {
	CertFile     string   `yaml:"certFile"`
	KeyFile      string   `yaml:"keyFile"`
	ClientCAFile string   `yaml:"clientCAFile"`
	ClientNames  []string `yaml:"clientNames"`
	ReloadEvery  Duration `yaml:"reloadEvery" min:"1s" max:"1d"`
}

// ClientTLS is how a client checks a server, and its own certificate.
type ClientTLS struct {
	Enabled    bool   `yaml:"enabled"`
	CAFile     string `yaml:"caFile"`
	CertFile   string `yaml:"certFile"`
	KeyFile    string `yaml:"keyFile"`
	ServerName string `yaml:"serverName"`
}

// SASL is how a client of Kafka says who it is.
type SASL struct {
	Mechanism    string `yaml:"mechanism" oneof:"|PLAIN|SCRAM-SHA-256|SCRAM-SHA-512"`
	Username     string `yaml:"username"`
	Password     Secret `yaml:"password"`
	PasswordFile string `yaml:"passwordFile"`
}

// KafkaSource is a consumer of Kafka topics.
type KafkaSource struct {
	Brokers          []string  `yaml:"brokers"`
	Topics           []string  `yaml:"topics"`
	Group            string    `yaml:"group"`
	StartOffset      string    `yaml:"startOffset" oneof:"earliest|latest"`
	ClientID         string    `yaml:"clientID"`
	TLS              ClientTLS `yaml:"tls"`
	SASL             SASL      `yaml:"sasl"`
	MaxEventBytes    Size      `yaml:"maxEventBytes" min:"1KiB" max:"64MiB"`
	FetchBytes       Size      `yaml:"fetchBytes" min:"64KiB" max:"256MiB"`
	MaxBytes         Size      `yaml:"maxBytes" min:"1MiB" max:"64GiB"`
	MaxMessages      int       `yaml:"maxMessages" min:"1" max:"100000000"`
	MaxWait          Duration  `yaml:"maxWait" min:"10ms" max:"10s"`
	SessionTimeout   Duration  `yaml:"sessionTimeout" min:"1s" max:"30m"`
	RebalanceTimeout Duration  `yaml:"rebalanceTimeout" min:"1s" max:"30m"`
	DeadLetterTopic  string    `yaml:"deadLetterTopic"`
}

// Gateway is a webhook whose events go to Kafka.
type Gateway struct {
	Webhook Webhook       `yaml:"webhook"`
	Kafka   KafkaProducer `yaml:"kafka"`
}

// KafkaProducer is a producer to one topic.
type KafkaProducer struct {
	Brokers         []string  `yaml:"brokers"`
	Topic           string    `yaml:"topic"`
	ClientID        string    `yaml:"clientID"`
	TLS             ClientTLS `yaml:"tls"`
	SASL            SASL      `yaml:"sasl"`
	Compression     string    `yaml:"compression" oneof:"none|gzip|snappy|lz4|zstd"`
	MaxMessageBytes Size      `yaml:"maxMessageBytes" min:"64KiB" max:"64MiB"`
	Linger          Duration  `yaml:"linger" min:"0s" max:"1s"`
	Timeout         Duration  `yaml:"timeout" min:"1s" max:"10m"`
}

// Store is where positions, counts and findings are kept: embedded, unless postgres is set.
type Store struct {
	SQLite    *SQLite   `yaml:"sqlite"`
	Postgres  *Postgres `yaml:"postgres"`
	Retention Duration  `yaml:"retention" min:"1h" max:"3650d"`
	Step      Duration  `yaml:"step" min:"1s" max:"1h"`
	Hourly    Duration  `yaml:"hourly" min:"1h" max:"3650d"`
	DedupeFor Duration  `yaml:"dedupeFor" min:"1m" max:"30d"`
	MaxBytes  Size      `yaml:"maxBytes" min:"64MiB" max:"16TiB"`
}

// SQLite is the embedded store.
type SQLite struct {
	Path string `yaml:"path"`
}

// Postgres is the store that several analyzers share.
type Postgres struct {
	DSN     Secret `yaml:"dsn"`
	DSNFile string `yaml:"dsnFile"`
	Schema  string `yaml:"schema"`
}

// Pipeline bounds what is between the sources and the store.
type Pipeline struct {
	MaxBytes    Size     `yaml:"maxBytes" min:"8MiB" max:"64GiB"`
	MaxRequests int      `yaml:"maxRequests" min:"1000" max:"100000000"`
	CommitEvery Duration `yaml:"commitEvery" min:"10ms" max:"10s"`
	OpenFor     Duration `yaml:"openFor" min:"1s" max:"1h"`
}

// Metrics bounds labels.
type Metrics struct {
	MaxNodes    int `yaml:"maxNodes" min:"1" max:"100000"`
	MaxBindings int `yaml:"maxBindings" min:"1" max:"10000"`
}

// Sinks are where findings go.
type Sinks struct {
	Findings     Findings           `yaml:"findings"`
	Queue        Queue              `yaml:"queue"`
	Alertmanager []AlertmanagerSink `yaml:"alertmanager"`
	JSONL        []JSONLSink        `yaml:"jsonl"`
	HTTP         []HTTPSink         `yaml:"http"`
	Kafka        []KafkaSink        `yaml:"kafka"`
}

// Findings is how they are grouped.
type Findings struct {
	Every     Duration `yaml:"every" min:"1s" max:"1d"`
	MaxGroups int      `yaml:"maxGroups" min:"100" max:"1000000"`
}

// Queue bounds what waits for each sink.
type Queue struct {
	MaxFindings int      `yaml:"maxFindings" min:"1" max:"10000000"`
	MaxBytes    Size     `yaml:"maxBytes" min:"64KiB" max:"16GiB"`
	MaxBackoff  Duration `yaml:"maxBackoff" min:"1s" max:"1h"`
}

// AlertmanagerSink is a cluster of Alertmanagers that receive alerts.
type AlertmanagerSink struct {
	Name            string            `yaml:"name"`
	URLs            []string          `yaml:"urls"`
	Resend          Duration          `yaml:"resend" min:"1m" max:"1h"`
	ResolveAfter    Duration          `yaml:"resolveAfter" min:"1m" max:"1d"`
	ExternalURL     string            `yaml:"externalURL"`
	Runbooks        string            `yaml:"runbooks"`
	MinSeverity     string            `yaml:"minSeverity" oneof:"low|medium|high|critical"`
	Alerts          string            `yaml:"alerts" oneof:"incidents|findings"`
	Labels          map[string]string `yaml:"labels"`
	MaxAlerts       int               `yaml:"maxAlerts" min:"10" max:"100000"`
	Username        string            `yaml:"username"`
	Password        Secret            `yaml:"password"`
	PasswordFile    string            `yaml:"passwordFile"`
	BearerToken     Secret            `yaml:"bearerToken"`
	BearerTokenFile string            `yaml:"bearerTokenFile"`
	TLS             ClientTLS         `yaml:"tls"`
	Timeout         Duration          `yaml:"timeout" min:"100ms" max:"10m"`
}

// JSONLSink is a file of JSON lines: findings, or a line for each judged request.
type JSONLSink struct {
	Path     string `yaml:"path"`
	Verdicts bool   `yaml:"verdicts"`
	Format   string `yaml:"format" oneof:"json|cloudevents|ocsf"`
}

// HTTPSink is an address that findings, or incidents, are posted to.
type HTTPSink struct {
	Name            string            `yaml:"name"`
	URL             string            `yaml:"url"`
	Format          string            `yaml:"format" oneof:"json|cloudevents|ocsf|slack"`
	ExternalURL     string            `yaml:"externalURL"`
	Headers         map[string]Secret `yaml:"headers"`
	Username        string            `yaml:"username"`
	Password        Secret            `yaml:"password"`
	PasswordFile    string            `yaml:"passwordFile"`
	BearerToken     Secret            `yaml:"bearerToken"`
	BearerTokenFile string            `yaml:"bearerTokenFile"`
	TLS             ClientTLS         `yaml:"tls"`
	Timeout         Duration          `yaml:"timeout" min:"100ms" max:"10m"`
	MaxBatch        int               `yaml:"maxBatch" min:"1" max:"10000"`
}

// KafkaSink is a topic of findings as CloudEvents.
type KafkaSink struct {
	Name          string `yaml:"name"`
	Format        string `yaml:"format" oneof:"json|cloudevents|ocsf"`
	KafkaProducer `yaml:",inline"`
}

// Default is the configuration of an empty file.
func Default() *Config {
	c := &Config{}
	c.SetDefaults()
	return c
}

// SetDefaults sets what an empty file means.
func (c *Config) SetDefaults() {
	*c = Config{
		Data: "nodetrail-data", Listen: "127.0.0.1:9876",
		Pages:         Pages{Enabled: true, TLS: ServerTLS{ReloadEvery: Duration(10 * time.Second)}, Kubernetes: Reviews{Path: "/nodetrail"}},
		Log:           Log{Level: "info", Format: "auto"},
		Reload:        Reload{Watch: true, Poll: Duration(30 * time.Second)},
		Authorization: Authorization{Mode: "auto"},
		Skew:          Duration(time.Second),
		Rules:         Rules{Lateness: Duration(2 * time.Minute)},
		Bootstrap:     Bootstrap{MaxNodes: 1000},
		Readiness:     Readiness{MinWindow: Duration(24 * time.Hour)},
		State:         State{FromAudit: true, Horizon: Duration(24 * time.Hour), MaxEnded: 1_000_000, Settle: Duration(500 * time.Millisecond), WaitAtMost: Duration(20 * time.Second)},
		Pipeline: Pipeline{
			MaxBytes: 128 << 20, MaxRequests: 1_000_000, CommitEvery: Duration(100 * time.Millisecond), OpenFor: Duration(2 * time.Minute),
		},
		Store:   Store{Retention: Duration(90 * 24 * time.Hour), Step: Duration(time.Hour), Hourly: Duration(7 * 24 * time.Hour), DedupeFor: Duration(time.Hour), MaxBytes: 4 << 30},
		Metrics: Metrics{MaxNodes: 6000, MaxBindings: 200},
		Sinks: Sinks{
			Findings: Findings{Every: Duration(time.Minute), MaxGroups: 20_000},
			Queue:    Queue{MaxFindings: 10_000, MaxBytes: 16 << 20, MaxBackoff: Duration(time.Minute)},
		},
	}
}

// SetDefaults sets what an entry without keys means.
func (s *FileSource) SetDefaults() {
	*s = FileSource{From: "beginning", Poll: Duration(time.Second), MaxEventBytes: 4 << 20}
}

// SetDefaults sets what an empty section means.
func (w *Webhook) SetDefaults() {
	*w = Webhook{
		Name: "audit", Listen: "127.0.0.1:9443", Path: "/audit", TLS: ServerTLS{ReloadEvery: Duration(10 * time.Second)},
		MaxBodyBytes: 32 << 20, MaxEventBytes: 4 << 20, MaxInFlight: 512, MaxInFlightBytes: 192 << 20, MaxConnections: 512,
		HeaderTimeout: Duration(10 * time.Second), BodyTimeout: Duration(15 * time.Second), IdleTimeout: Duration(2 * time.Minute),
		CommitTimeout: Duration(25 * time.Second),
	}
}

// SetDefaults sets what an empty section means.
func (k *KafkaSource) SetDefaults() {
	*k = KafkaSource{
		StartOffset: "earliest", ClientID: "nodetrail", MaxEventBytes: 4 << 20, FetchBytes: 1 << 20, MaxBytes: 64 << 20, MaxMessages: 200_000,
		MaxWait: Duration(500 * time.Millisecond), SessionTimeout: Duration(15 * time.Second), RebalanceTimeout: Duration(30 * time.Second),
	}
}

// SetDefaults sets what an empty section means.
func (g *Gateway) SetDefaults() {
	g.Webhook.SetDefaults()
	g.Kafka.SetDefaults()
}

// SetDefaults sets what an empty section means.
func (k *KafkaProducer) SetDefaults() {
	*k = KafkaProducer{
		ClientID: "nodetrail", Compression: "lz4", MaxMessageBytes: 1_000_000, Linger: Duration(5 * time.Millisecond), Timeout: Duration(10 * time.Second),
	}
}

// SetDefaults sets what an entry without keys means.
func (s *AlertmanagerSink) SetDefaults() {
	*s = AlertmanagerSink{
		Resend: Duration(time.Minute), ResolveAfter: Duration(15 * time.Minute), MinSeverity: "medium", Alerts: "incidents", MaxAlerts: 10_000, Timeout: Duration(10 * time.Second),
		Runbooks: "https://github.com/nodetrail/nodetrail/blob/main/",
	}
}

// SetDefaults sets what an entry without keys means.
func (s *HTTPSink) SetDefaults() {
	*s = HTTPSink{Format: "json", Timeout: Duration(10 * time.Second), MaxBatch: 100}
}

// SetDefaults sets what an entry without keys means.
func (s *KafkaSink) SetDefaults() {
	s.Name, s.Format = "", "cloudevents"
	s.KafkaProducer.SetDefaults()
}

// SetDefaults sets what an entry without keys means.
func (s *JSONLSink) SetDefaults() { *s = JSONLSink{Format: "json"} }

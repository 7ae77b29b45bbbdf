package metrics

import (
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Type is a metric's type as Prometheus has it.
type Type string

// The types in use.
const (
	Counter   Type = "counter"
	Gauge     Type = "gauge"
	Histogram Type = "histogram"
)

// Metric describes one metric.
type Metric struct {
	Name   string
	Type   Type
	Labels []string
	Help   string
	// Bound says how many series there are at most.
	Bound string
	// Exemplars says that the series have an auditID as exemplar.
	Exemplars bool
}

// The names of the metrics.
const (
	requests         = "nodetrail_requests_total"
	nodeRequests     = "nodetrail_node_requests_total"
	admission        = "nodetrail_admission_total"
	nodeExcess       = "nodetrail_node_excess_requests_total"
	findings         = "nodetrail_findings_total"
	findingsLast     = "nodetrail_findings_last_timestamp_seconds"
	excessRequests   = "nodetrail_excess_requests_total"
	agreement        = "nodetrail_agreement_total"
	raceDistance     = "nodetrail_race_disagreement_distance_seconds"
	events           = "nodetrail_events_total"
	envelopes        = "nodetrail_envelopes_total"
	judgeDelay       = "nodetrail_judge_delay_seconds"
	commitSeconds    = "nodetrail_commit_seconds"
	commitFailures   = "nodetrail_commit_failures_total"
	coverageGaps     = "nodetrail_coverage_gaps_total"
	scrapeUp         = "nodetrail_apiserver_scrape_up"
	scrapeSuccess    = "nodetrail_apiserver_scrape_last_success_timestamp_seconds"
	scrapeFailures   = "nodetrail_apiserver_scrape_failures_total"
	scrapeLost       = "nodetrail_apiserver_audit_lost_total"
	sourceUp         = "nodetrail_source_up"
	sourceLag        = "nodetrail_source_lag_seconds"
	sourceLast       = "nodetrail_source_last_event_timestamp_seconds"
	webhookRequests  = "nodetrail_webhook_requests_total"
	webhookRefused   = "nodetrail_webhook_connections_refused_total"
	deadLetters      = "nodetrail_deadletters_total"
	pagesRefused     = "nodetrail_pages_refused_total"
	certExpiry       = "nodetrail_certificate_expiry_timestamp_seconds"
	certFailures     = "nodetrail_credential_reload_failures_total"
	stateSynced      = "nodetrail_state_synced"
	stateObjects     = "nodetrail_state_objects"
	stateLag         = "nodetrail_state_lag_seconds"
	beforeState      = "nodetrail_judged_before_state_total"
	detectorLate     = "nodetrail_detector_late_total"
	requestsAhead    = "nodetrail_requests_ahead_total"
	queueWaiting     = "nodetrail_queue_waiting"
	queueBytes       = "nodetrail_queue_bytes"
	queueMaxBytes    = "nodetrail_queue_max_bytes"
	storeBytes       = "nodetrail_store_size_bytes"
	sinkLength       = "nodetrail_sink_queue_length"
	sinkMaxLength    = "nodetrail_sink_queue_max_length"
	sinkBytes        = "nodetrail_sink_queue_bytes"
	sinkSent         = "nodetrail_sink_sent_total"
	sinkDropped      = "nodetrail_sink_dropped_total"
	sinkFailures     = "nodetrail_sink_failures_total"
	sinkSuccess      = "nodetrail_sink_last_success_timestamp_seconds"
	alertsSent       = "nodetrail_alerts"
	alertsFolded     = "nodetrail_alerts_folded_findings_total"
	alertsTooOld     = "nodetrail_alerts_too_old_findings_total"
	alertsStore      = "nodetrail_alerts_store_failures_total"
	checkState       = "nodetrail_check"
	checkLost        = "nodetrail_check_lost"
	checksMade       = "nodetrail_checks_last_success_timestamp_seconds"
	answer           = "nodetrail_answer"
	configReloads    = "nodetrail_config_reloads_total"
	configSuccess    = "nodetrail_config_last_reload_success_timestamp_seconds"
	configSuccessful = "nodetrail_config_last_reload_successful"
	buildInfo        = "nodetrail_build_info"
)

// All describes every metric but those of the Go runtime and the process, in the order of the page.
func All() []Metric {
	const once, few, lanes = "1", "the sinks configured", "256 lanes, then `other`"
	return []Metric{
		{requests, Counter, []string{"verdict", "race"}, "Requests of nodes by the re-evaluated verdict of the Node authorizer.", "6", false},
		{nodeRequests, Counter, []string{"node", "verdict"}, "Requests of nodes, by node and verdict.", "3 for each of `metrics.maxNodes` nodes, and 3 of `other`: further names, and what is no name of a node", false},
		{admission, Counter, []string{"outcome", "missing"}, "Writes of nodes that the admission plugin NodeRestriction was asked about, by how its re-evaluated answer compares with the API server's, and for unknown ones by what is missing.", "6, and 17 for `unknown`", false},
		{nodeExcess, Counter, []string{"node"}, "Requests of nodes that need RBAC, by node.", "1 for each node that `nodetrail_node_requests_total` tells apart, and `other`", false},
		{findings, Counter, []string{"rule", "reason", "severity", "allowed"}, "Findings, one for each request that a rule flags, by the rule's code of why.", "8 for each reason of a rule, and for `other` reasons of each", true},
		{findingsLast, Gauge, []string{"rule", "reason", "severity", "allowed"}, "When this process stored a finding last, in seconds since 1970. What an old log shows, of before nodetrail was first started on the store, does not count.", "those of `nodetrail_findings_total` of which there is a finding", false},
		{excessRequests, Counter, []string{"binding", "product"}, "Requests that need RBAC, by the binding that allows them and the user agent without its version.", "`metrics.maxBindings` pairs, then `other` as `product` of as many bindings, then `other` for both", false},
		{agreement, Counter, []string{"outcome", "race"}, "Verdicts compared with those of the API server: agree or disagree.", "4", true},
		{raceDistance, Histogram, nil, "Time between a request and the change of the state that makes its verdict a race, where the API server decided otherwise. `skew` must be more than nearly all of them.", once, false},
		{events, Counter, []string{"source", "outcome"}, "Audit events: read, and of those skipped because no rule can need them, malformed, or duplicate: read by this process before.", "4 for each of 64 sources, then `other`", false},
		{envelopes, Counter, []string{"envelope"}, "Audit events read, by the shipper's envelope around them.", "32, then `other`", false},
		{judgeDelay, Histogram, nil, "Time from the receipt of an event to the storing of its verdict.", once, false},
		{commitSeconds, Histogram, nil, "Time that a commit to the store took.", once, false},
		{commitFailures, Counter, nil, "Commits to the store that failed and are tried again.", once, false},
		{coverageGaps, Counter, []string{"cause"}, "Times that part of the input may be missing.", "16, then `other`", false},
		{scrapeUp, Gauge, []string{"apiserver"}, "1 if the metrics of an API server could be read the last time, else 0.", "64", false},
		{scrapeSuccess, Gauge, []string{"apiserver"}, "When they could be read for the last time, in seconds since 1970.", "64", false},
		{scrapeFailures, Counter, []string{"apiserver"}, "Times that they could not be read.", "64", false},
		{scrapeLost, Counter, []string{"apiserver"}, "Audit events that the API server says it could not write, since nodetrail was started.", "64", false},
		{sourceUp, Gauge, []string{"source"}, "1 while a source can be read, else 0.", "64, then `other`", false},
		{sourceLag, Gauge, []string{"source", "lane"}, "How long what is not stored yet has been there: the age of the oldest of it, 0 if there is nothing.", lanes, false},
		{sourceLast, Gauge, []string{"source"}, "The time of the newest event that this process has stored of a source, in seconds since 1970. It is never later than the event came, whatever the API server's clock says.", "64 sources, then `other`", false},
		{webhookRequests, Counter, []string{"outcome"}, "Requests to the webhook, by what became of them.", "32, then `other`", false},
		{webhookRefused, Counter, []string{"cause"}, "Connections to the webhook that no request came of: the TLS handshake failed, or too_many were open.", "2", false},
		{deadLetters, Counter, nil, "Pieces of input that could not be read and were kept as dead letters.", once, false},
		{pagesRefused, Counter, []string{"reason"}, "Requests for pages that were not let in: wrong_token, no_credentials, forbidden, not_local, too_many or unavailable.", "6", false},
		{certExpiry, Gauge, []string{"server"}, "When the certificate of the webhook or of the pages ends, in seconds since 1970.", "2", false},
		{certFailures, Counter, []string{"server"}, "Failed reloads of certificates, authorities and tokens from their files. The old ones stay in force.", "2", false},
		{stateSynced, Gauge, []string{"kind"}, "1 when the objects of a kind have been listed and are watched, or the API server serves none of the kind, else 0.", "the kinds that matter, at most 64", false},
		{stateObjects, Gauge, []string{"kind"}, "Objects in the state that exist now.", "the kinds that matter, at most 64", false},
		{stateLag, Gauge, nil, "How far the state lies behind the clock: time since it was last known to be complete.", once, false},
		{detectorLate, Counter, nil, "Requests that came too late, by their own time, to be seen by the rules over time: see rules.lateness.", once, false},
		{requestsAhead, Counter, nil, "Requests that were dated two seconds or more ahead of this machine's clock when they came in: the clock of an API server, or this one, is wrong.", once, false},
		{beforeState, Counter, nil, "Requests that were judged although the state had not caught up with them.", once, false},
		{queueWaiting, Gauge, nil, "Requests that wait to be judged.", once, false},
		{queueBytes, Gauge, nil, "Memory of events that were taken in and are not stored yet.", once, false},
		{queueMaxBytes, Gauge, nil, "About how much nodetrail_queue_bytes may be, as configured. What comes then has to wait.", once, false},
		{storeBytes, Gauge, nil, "Size of the embedded store.", once, false},
		{sinkLength, Gauge, []string{"sink"}, "Findings that wait for a sink.", few, false},
		{sinkMaxLength, Gauge, []string{"sink"}, "How many findings may wait for a sink, as configured. Of more the oldest are dropped.", few, false},
		{sinkBytes, Gauge, []string{"sink"}, "Memory of the findings that wait for a sink.", few, false},
		{sinkSent, Counter, []string{"sink"}, "Findings that a sink has taken.", few, false},
		{sinkDropped, Counter, []string{"sink", "cause"}, "Findings that did not reach a sink: overflow, refused or stopped.", "3 for each of " + few, false},
		{sinkFailures, Counter, []string{"sink"}, "Attempts to send that failed.", few, false},
		{sinkSuccess, Gauge, []string{"sink"}, "When a sink took findings last, 0 if never.", few, false},
		{alertsSent, Gauge, []string{"sink", "state"}, "Alerts that a sink sends to Alertmanager: firing or resolved.", "2 for each of " + few, false},
		{alertsFolded, Counter, []string{"sink"}, "Findings that came when too many alerts were distinguished.", few, false},
		{alertsTooOld, Counter, []string{"sink"}, "Findings of before nodetrail was first started on the store that made no alert, since they were older than `resolveAfter`.", few, false},
		{alertsStore, Counter, []string{"sink"}, "Times that a sink of alerts could not read the store; it resolves none meanwhile.", few, false},
		{checkState, Gauge, []string{"check", "state"}, "1 for the state that a check has over the last readiness.minWindow, 0 for the others: passed, failed, unproven or waived.", "4 for each check", false},
		{checkLost, Gauge, []string{"check", "question"}, "1 while a check fails that passed before, also before a restart, and for 5 minutes after that; else 0.", "1 for each question of each check", false},
		{answer, Gauge, []string{"question", "answer"}, "1 for the answer to a question, 0 for the others: can the bindings be deleted (ready), is a credential confined (confined).", "4 for each question", false},
		{checksMade, Gauge, nil, "When the checks were made last, in seconds since 1970.", once, false},
		{configReloads, Counter, []string{"result"}, "Versions of the configuration file: applied, refused, or needs_restart.", "3", false},
		{configSuccess, Gauge, nil, "When the configuration in force was confirmed last.", once, false},
		{configSuccessful, Gauge, nil, "1 when the latest version of the configuration file is in force, else 0.", once, false},
		{buildInfo, Gauge, []string{"version", "revision", "goversion"}, "1; its labels say what was built.", once, false},
	}
}

// Page is docs/metrics.md.
func Page() string {
	var b strings.Builder
	b.WriteString("<!-- Written by go generate from sinks/metrics: change it there. -->\n\n# Metrics\n\n" +
		"The metrics that `nodetrail run` serves on `/metrics`, in addition to `go_*` and `process_*` of every Go program. The number of values of each\n" +
		"label is bounded: further values count as `other`. Exemplars are the audit ID of one of the requests, in the OpenMetrics format.\n" +
		"All have the label `cluster` where the configuration names a `cluster`. If Prometheus adds a label of that name to its targets, too, scrape with `honor_labels: true`.\n" +
		"`nodetrail gateway` has those of its webhook, of dead letters, and `nodetrail_build_info`.\n\n" +
		"| metric | type | labels | what it says | series, at most |\n|---|---|---|---|---|\n")
	for _, m := range All() {
		labels := "-"
		if len(m.Labels) > 0 {
			labels = "`" + strings.Join(m.Labels, "`, `") + "`"
		}
		help := m.Help
		if m.Exemplars {
			help += " With exemplars."
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", m.Name, m.Type, labels, help, m.Bound)
	}
	return b.String()
}

// described finds a metric's description; a name that is not in All is a mistake of this package, which its tests find.
func described() map[string]Metric {
	all := map[string]Metric{}
	for _, m := range All() {
		all[m.Name] = m
	}
	return all
}

func (m Metric) counter() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.Name, Help: m.Help}, m.Labels)
}

func (m Metric) gauge() *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: m.Name, Help: m.Help}, m.Labels)
}

func (m Metric) histogram(buckets []float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: m.Name, Help: m.Help, Buckets: buckets})
}

func (m Metric) desc() *prometheus.Desc {
	return prometheus.NewDesc(m.Name, m.Help, m.Labels, nil)
}

func (m Metric) valueType() prometheus.ValueType {
	if m.Type == Counter {
		return prometheus.CounterValue
	}
	return prometheus.GaugeValue
}

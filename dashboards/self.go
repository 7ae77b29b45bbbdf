package dashboards

func self() *Dashboard {
	return &Dashboard{
		UID: "nodetrail-self", Title: "nodetrail itself", Since: "now-6h",
		Description: "Whether nodetrail works: its input, its state, its verdicts next to the API server's, its store and its sinks.",
		Rows:        []Row{health(), input(), entrance(), judging(), outputs(), process()},
	}
}

func health() Row {
	return Row{Title: "Health", Panels: []Panel{
		{
			Kind: Stat, Title: "Processes", Unit: "short", Width: 4, Height: 5, Bad: 1, Inverse: true, Description: "Processes of nodetrail run that Prometheus reaches.",
			Queries: []Query{{Expr: `count(nodetrail_build_info{cluster=~"$cluster"}) or vector(0)`}},
		},
		{
			Kind: Stat, Title: "Sources down", Unit: "short", Width: 4, Height: 5, Bad: 1, Description: "Sources that cannot be read.",
			Queries: []Query{{Expr: `count(nodetrail_source_up{cluster=~"$cluster"} == 0) or vector(0)`}},
		},
		{
			Kind: Stat, Title: "Furthest behind", Unit: "s", Width: 4, Height: 5, Bad: 120, Description: "Age of the oldest input that is not stored yet.",
			Queries: []Query{{Expr: `max(nodetrail_source_lag_seconds{cluster=~"$cluster"}) or vector(0)`}},
		},
		{
			Kind: Stat, Title: "Agreement", Unit: "percentunit", Width: 4, Height: 5, Bad: 1, Inverse: true, Description: "Share of the verdicts, races left out, that are those of the API server, in the time shown.",
			Queries: []Query{{Expr: `sum(increase(nodetrail_agreement_total{cluster=~"$cluster", outcome="agree", race="false"}[$__range])) / (sum(increase(nodetrail_agreement_total{cluster=~"$cluster", race="false"}[$__range])) > 0) or vector(1)`}},
		},
		{
			Kind: Stat, Title: "Kinds not synced", Unit: "short", Width: 4, Height: 5, Bad: 1, Description: "Kinds of objects of a cluster that is watched which are not known in full yet.",
			Queries: []Query{{Expr: `count(nodetrail_state_synced{cluster=~"$cluster"} == 0) or vector(0)`}},
		},
		{
			Kind: Stat, Title: "Findings lost", Unit: "short", Width: 4, Height: 5, Bad: 1, Description: "Findings that did not reach a sink in the time shown. The store has them.",
			Queries: []Query{{Expr: `round(sum(increase(nodetrail_sink_dropped_total{cluster=~"$cluster"}[$__range]))) or vector(0)`}},
		},
	}}
}

func input() Row {
	return Row{Title: "Input", Panels: []Panel{
		{
			Kind: Graph, Title: "Events", Unit: "cps", Width: 12, Height: 8, Description: "Audit events read, and of those the ones that no rule needs, that are malformed, or that came before.",
			Queries: []Query{{Expr: `sum by (cluster, outcome) (rate(nodetrail_events_total{cluster=~"$cluster"}[$__rate_interval]))`, Legend: "{{cluster}} {{outcome}}"}},
		},
		{
			Kind: Graph, Title: "Lag of the sources", Unit: "s", Width: 12, Height: 8, Description: "Age of the oldest input that is not stored yet, of each source.",
			Queries: []Query{{Expr: `max by (cluster, source) (nodetrail_source_lag_seconds{cluster=~"$cluster"})`, Legend: "{{cluster}} {{source}}"}},
		},
		{
			Kind: Graph, Title: "Sources up", Unit: "bool_on_off", Width: 8, Height: 7, Description: "Whether each source can be read.",
			Queries: []Query{{Expr: `min by (cluster, source) (nodetrail_source_up{cluster=~"$cluster"})`, Legend: "{{cluster}} {{source}}"}},
		},
		{
			Kind: Graph, Title: "Envelopes", Unit: "cps", Width: 8, Height: 7, Description: "How the events were wrapped by whoever ships them.",
			Queries: []Query{{Expr: `sum by (cluster, envelope) (rate(nodetrail_envelopes_total{cluster=~"$cluster"}[$__rate_interval]))`, Legend: "{{cluster}} {{envelope}}"}},
		},
		{
			Kind: Graph, Title: "Input that is lost or in doubt", Unit: "cps", Width: 8, Height: 7, Description: "Gaps, input that cannot be read, requests to the webhook that were not taken, and events that API servers say they lost.",
			Queries: []Query{
				{Expr: `sum(rate(nodetrail_coverage_gaps_total{cluster=~"$cluster"}[$__rate_interval])) or vector(0)`, Legend: "gaps"},
				{Expr: `sum(rate(nodetrail_deadletters_total{cluster=~"$cluster"}[$__rate_interval]))`, Legend: "dead letters"},
				{Expr: `sum(rate(nodetrail_webhook_requests_total{cluster=~"$cluster", outcome!="stored"}[$__rate_interval])) or vector(0)`, Legend: "webhook not taken"},
				{Expr: `sum(rate(nodetrail_apiserver_audit_lost_total{cluster=~"$cluster"}[$__rate_interval])) or vector(0)`, Legend: "lost by apiservers"},
			},
		},
	}}
}

func entrance() Row {
	return Row{Title: "Who gets in", Panels: []Panel{
		{
			Kind: Graph, Title: "Turned away by the webhook", Unit: "reqps", Width: 8, Height: 7, Description: "Requests that were answered with something else than 200, and connections that no request came of, as of an API server whose certificate has expired.",
			Queries: []Query{
				{Expr: `sum by (cluster, outcome) (rate(nodetrail_webhook_requests_total{cluster=~"$cluster", outcome!~"stored|dead_letter"}[$__rate_interval])) or on () vector(0)`, Legend: "{{cluster}} {{outcome}}"},
				{Expr: `sum by (cluster, cause) (rate(nodetrail_webhook_connections_refused_total{cluster=~"$cluster"}[$__rate_interval])) or on () vector(0)`, Legend: "{{cluster}} connections: {{cause}}"},
			},
		},
		{
			Kind: Graph, Title: "Turned away by the pages", Unit: "reqps", Width: 8, Height: 7, Description: "Every browser has no credentials until somebody signs in. Wrong tokens are guesses, or of a program that has an old one.",
			Queries: []Query{{Expr: `sum by (cluster, reason) (rate(nodetrail_pages_refused_total{cluster=~"$cluster"}[$__rate_interval])) or on () vector(0)`, Legend: "{{cluster}} {{reason}}"}},
		},
		{
			Kind: Graph, Title: "Credentials", Unit: "s", Width: 8, Height: 7, Description: "How long the certificates of the webhook and of the pages are still good, 0 where there is none; and how often changed files could not be taken over.",
			Queries: []Query{
				{Expr: `min by (cluster, server) (nodetrail_certificate_expiry_timestamp_seconds{cluster=~"$cluster"} - time()) or on () vector(0)`, Legend: "{{cluster}} {{server}}"},
				{Expr: `sum by (cluster, server) (increase(nodetrail_credential_reload_failures_total{cluster=~"$cluster"}[$__rate_interval])) or on () vector(0)`, Legend: "{{cluster}} {{server}} not taken over"},
			},
		},
	}}
}

func judging() Row {
	return Row{Title: "Judging", Panels: []Panel{
		{
			Kind: Graph, Title: "From receipt to stored verdict", Unit: "s", Width: 12, Height: 8, Description: "A request waits for the news of the state of its own time, and for a commit.",
			Queries: []Query{
				{Expr: `histogram_quantile(0.5, sum by (cluster, le) (rate(nodetrail_judge_delay_seconds_bucket{cluster=~"$cluster"}[$__rate_interval])))`, Legend: "{{cluster}} median"},
				{Expr: `histogram_quantile(0.99, sum by (cluster, le) (rate(nodetrail_judge_delay_seconds_bucket{cluster=~"$cluster"}[$__rate_interval])))`, Legend: "{{cluster}} 99 %"},
			},
		},
		{
			Kind: Graph, Title: "Commits to the store", Unit: "s", Width: 12, Height: 8, Description: "How long they take.",
			Queries: []Query{
				{Expr: `histogram_quantile(0.99, sum by (cluster, le) (rate(nodetrail_commit_seconds_bucket{cluster=~"$cluster"}[$__rate_interval])))`, Legend: "{{cluster}} 99 %"},
				{Expr: `sum by (cluster) (rate(nodetrail_commit_seconds_sum{cluster=~"$cluster"}[$__rate_interval])) / (sum by (cluster) (rate(nodetrail_commit_seconds_count{cluster=~"$cluster"}[$__rate_interval])) > 0)`, Legend: "{{cluster}} mean"},
			},
		},
		{
			Kind: Graph, Title: "Verdicts next to the API server's", Unit: "reqps", Width: 8, Height: 8, Description: "What disagrees outside of a race is a mistake of nodetrail, of its state, or of its configuration.",
			Queries: []Query{{Expr: `sum by (cluster, outcome, race) (rate(nodetrail_agreement_total{cluster=~"$cluster"}[$__rate_interval]))`, Legend: "{{cluster}} {{outcome}}, race {{race}}"}},
		},
		{
			Kind: Graph, Title: "Objects in the state", Unit: "short", Width: 8, Height: 8, Description: "By kind.",
			Queries: []Query{{Expr: `max by (cluster, kind) (nodetrail_state_objects{cluster=~"$cluster"})`, Legend: "{{cluster}} {{kind}}"}},
		},
		{
			Kind: Graph, Title: "State behind the clock", Unit: "s", Width: 8, Height: 8, Description: "Time since the state of a cluster that is watched was last known to be complete; 0 where none is watched.",
			Queries: []Query{{Expr: `max(nodetrail_state_lag_seconds{cluster=~"$cluster"}) or vector(0)`, Legend: "lag"}},
		},
		{
			Kind: Graph, Title: "Memory of what waits", Unit: "bytes", Width: 8, Height: 8, Description: "Events that are not stored yet, and how much there may be of them.",
			Queries: []Query{
				{Expr: `max by (cluster, instance) (nodetrail_queue_bytes{cluster=~"$cluster"})`, Legend: "{{cluster}} {{instance}}"},
				{Expr: `max by (cluster) (nodetrail_queue_max_bytes{cluster=~"$cluster"})`, Legend: "{{cluster}} at most"},
			},
		},
		{
			Kind: Graph, Title: "Requests that wait to be judged", Unit: "short", Width: 8, Height: 8, Description: "They wait for the state, or for the response that belongs to them.",
			Queries: []Query{{Expr: `sum by (cluster, instance) (nodetrail_queue_waiting{cluster=~"$cluster"})`, Legend: "{{cluster}} {{instance}}"}},
		},
		{
			Kind: Graph, Title: "What went wrong", Unit: "cps", Width: 8, Height: 8, Description: "Commits that failed and are tried again, requests that were judged before the state had caught up, and requests that came too late for the rules that look at requests over time (rules.lateness).",
			Queries: []Query{
				{Expr: `sum by (cluster) (rate(nodetrail_commit_failures_total{cluster=~"$cluster"}[$__rate_interval]))`, Legend: "{{cluster}} failed commits"},
				{Expr: `sum by (cluster) (rate(nodetrail_judged_before_state_total{cluster=~"$cluster"}[$__rate_interval]))`, Legend: "{{cluster}} judged before the state"},
				{Expr: `sum by (cluster) (rate(nodetrail_detector_late_total{cluster=~"$cluster"}[$__rate_interval]))`, Legend: "{{cluster}} too late for detectors"},
			},
		},
	}}
}

func outputs() Row {
	return Row{Title: "Sinks", Panels: []Panel{
		{
			Kind: Graph, Title: "Findings that wait", Unit: "percentunit", Width: 8, Height: 8, Bad: 0.8, Description: "How full the queue of each sink is.",
			Queries: []Query{{Expr: `max by (cluster, sink) (nodetrail_sink_queue_length{cluster=~"$cluster"} / nodetrail_sink_queue_max_length{cluster=~"$cluster"})`, Legend: "{{cluster}} {{sink}}"}},
		},
		{
			Kind: Graph, Title: "Findings sent and lost", Unit: "cps", Width: 8, Height: 8, Description: "What the sinks took, and what did not reach them.",
			Queries: []Query{
				{Expr: `sum by (cluster, sink) (rate(nodetrail_sink_sent_total{cluster=~"$cluster"}[$__rate_interval]))`, Legend: "{{cluster}} {{sink}} sent"},
				{Expr: `sum by (cluster, sink, cause) (rate(nodetrail_sink_dropped_total{cluster=~"$cluster"}[$__rate_interval]))`, Legend: "{{cluster}} {{sink}} lost: {{cause}}"},
			},
		},
		{
			Kind: Graph, Title: "Failed attempts to send", Unit: "cps", Width: 8, Height: 8, Description: "They are repeated.",
			Queries: []Query{{Expr: `sum by (cluster, sink) (rate(nodetrail_sink_failures_total{cluster=~"$cluster"}[$__rate_interval]))`, Legend: "{{cluster}} {{sink}}"}},
		},
		{
			Kind: Graph, Title: "Alerts", Unit: "short", Width: 6, Height: 7, Description: "Alerts that nodetrail sends to Alertmanager: firing, or resolved a short time ago. 0 without such a sink.",
			Queries: []Query{{Expr: `sum by (cluster, sink, state) (nodetrail_alerts{cluster=~"$cluster"}) or on () vector(0)`, Legend: "{{cluster}} {{sink}} {{state}}"}},
		},
		{
			Kind: Graph, Title: "Findings without an alert of their own", Unit: "cps", Width: 6, Height: 7, Description: "Folded into one alert for their rule, as more than `maxAlerts` were distinguished; or too old for one, after a downtime. And times that the store could not be asked what is over. 0 without such a sink.",
			Queries: []Query{
				{Expr: `sum by (cluster, sink) (rate(nodetrail_alerts_folded_findings_total{cluster=~"$cluster"}[$__rate_interval])) or on () vector(0)`, Legend: "{{cluster}} {{sink}} folded"},
				{Expr: `sum by (cluster, sink) (rate(nodetrail_alerts_too_old_findings_total{cluster=~"$cluster"}[$__rate_interval])) or on () vector(0)`, Legend: "{{cluster}} {{sink}} too old"},
				{Expr: `sum by (cluster, sink) (rate(nodetrail_alerts_store_failures_total{cluster=~"$cluster"}[$__rate_interval])) or on () vector(0)`, Legend: "{{cluster}} {{sink}} store not read"},
			},
		},
		{
			Kind: Graph, Title: "Memory of findings that wait", Unit: "bytes", Width: 6, Height: 7, Description: "Of each sink.",
			Queries: []Query{{Expr: `max by (cluster, sink) (nodetrail_sink_queue_bytes{cluster=~"$cluster"})`, Legend: "{{cluster}} {{sink}}"}},
		},
		{
			Kind: Table, Title: "Last success", Unit: "dateTimeFromNow", Width: 6, Height: 7, Description: "When each sink took findings last. It may be long ago where there is nothing to send; 1970 is never.",
			Queries: []Query{{Expr: `max by (cluster, sink) (nodetrail_sink_last_success_timestamp_seconds{cluster=~"$cluster"}) * 1000`}},
		},
	}}
}

func process() Row {
	return Row{Title: "Process", Panels: []Panel{
		{
			Kind: Graph, Title: "Memory", Unit: "bytes", Width: 6, Height: 8, Description: "Resident memory.",
			Queries: []Query{{Expr: `process_resident_memory_bytes and on (cluster, job, instance) nodetrail_build_info{cluster=~"$cluster"}`, Legend: "{{cluster}} {{instance}}"}},
		},
		{
			Kind: Graph, Title: "CPU", Unit: "short", Width: 6, Height: 8, Description: "Cores in use.",
			Queries: []Query{{Expr: `rate(process_cpu_seconds_total[$__rate_interval]) and on (cluster, job, instance) nodetrail_build_info{cluster=~"$cluster"}`, Legend: "{{cluster}} {{instance}}"}},
		},
		{
			Kind: Graph, Title: "Goroutines", Unit: "short", Width: 6, Height: 8, Description: "They must not grow without end.",
			Queries: []Query{{Expr: `go_goroutines and on (cluster, job, instance) nodetrail_build_info{cluster=~"$cluster"}`, Legend: "{{cluster}} {{instance}}"}},
		},
		{
			Kind: Graph, Title: "Size of the store", Unit: "bytes", Width: 6, Height: 8, Description: "The files of the embedded store; 0 with PostgreSQL.",
			Queries: []Query{{Expr: `max by (cluster, instance) (nodetrail_store_size_bytes{cluster=~"$cluster"}) or on () vector(0)`, Legend: "{{cluster}} {{instance}}"}},
		},
		{
			Kind: Table, Title: "Versions", Unit: "none", Width: 12, Height: 6, Description: "What runs where.",
			Queries: []Query{{Expr: `group by (cluster, instance, version, revision, goversion) (nodetrail_build_info{cluster=~"$cluster"})`}},
		},
		{
			Kind: Table, Title: "Configuration", Unit: "short", Width: 12, Height: 6, Description: "Versions of the configuration file since the start: taken over, refused, or waiting for a restart.",
			Queries: []Query{{Expr: `sum by (cluster, instance, result) (nodetrail_config_reloads_total{cluster=~"$cluster"})`}},
		},
	}}
}

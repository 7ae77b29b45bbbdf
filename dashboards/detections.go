package dashboards

func detections() *Dashboard {
	return &Dashboard{
		UID: "nodetrail-detections", Title: "Detections", Since: "now-24h",
		Description: "What the rules found: which rule, how severe, and whether the requests passed.",
		Variables: []Variable{
			{Name: "rule", Label: "Rule", Description: "The rule, as docs/rules describes it.", Query: `label_values(nodetrail_findings_total{cluster=~"$cluster"}, rule)`, All: true},
		},
		Rows: []Row{
			{Title: "Now", Panels: []Panel{
				{
					Kind: Stat, Title: "Critical", Unit: "short", Width: 4, Height: 5, Bad: 1, Description: "Findings of severity critical in the time shown.",
					Queries: []Query{{Expr: found("critical")}},
				},
				{
					Kind: Stat, Title: "High", Unit: "short", Width: 4, Height: 5, Bad: 1, Description: "Findings of severity high in the time shown.",
					Queries: []Query{{Expr: found("high")}},
				},
				{
					Kind: Stat, Title: "Medium and low", Unit: "short", Width: 4, Height: 5, Description: "Findings of severity medium and low in the time shown.",
					Queries: []Query{{Expr: found("medium|low")}},
				},
				{
					Kind: Stat, Title: "Rules with findings", Unit: "short", Width: 4, Height: 5, Description: "How many rules found something in the time shown.",
					Queries: []Query{{Expr: `count(sum by (rule) (increase(nodetrail_findings_total{cluster=~"$cluster", rule=~"$rule"}[$__range])) > 0) or vector(0)`}},
				},
				{
					Kind: Stat, Title: "Alerts firing", Unit: "short", Width: 4, Height: 5, Bad: 1, Description: "Alerts of Prometheus from nodetrail's rules, on findings and on its own health.",
					Queries: []Query{{Expr: `count(ALERTS{cluster=~"$cluster", alertstate="firing", component="nodetrail"}) or vector(0)`}},
				},
				{
					Kind: Stat, Title: "Gaps in the input", Unit: "short", Width: 4, Height: 5, Bad: 1, Description: "Times that part of the audit log may be missing in the time shown: nothing can be found there.",
					Queries: []Query{{Expr: `round(sum(increase(nodetrail_coverage_gaps_total{cluster=~"$cluster"}[$__range]))) or vector(0)`}},
				},
			}},
			{Title: "Over time", Panels: []Panel{
				{
					Kind: Graph, Title: "Findings by rule", Unit: "cps", Width: 12, Height: 9, Bars: true, Description: "The exemplars are audit IDs: 'nodetrail explain' and the log have the whole request.",
					Queries: []Query{{Expr: `sum by (cluster, rule) (rate(nodetrail_findings_total{cluster=~"$cluster", rule=~"$rule"}[$__rate_interval]))`, Legend: "{{cluster}} {{rule}}", Exemplars: true}},
				},
				{
					Kind: Graph, Title: "Findings by severity", Unit: "cps", Width: 12, Height: 9, Bars: true, Description: "A finding is one request that a rule flags.",
					Queries: []Query{{Expr: `sum by (cluster, severity) (rate(nodetrail_findings_total{cluster=~"$cluster", rule=~"$rule"}[$__rate_interval]))`, Legend: "{{cluster}} {{severity}}"}},
				},
				{
					Kind: Graph, Title: "Findings on requests that passed, and on refused ones", Unit: "cps", Width: 12, Height: 8, Description: "What passed did happen. What was refused was tried.",
					Queries: []Query{
						{Expr: `sum by (cluster) (rate(nodetrail_findings_total{cluster=~"$cluster", rule=~"$rule", allowed="true"}[$__rate_interval]))`, Legend: "{{cluster}} succeeded"},
						{Expr: `sum by (cluster) (rate(nodetrail_findings_total{cluster=~"$cluster", rule=~"$rule", allowed="false"}[$__rate_interval]))`, Legend: "{{cluster}} refused or failed"},
					},
				},
				{
					Kind: Graph, Title: "Requests that the Node authorizer denies", Unit: "reqps", Width: 12, Height: 8, Description: "By the re-evaluated verdict. In a race the graph of the API server had not caught up; those mean nothing.",
					Queries: []Query{
						{Expr: `sum by (cluster) (rate(nodetrail_requests_total{cluster=~"$cluster", verdict="deny", race="false"}[$__rate_interval]))`, Legend: "{{cluster}} denied"},
						{Expr: `sum by (cluster) (rate(nodetrail_requests_total{cluster=~"$cluster", verdict="deny", race="true"}[$__rate_interval]))`, Legend: "{{cluster}} denied in a race"},
					},
				},
			}},
			{Title: "Which", Panels: []Panel{
				{
					Kind: Table, Title: "Findings by rule", Unit: "short", Width: 12, Height: 10, Description: "In the time shown. docs/rules says of each rule what it means and what to do.",
					Queries: []Query{{Expr: `sort_desc(round(sum by (cluster, rule, severity, allowed) (increase(nodetrail_findings_total{cluster=~"$cluster", rule=~"$rule"}[$__range]))) > 0 or on () vector(0))`}},
				},
				{
					Kind: Table, Title: "Nodes with the most denials", Unit: "short", Width: 12, Height: 10, NodeLink: true, Description: "The 50 nodes with the most requests that the Node authorizer denies, races included, in the time shown. A node's name leads to its dashboard.",
					Queries: []Query{{Expr: `topk(50, round(sum by (cluster, node) (increase(nodetrail_node_requests_total{cluster=~"$cluster", verdict="deny"}[$__range]))) > 0) or on () vector(0)`}},
				},
				{
					Kind: Text, Title: "Which node, which object", Width: 24, Height: 4,
					Text: "Metrics have no names of objects, and findings no node: there are too many. [The pages of nodetrail](${externalURL}) list each finding with its node, " +
						"object, client and audit IDs; so does `nodetrail report --data FOLDER`.",
				},
			}},
		},
	}
}

// found counts findings of severities in the time shown.
func found(severities string) string {
	return `round(sum(increase(nodetrail_findings_total{cluster=~"$cluster", rule=~"$rule", severity=~"` + severities + `"}[$__range]))) or vector(0)`
}

package dashboards

// migration answers one question: may the binding be deleted?
func migration() *Dashboard {
	return &Dashboard{
		UID: "nodetrail-migration", Title: "Migration", Since: "now-7d",
		Description: "Is it safe to delete the binding of system:nodes: what still needs it, of which nodes, and what is known.",
		Variables: []Variable{
			{Name: "window", Label: "Looking back", Description: "How long there must have been nothing.", Choices: []string{"7d", "1h", "6h", "1d", "14d", "30d"}},
			{Name: "binding", Label: "Binding", Description: "The binding that let the requests through.", Query: `label_values(nodetrail_excess_requests_total{cluster=~"$cluster"}, binding)`, All: true},
		},
		Rows: []Row{
			{Title: "Is it safe to delete the binding?", Panels: []Panel{
				{
					Kind: Text, Title: "How to read this", Width: 24, Height: 4,
					Text: "Delete the bindings when the answer is *ready*: then every check of that question passed over the last `readiness.minWindow`. " +
						"[The checks](${externalURL}/checks) have the evidence and the next step. " +
						"A request *needs RBAC* if the Node authorizer would not allow it. It fails once you delete the bindings.",
				},
				{
					Kind: Stat, Title: "Requests that need RBAC", Unit: "short", Width: 5, Height: 5, Bad: 1, Description: "Requests that fail once the binding is gone, over the time looked back.",
					Queries: []Query{{Expr: `round(sum(increase(nodetrail_findings_total{cluster=~"$cluster", rule="rbac-excess-access"}[$window]))) or vector(0)`}},
				},
				{
					Kind: Stat, Title: "Nodes left", Unit: "short", Width: 5, Height: 5, Bad: 1, Description: "Nodes with at least one request that needs RBAC.",
					Queries: []Query{{Expr: `count(sum by (cluster, node) (increase(nodetrail_node_excess_requests_total{cluster=~"$cluster"}[$window])) > 0) or vector(0)`}},
				},
				{
					Kind: Stat, Title: "Clients left", Unit: "short", Width: 5, Height: 5, Bad: 1, Description: "Programs, by the first word of their user agent, that make requests that need RBAC through the binding.",
					Queries: []Query{{Expr: `count(sum by (cluster, product) (increase(nodetrail_excess_requests_total{cluster=~"$cluster", binding=~"$binding"}[$window])) > 0) or vector(0)`}},
				},
				{
					Kind: Stat, Title: "Gaps in the input", Unit: "short", Width: 3, Height: 5, Bad: 1, Description: "Times that part of the audit log may be missing. What was not seen was not judged.",
					Queries: []Query{{Expr: `round(sum(increase(nodetrail_coverage_gaps_total{cluster=~"$cluster"}[$window]))) or vector(0)`}},
				},
				{
					Kind: Stat, Title: "Disagreements", Unit: "short", Width: 3, Height: 5, Bad: 1, Description: "Verdicts that differ from what the API server said, outside of races.",
					Queries: []Query{{Expr: `round(sum(increase(nodetrail_agreement_total{cluster=~"$cluster", outcome="disagree", race="false"}[$window]))) or vector(0)`}},
				},
				{
					Kind: Stat, Title: "Verdicts unknown", Unit: "percentunit", Width: 3, Height: 5, Bad: 0.01, Description: "Share of node requests that nodetrail could not judge, mostly because cluster state is missing.",
					Queries: []Query{{Expr: `sum(increase(nodetrail_requests_total{cluster=~"$cluster", verdict="unknown"}[$window])) / (sum(increase(nodetrail_requests_total{cluster=~"$cluster"}[$window])) > 0) or vector(0)`}},
				},
			}},
			{Title: "Checks", Panels: []Panel{
				{
					Kind: Table, Title: "Answers", Unit: "short", Width: 8, Height: 9, Description: "The answer to each question: can the bindings be deleted, is a stolen kubelet credential confined to its node.",
					Queries: []Query{{Expr: `max by (cluster, question, answer) (nodetrail_answer{cluster=~"$cluster"}) == 1`}},
				},
				{
					Kind: Table, Title: "State of each check", Unit: "short", Width: 8, Height: 9, Description: "What each check says over the last readiness.minWindow: passed, failed, unproven or waived.",
					Queries: []Query{{Expr: `max by (cluster, check, state) (nodetrail_check{cluster=~"$cluster"}) == 1`}},
				},
				{
					Kind: Graph, Title: "Checks by state", Unit: "short", Width: 8, Height: 9, Description: "How many checks are in each state.",
					Queries: []Query{{Expr: `sum by (cluster, state) (max by (cluster, check, state) (nodetrail_check{cluster=~"$cluster"}))`, Legend: "{{cluster}} {{state}}"}},
				},
			}},
			{Title: "Requests that still need RBAC", Panels: []Panel{
				{
					Kind: Graph, Title: "Requests that need RBAC by binding", Unit: "reqps", Width: 12, Height: 9, Bars: true, Description: "What comes through which binding.",
					Queries: []Query{{Expr: `sum by (cluster, binding) (rate(nodetrail_excess_requests_total{cluster=~"$cluster", binding=~"$binding"}[$__rate_interval])) or on () vector(0)`, Legend: "{{cluster}} {{binding}}"}},
				},
				{
					Kind: Graph, Title: "Requests that need RBAC by client", Unit: "reqps", Width: 12, Height: 9, Bars: true, Description: "Which program makes them: what has to be changed before the binding goes.",
					Queries: []Query{{Expr: `sum by (cluster, product) (rate(nodetrail_excess_requests_total{cluster=~"$cluster", binding=~"$binding"}[$__rate_interval])) or on () vector(0)`, Legend: "{{cluster}} {{product}}"}},
				},
				{
					Kind: Graph, Title: "Requests that need RBAC in a day", Unit: "short", Width: 12, Height: 8, Description: "Of the 24 hours before each moment. It must come to zero and stay there.",
					Queries: []Query{{Expr: `cluster:nodetrail_excess_requests:increase1d{cluster=~"$cluster"}`, Legend: "{{cluster}} needs RBAC"}},
				},
				{
					Kind: Graph, Title: "Nodes left", Unit: "short", Width: 12, Height: 8, Description: "Nodes with a request that needs RBAC in the 24 hours before each moment.",
					Queries: []Query{{Expr: `cluster:nodetrail_nodes_with_excess:count1d{cluster=~"$cluster"}`, Legend: "{{cluster}} nodes"}},
				},
			}},
			{Title: "What is left", Panels: []Panel{
				{
					Kind: Table, Title: "By binding and client", Unit: "short", Width: 14, Height: 10, Description: "Requests that need RBAC over the time looked back. The first request of a pair that is new is not counted here; it is above.",
					Queries: []Query{{Expr: `sort_desc(round(sum by (cluster, binding, product) (increase(nodetrail_excess_requests_total{cluster=~"$cluster", binding=~"$binding"}[$window]))) > 0 or on () vector(0))`}},
				},
				{
					Kind: Table, Title: "By node", Unit: "short", Width: 10, Height: 10, NodeLink: true, Description: "The 100 nodes with the most requests that need RBAC over the time looked back. A node's name leads to its dashboard.",
					Queries: []Query{{Expr: `topk(100, round(sum by (cluster, node) (increase(nodetrail_node_excess_requests_total{cluster=~"$cluster"}[$window]))) > 0) or on () vector(0)`}},
				},
			}},
		},
	}
}

package dashboards

func node() *Dashboard {
	const one = `{cluster=~"$cluster", node="$node"}`
	return &Dashboard{
		UID: "nodetrail-node", Title: "Node", Since: "now-24h",
		Description: "One node: its requests by verdict, its denials and its requests that need RBAC, next to those of the others.",
		Variables: []Variable{
			{Name: "node", Label: "Node", Description: "The name of the node. Those beyond metrics.maxNodes share other.", Query: `label_values(nodetrail_node_requests_total{cluster=~"$cluster"}, node)`},
		},
		Rows: []Row{
			{Title: "$node", Panels: []Panel{
				{
					Kind: Stat, Title: "Requests", Unit: "short", Width: 6, Height: 5, Description: "Requests of the node in the time shown, as far as a rule can need them.",
					Queries: []Query{{Expr: `round(sum(increase(nodetrail_node_requests_total` + one + `[$__range]))) or vector(0)`}},
				},
				{
					Kind: Stat, Title: "Denied by the Node authorizer", Unit: "short", Width: 6, Height: 5, Bad: 1, Description: "By the re-evaluated verdict, races included; RBAC may have allowed them.",
					Queries: []Query{{Expr: `round(sum(increase(nodetrail_node_requests_total{cluster=~"$cluster", node="$node", verdict="deny"}[$__range]))) or vector(0)`}},
				},
				{
					Kind: Stat, Title: "Needs RBAC", Unit: "short", Width: 6, Height: 5, Bad: 1, Description: "Requests that need RBAC: they fail once the binding is gone.",
					Queries: []Query{{Expr: `round(sum(increase(nodetrail_node_excess_requests_total` + one + `[$__range]))) or vector(0)`}},
				},
				{
					Kind: Stat, Title: "Share denied", Unit: "percentunit", Width: 6, Height: 5, Bad: 0.05, Description: "Of the node's requests in the time shown.",
					Queries: []Query{{Expr: `sum(increase(nodetrail_node_requests_total{cluster=~"$cluster", node="$node", verdict="deny"}[$__range])) / (sum(increase(nodetrail_node_requests_total` + one + `[$__range])) > 0) or vector(0)`}},
				},
			}},
			{Title: "Over time", Panels: []Panel{
				{
					Kind: Graph, Title: "Requests by verdict", Unit: "reqps", Width: 12, Height: 9, Description: "The re-evaluated verdict of the Node authorizer.",
					Queries: []Query{{Expr: `sum by (cluster, verdict) (rate(nodetrail_node_requests_total` + one + `[$__rate_interval]))`, Legend: "{{cluster}} {{verdict}}"}},
				},
				{
					Kind: Graph, Title: "Requests that need RBAC", Unit: "reqps", Width: 12, Height: 9, Description: "Requests that need RBAC.",
					Queries: []Query{{Expr: `sum by (cluster) (rate(nodetrail_node_excess_requests_total` + one + `[$__rate_interval]))`, Legend: "{{cluster}} needs RBAC"}},
				},
				{
					Kind: Graph, Title: "Denials, next to the other nodes", Unit: "reqps", Width: 12, Height: 9, Description: "If all nodes have denials at once the cause is not this node: an etcd restore, say, or an API server that starts.",
					Queries: []Query{
						{Expr: `sum(rate(nodetrail_node_requests_total{cluster=~"$cluster", node="$node", verdict="deny"}[$__rate_interval]))`, Legend: "this node"},
						{Expr: `quantile(0.5, sum by (cluster, node) (rate(nodetrail_node_requests_total{cluster=~"$cluster", verdict="deny"}[$__rate_interval])))`, Legend: "median of all nodes"},
						{Expr: `max(sum by (cluster, node) (rate(nodetrail_node_requests_total{cluster=~"$cluster", verdict="deny"}[$__rate_interval])))`, Legend: "most of all nodes"},
					},
				},
				{
					Kind: Graph, Title: "Requests, next to the other nodes", Unit: "reqps", Width: 12, Height: 9, Description: "A node that is silent, or asks far more than others.",
					Queries: []Query{
						{Expr: `sum(rate(nodetrail_node_requests_total` + one + `[$__rate_interval]))`, Legend: "this node"},
						{Expr: `quantile(0.5, sum by (cluster, node) (rate(nodetrail_node_requests_total{cluster=~"$cluster"}[$__rate_interval])))`, Legend: "median of all nodes"},
					},
				},
			}},
			{Title: "Which objects", Panels: []Panel{
				{
					Kind: Text, Title: "Objects and requests", Width: 24, Height: 5,
					Text: "Metrics have no names of objects: there are too many, and a node chooses them. [The pages of nodetrail](${externalURL}) list the findings of a node " +
						"with their objects and audit IDs; `nodetrail explain` says for one request why the Node authorizer allows or denies it, and which nodes can reach the object.",
				},
			}},
		},
	}
}

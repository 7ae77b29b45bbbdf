// Package dashboards holds the dashboards and the rules under dashboards/ against Prometheus itself.
//
// Each query is parsed by Prometheus' own parser and may only name metrics and labels that the program exports. promtool checks the rules and runs
// their unit tests. And Prometheus scrapes the program while it judges the bundled capture: then no panel may be without data.
package dashboards

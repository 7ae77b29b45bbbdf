// Package dashboards describes nodetrail's dashboards and alerts.
//
// What goes in: the rules, and alerts.yaml with what its comments say of each alert. What comes out: the JSON of Grafana's dashboards, the
// alerts on findings with their unit tests, and the runbook of each alert, all written by `go generate`. Nothing of the program imports it. It
// imports rules.
package dashboards

//go:generate go run ../internal/cmd/gen dashboards ..

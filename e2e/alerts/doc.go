// Package alerts has no code: its tests run nodetrail with the real Prometheus and Alertmanager, from audit events to alerts.
package alerts

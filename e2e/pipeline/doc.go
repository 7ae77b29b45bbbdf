// Package pipeline has no code: its test runs all the processes of deploy/scale-out.yaml, real ones, and kills them: kube-apiserver's audit webhook, the
// gateway, Kafka, two analyzers, PostgreSQL, Prometheus, Alertmanager, and a receiver of alerts.
package pipeline

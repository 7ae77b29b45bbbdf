// Package pipeline has no code: its test runs all the processes of deploy/scale-out.yaml, and what is before and behind them: an API server's audit webhook,
// nodetrail gateway, three Kafka brokers, two analyzers in a group on PostgreSQL, Prometheus with the rules of dashboards/, Alertmanager, and what that
// notifies. A broker, an analyzer, the store and the gateway are killed while events flow, and an analyzer is stalled until the group gives its partitions away. What
// the store then holds is compared with what analyze says of the log that has the same events.
//
// The events come from a real API server, or with -short, which needs no Kubernetes, from the bundled capture.
package pipeline

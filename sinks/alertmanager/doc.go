// Package alertmanager makes alerts of findings and sends them to all peers of a Prometheus Alertmanager cluster (API v2).
//
// What goes in: findings as they occur ([Sink.Add]), and what the store has of the last hours ([Options.Recent]). What comes out: POSTs of
// alerts to each peer, on its own and tried again on its own, so that a dead peer holds nobody up. The package imports sinks, sinks/http
// for the request itself, and rules.
//
// Findings of one rule, severity, node, namespace and resource are one alert, so that who reads a hundred secrets is one page: the objects'
// names, the client, the binding and the audit IDs are annotations. A new alert is sent at once, and then every Resend, with an end at
// least four times as far ahead, so that Alertmanager ends it by itself when nobody sends it any more. It is over ResolveAfter after its
// last finding, and is then sent as resolved for 15 minutes. An alert that no peer has taken yet is not over: it is kept, through restarts
// too, for a day at most, and then fires for ResolveAfter.
//
// Of refused requests, which a client can make without end, few alerts of one node are distinguished; they take no place of allowed ones.
//
// Nothing is reported once and then forgotten: what fires follows from the findings in the store, which are read at the start, every Resend, and
// before anything is called resolved. So alerts survive kill -9, and analyzers that share a store send the same alerts, which are one for
// Alertmanager since their labels are equal; while one of them is down the others send its alerts too. A finding older than ResolveAfter
// when it is found, as those of an old log, makes no alert and is counted.
package alertmanager

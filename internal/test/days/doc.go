// Package days simulates days of a cluster: an audit log and the journal of the state next to it, made from a seed.
//
// What goes in: a seed and Options. What comes out: a Day, as values or rendered as files. It imports internal/demo, for the roles and bindings that
// kube-apiserver makes itself; tests and internal/cmd/days import it.
//
// A clean day is what an ordinary cluster logs when no client depends on a binding for nodes. Kubelets do what real ones do, because readiness
// counts it: each renews its Lease every 10.0 to 10.4 seconds, keeps five watches that it starts again every 5 to 10 minutes, watches the secrets and
// configmaps of its pods, each by name, and registers its Node when it starts. API servers renew their identity Leases. All else (deployments, drains,
// joins, dead nodes, upgrades) is a feature of Options.
//
// The shapes of events are those of captures of real control planes, user agents and habits those of the minor. The simulated node authorizer is ahead
// or behind as a real one: it hears of a pod's binding and deletion some milliseconds late, and the odd request comes in between.
//
// A Mutation changes a day: it plants requests that need a binding, or it removes what proves the answer. It names the checks of which one must notice.
// A day and its mutations share events, so a mutation of a shared clean day costs little; they may be used by several goroutines at once.
//
//	day, err := days.Clean(1, days.Options{Span: 3 * time.Hour, Features: days.Drains})
//	m, ok := days.Named("remove-node-hour", 7)
//	day, ok = m.Apply(day)
//	log, journal := day.Log(), day.Journal()
package days

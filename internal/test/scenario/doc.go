// Package scenario is the shared corpus of scenarios: small clusters, what their nodes asked for, and what nodetrail must say of it.
//
// What goes in: txtar files, one for each real symptom or trap, named after it. What comes out: [Scenario] values with the state and the
// log as bytes that the real readers take, and with the expected verdicts and report; package analyzed puts one through app.Analyze. Several
// suites read the corpus ([Corpus], [Load]), those of packages included that app imports: so this one does not import app. Nothing but tests
// imports it.
//
// # Files
//
// The comment of a file says what it shows, where it comes from and why the expected verdicts are right. Sections, in this order, all but
// audit and want optional:
//
//	-- flags --          key: value lines, see below
//	-- cluster --        the state, in short lines; or cluster.jsonl (a journal) or cluster.yaml (a snapshot)
//	-- audit --          the log, in short lines; a line that begins with { is taken as it is
//	-- want --           a line for each judged request, in the order of judgement
//	-- report --         what the report says in short
//
// In flags, cluster and audit, empty lines and lines that begin with # do not count. Words are separated by blanks; one with
// blanks in it stands in back quotes or in Go's double quotes, also behind the = of a key. UPDATE_GOLDEN=1 lets the test rewrite want and report.
//
// # Flags
//
// kubernetes-version, feature-gates (A=true,B=false), skew, authorization-mode, state-from-audit: as for analyze, but that the version is 1.36 by default.
// day: the date of all times, 2026-11-21 by default.
// envelope: lines (default), eventlist (each line an EventList of two), array (one line), document (one indented EventList).
// damage: any of bom, crlf, nul (a run of NUL bytes before the second line), glue (the first two events on one line), torn (half a line at the end).
//
// # Cluster
//
// A line is an entry of a watch journal: the time at which a watcher saw it, what happened, the object, its fields:
//
//	06:00:00     = node worker-1
//	06:00:00     = pod shop/web-1 on=worker-1 sa=web secret=db configmap=site
//	06:04:19.448 ~ pod shop/web-2 on=worker-2
//	06:05:00     - pod shop/web-1
//
// = was there before (an hour, or created=TIME), + is new, ~ changed (fields not named stay, an empty one goes), - is deleted. A new object
// under an old name has another UID. Fields with several values come several times. repeat works as in audit lines.
//
//	pod          on sa secret env-secret pull-secret configmap pvc generic claim template(NAME:TEMPLATE) status(NAME:CLAIM) extended
//	             debug(secret of a new ephemeral container) mirror phase bound(TIME)
//	pv           claim(NS/NAME) stage publish expand controller azure (secrets, NS/NAME)
//	attachment, slice, pcr   on
//	clusterrole, role        allow(VERBS:RESOURCES[:GROUPS])
//	clusterrolebinding, rolebinding   role (rolebinding: with clusterrole/ before it where it is one) group user
//
// # Audit
//
// A line is a request, and becomes one event at level Metadata and stage ResponseComplete:
//
//	06:04:19.448 worker-1 get secrets shop/db forbid `no relationship found between node 'worker-1' and this object`
//
// That is: when it was received; who (a node's name, or a user name with a colon or in user=); verb; resource[/subresource][.group], or the
// path of another request; NAME or NS/NAME (* for the collection), not for a path; allow, forbid or - (no annotations); the reason; the
// code, by default 200, 201 for create, 403 for forbid. Then keys: id, user, groups, as, as-groups, ua, ip, cred (credential id), stage,
// took (until the stage), level, field (selector), uri (instead of the made one), name (in objectRef alone, as of a body), body,
// response, status (message). The id is e and the line's number among requests unless given. With repeat=N the line stands N times,
// every=DURATION apart, %n being the number from 1 on; the id then has it behind a #.
//
// # Want
//
//	e1: deny race observed=deny reason="…" detail="…" findings=rule(severity),rule(severity)
//
// The verdict is allow, deny, unknown, or none for who is no node; what is empty is left out. `e1#*` stands for all of a repeated line
// as long as they have the same.
package scenario

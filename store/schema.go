package store

import (
	"context"
	"fmt"
)

// migration leads from one version of the schema to the next.
type migration struct {
	statements []string
	// move takes what cannot be moved by statements alone to the new form; it may be nil.
	move func(ctx context.Context, w tx, d *dialect) error
}

// fruitlessReasons were those of requests that were allowed and then failed when version 6 of the schema was made.
const fruitlessReasons = `'read-failed', 'read-unanswered', 'write-refused-by-admission', 'write-failed', 'bypass-failed', 'object-missing',
	'admission-refused', 'request-odd', 'live-node-asked', 'beyond-join-refused'`

// migrations lead from one version of the schema to the next; the first from nothing. What was released is never changed: a change is another
// entry.
var migrations = []migration{{statements: []string{
	`CREATE TABLE lanes (lane {text} PRIMARY KEY, fence {int} NOT NULL, owner {bytes} NOT NULL, position {bytes} NOT NULL,
		latest {int} NOT NULL, updated {int} NOT NULL)`,
	`CREATE TABLE seen (second {int} NOT NULL, id {bytes} NOT NULL, PRIMARY KEY (second, id)) {clustered}`,
	`CREATE TABLE opened (lane {text} NOT NULL, id {bytes} NOT NULL, event {bytes} NOT NULL, until {int} NOT NULL, PRIMARY KEY (lane, id))`,
	`CREATE TABLE hours (hour {int} PRIMARY KEY, first {int} NOT NULL, last {int} NOT NULL,
		allow {int} NOT NULL, deny {int} NOT NULL, unknown {int} NOT NULL, race_allow {int} NOT NULL, race_deny {int} NOT NULL,
		undecided {int} NOT NULL, compared {int} NOT NULL, agree {int} NOT NULL, races_compared {int} NOT NULL, races_agree {int} NOT NULL,
		reasons_compared {int} NOT NULL, reasons_equal {int} NOT NULL, disagree_more {int} NOT NULL,
		events_read {int} NOT NULL, events_node {int} NOT NULL, events_judged {int} NOT NULL, events_duplicate {int} NOT NULL,
		events_malformed {int} NOT NULL, events_skipped {int} NOT NULL)`,
	`CREATE TABLE nodes (hour {int} NOT NULL, node {text} NOT NULL, requests {int} NOT NULL, deny {int} NOT NULL, excess {int} NOT NULL,
		PRIMARY KEY (hour, node)) {clustered}`,
	`CREATE TABLE findings (hour {int} NOT NULL, id {bytes} NOT NULL, finding {text} NOT NULL, count {int} NOT NULL, low {int} NOT NULL,
		first {int} NOT NULL, last {int} NOT NULL, message {text} NOT NULL, severity {int} NOT NULL, allowed {int} NOT NULL,
		wide {int} NOT NULL, audit_ids {text} NOT NULL, listed {int} NOT NULL, PRIMARY KEY (hour, id)) {clustered}`,
	`CREATE TABLE ambient (hour {int} NOT NULL, id {bytes} NOT NULL, access {text} NOT NULL, count {int} NOT NULL,
		PRIMARY KEY (hour, id)) {clustered}`,
	`CREATE TABLE notes (hour {int} NOT NULL, kind {int} NOT NULL, id {bytes} NOT NULL, body {bytes} NOT NULL,
		PRIMARY KEY (hour, kind, id)) {clustered}`,
	`CREATE TABLE memory (kind {text} NOT NULL, id {bytes} NOT NULL, key {bytes} NOT NULL, value {bytes} NOT NULL, at {int} NOT NULL,
		PRIMARY KEY (kind, id))`,
	`CREATE TABLE facts (instance {text} PRIMARY KEY, body {bytes} NOT NULL, at {int} NOT NULL)`,
	`CREATE TABLE alerts (id {bytes} PRIMARY KEY, key {bytes} NOT NULL, first {int} NOT NULL, last {int} NOT NULL, payload {bytes} NOT NULL)`,
	`CREATE TABLE writers (writer {bytes} PRIMARY KEY, done {int} NOT NULL, at {int} NOT NULL)`,
}}, {statements: []string{
	// What was counted before has no verdict unknown by node.
	`ALTER TABLE nodes ADD COLUMN unknown {int} NOT NULL DEFAULT 0`,
	// How often anything was added to the hour.
	`ALTER TABLE hours ADD COLUMN changes {int} NOT NULL DEFAULT 0`,
}}, {
	// Findings have a code and parameters in place of a sentence.
	statements: []string{
		`ALTER TABLE findings RENAME TO findings_worded`,
		`CREATE TABLE findings (hour {int} NOT NULL, id {bytes} NOT NULL, finding {text} NOT NULL, count {int} NOT NULL, low {int} NOT NULL,
			first {int} NOT NULL, last {int} NOT NULL, reason {text} NOT NULL, params {text} NOT NULL, severity {int} NOT NULL,
			allowed {int} NOT NULL, wide {int} NOT NULL, audit_ids {text} NOT NULL, listed {int} NOT NULL, PRIMARY KEY (hour, id)) {clustered}`,
	},
	move: moveWorded,
}, {statements: []string{
	// The ledger of evidence, a record a row, by hours of UTC whatever a step is; and what commits added that is not merged into it yet.
	`CREATE TABLE evidence (hour {int} NOT NULL, kind {int} NOT NULL, name {bytes} NOT NULL, value {bytes} NOT NULL,
		PRIMARY KEY (hour, kind, name)) {clustered}`,
	`CREATE TABLE evidence_new (writer {bytes} NOT NULL, number {int} NOT NULL, records {bytes} NOT NULL, PRIMARY KEY (writer, number))`,
}}, {statements: []string{
	// Writes that NodeRestriction was asked about, by what came of it and their kind.
	`CREATE TABLE admission (hour {int} NOT NULL, answer {text} NOT NULL, count {int} NOT NULL, PRIMARY KEY (hour, answer)) {clustered}`,
}}, {statements: []string{
	// Who made the requests of a finding, from where, and how the API server answered, each a list that repeats itself. What was counted before has none.
	`ALTER TABLE findings ADD COLUMN users {text} NOT NULL DEFAULT ''`,
	`ALTER TABLE findings ADD COLUMN user_groups {text} NOT NULL DEFAULT ''`,
	`ALTER TABLE findings ADD COLUMN impersonated {text} NOT NULL DEFAULT ''`,
	`ALTER TABLE findings ADD COLUMN addresses {text} NOT NULL DEFAULT ''`,
	`ALTER TABLE findings ADD COLUMN answers {text} NOT NULL DEFAULT ''`,
	// allowed is 2 where a request succeeded, and 1 where one was allowed and then failed. Of what was counted before only the reason tells.
	`UPDATE findings SET allowed = 2 WHERE allowed = 1 AND reason NOT IN (` + fruitlessReasons + `)`,
}}, {statements: []string{
	// What detectors look at of the requests that a commit counted, until who judges them has taken it in. What they remembered was of each lane.
	`CREATE TABLE observed (writer {bytes} NOT NULL, number {int} NOT NULL, body {bytes} NOT NULL, at {int} NOT NULL, PRIMARY KEY (writer, number))`,
	`CREATE INDEX observed_number ON observed (number)`,
	`DELETE FROM memory WHERE kind LIKE 'lane:%'`,
}}, {statements: []string{
	// The cluster whose events these are, in one row, and what its analyzers say of it in short. Before version 8 only the facts tell the name.
	`CREATE TABLE cluster (one {int} PRIMARY KEY, name {text} NOT NULL, summary {bytes} NOT NULL, at {int} NOT NULL)`,
}}, {statements: []string{
	// The answer to the request, which tells several with one ID apart. That of what was stored before is the first that comes.
	`ALTER TABLE seen ADD COLUMN answer {bytes} NOT NULL DEFAULT ''`,
}}}

// clusterVersion is the version of the schema from which on there is the table cluster.
const clusterVersion = 8

// migrate brings the schema to the newest of the versions given, within the transaction, which nobody else may run at the same time.
func migrate(ctx context.Context, w tx, versions []migration, d *dialect) error {
	if err := w.exec(ctx, d.sql(`CREATE TABLE IF NOT EXISTS meta (name {text} PRIMARY KEY, value {int} NOT NULL)`)); err != nil {
		return err
	}
	have, err := schemaVersion(ctx, w)
	if err != nil {
		return err
	}
	if have > len(versions) {
		return newerSchema(have, len(versions))
	}
	for v := have; v < len(versions); v++ {
		for _, statement := range versions[v].statements {
			if err := w.exec(ctx, d.sql(statement)); err != nil {
				return fmt.Errorf("bringing the schema to version %d: %w", v+1, err)
			}
		}
		if move := versions[v].move; move != nil {
			if err := move(ctx, w, d); err != nil {
				return fmt.Errorf("bringing what is stored to version %d of the schema: %w", v+1, err)
			}
		}
	}
	if have == len(versions) {
		return nil
	}
	return w.exec(ctx, `INSERT INTO meta (name, value) VALUES ('schema', $1) ON CONFLICT (name) DO UPDATE SET value = excluded.value`,
		int64(len(versions)))
}

func newerSchema(have, know int) error {
	return fmt.Errorf("its schema has version %d, and this program knows %d at most: it needs a newer nodetrail", have, know)
}

// schemaVersion is 0 where nothing is there yet.
func schemaVersion(ctx context.Context, r reader) (int, error) {
	version := int64(0)
	err := r.each(ctx, `SELECT value FROM meta WHERE name = 'schema'`, nil, func(scan func(...any) error) error { return scan(&version) })
	if err != nil {
		return 0, fmt.Errorf("reading the version of the schema: %w", err)
	}
	return int(version), nil
}

// check refuses to read any other schema than the newest.
func check(ctx context.Context, r reader, versions int) error {
	have, err := schemaVersion(ctx, r)
	switch {
	case err != nil:
		return err
	case have > versions:
		return newerSchema(have, versions)
	case have < versions:
		return fmt.Errorf("its schema has version %d, and this program reads %d: `nodetrail run` brings it up to date", have, versions)
	}
	return nil
}

package store

import "strings"

// kind is the type of a column.
type kind uint8

const (
	integer kind = iota // int64
	text                // string, escaped
	blob                // []byte
)

// What becomes of a column of a row that is there already. {t} is the table, {c} the column.
const (
	keep     = ""
	replace  = "excluded.{c}"
	sum      = "{t}.{c} + excluded.{c}"
	least    = "{least}({t}.{c}, excluded.{c})"
	greatest = "{greatest}({t}.{c}, excluded.{c})"
	// ofLatest is of the latest finding of the highest severity.
	ofLatest = "CASE WHEN excluded.severity > {t}.severity OR excluded.severity = {t}.severity AND excluded.last > {t}.last" +
		" THEN excluded.{c} ELSE {t}.{c} END"
	// gathered appends a list to lists, unless they hold it. It ends once they are long.
	gathered = "CASE WHEN excluded.{c} = '' OR {instr}({t}.{c}, excluded.{c}) > 0 OR length({t}.{c}) > 4000" +
		" THEN {t}.{c} ELSE {t}.{c} || excluded.{c} END"
)

type column struct {
	name  string
	kind  kind
	merge string
}

// sqlTable is a table that rows are put into. Its first columns are its key.
type sqlTable struct {
	name    string
	key     int
	columns []column
}

// The tables. Rows are put into them in this order and sorted by key, so that analyzers that share a database never wait for each other
// in a circle.
var (
	seenTable = sqlTable{"seen", 2, []column{
		{"second", integer, keep}, {"id", blob, keep}, {"answer", blob, "CASE WHEN length({t}.{c}) = 0 THEN excluded.{c} ELSE {t}.{c} END"},
	}}
	openedTable = sqlTable{"opened", 2, []column{{"lane", text, keep}, {"id", blob, keep}, {"event", blob, replace}, {"until", integer, replace}}}
	nodesTable  = sqlTable{"nodes", 2, []column{
		{"hour", integer, keep}, {"node", text, keep}, {"requests", integer, sum}, {"deny", integer, sum}, {"excess", integer, sum},
		{"unknown", integer, sum},
	}}
	findingsTable = sqlTable{"findings", 2, []column{
		{"hour", integer, keep}, {"id", blob, keep}, {"finding", text, keep}, {"count", integer, sum}, {"low", integer, sum},
		{"first", integer, least}, {"last", integer, greatest},
		{"reason", text, ofLatest}, {"params", text, ofLatest},
		{"severity", integer, greatest}, {"allowed", integer, greatest}, {"wide", integer, keep},
		{"audit_ids", text, "CASE WHEN {t}.listed >= 5 OR excluded.listed = 0 THEN {t}.audit_ids" +
			" WHEN {t}.listed = 0 THEN excluded.audit_ids ELSE {t}.audit_ids || ' ' || excluded.audit_ids END"},
		{"listed", integer, sum},
		{"users", text, gathered}, {"user_groups", text, gathered}, {"impersonated", text, gathered}, {"addresses", text, gathered}, {"answers", text, gathered},
	}}
	ambientTable = sqlTable{"ambient", 2, []column{
		{"hour", integer, keep}, {"id", blob, keep}, {"access", text, keep}, {"count", integer, sum},
	}}
	admissionTable = sqlTable{"admission", 2, []column{{"hour", integer, keep}, {"answer", text, keep}, {"count", integer, sum}}}
	notesTable     = sqlTable{"notes", 3, []column{{"hour", integer, keep}, {"kind", integer, keep}, {"id", blob, keep}, {"body", blob, keep}}}
	hoursTable     = sqlTable{"hours", 1, append([]column{{"hour", integer, keep}, {"first", integer, least}, {"last", integer, greatest}}, hourSums()...)}
	// Of memory rows the first stays or the last does.
	firstTable  = sqlTable{"memory", 2, []column{{"kind", text, keep}, {"id", blob, keep}, {"key", blob, keep}, {"value", blob, keep}, {"at", integer, keep}}}
	latestTable = sqlTable{"memory", 2, []column{
		{"kind", text, keep}, {"id", blob, keep}, {"key", blob, keep}, {"value", blob, replace}, {"at", integer, replace},
	}}
	evidenceTable = sqlTable{"evidence", 3, []column{
		{"hour", integer, keep}, {"kind", integer, keep}, {"name", blob, keep}, {"value", blob, replace},
	}}
	evidenceNewTable = sqlTable{"evidence_new", 2, []column{{"writer", blob, keep}, {"number", integer, keep}, {"records", blob, keep}}}
	observedTable    = sqlTable{"observed", 2, []column{{"writer", blob, keep}, {"number", integer, keep}, {"body", blob, keep}, {"at", integer, keep}}}
	factsTable       = sqlTable{"facts", 1, []column{{"instance", text, keep}, {"body", blob, replace}, {"at", integer, replace}}}
	alertsTable      = sqlTable{"alerts", 1, []column{
		{"id", blob, keep}, {"key", blob, keep}, {"first", integer, replace}, {"last", integer, replace}, {"payload", blob, replace},
	}}
	lanesTable = sqlTable{"lanes", 1, []column{
		{"lane", text, keep}, {"fence", integer, keep}, {"owner", blob, keep},
		{"position", blob, "CASE WHEN length(excluded.position) = 0 THEN {t}.position ELSE excluded.position END"},
		{"latest", integer, greatest}, {"updated", integer, replace},
	}}
)

// sumNames are the columns of an hour that add up, in the order of sumsOf.
func sumNames() []string {
	return []string{
		"allow", "deny", "unknown", "race_allow", "race_deny", "undecided", "compared", "agree", "races_compared", "races_agree",
		"reasons_compared", "reasons_equal", "disagree_more",
		"events_read", "events_node", "events_judged", "events_duplicate", "events_malformed", "events_skipped",
	}
}

func hourSums() []column {
	var out []column
	for _, name := range sumNames() {
		out = append(out, column{name, integer, sum})
	}
	return append(out, column{"changes", integer, sum})
}

// batch is rows for one table, sorted by key, each key once.
type batch struct {
	t    *sqlTable
	n    int
	args []any // row by row; int64, string or []byte, as the columns say
}

func (b *batch) add(row ...any) {
	for i, v := range row {
		if v, ok := v.([]byte); ok && v == nil {
			row[i] = []byte{} // nil would be NULL
		}
	}
	b.n++
	b.args = append(b.args, row...)
}

// dialect is in what the SQL of the two databases differs.
type dialect struct {
	integer, text, bytes string
	least, greatest      string
	instr                string // the position of the second text in the first, 0 for none
	clustered            string // a table whose rows lie in the order of its key
	lock                 string // locks what is selected until the transaction ends
}

// sql fills in the dialect's words.
func (d *dialect) sql(s string) string {
	return strings.NewReplacer("{int}", d.integer, "{text}", d.text, "{bytes}", d.bytes, "{least}", d.least, "{greatest}", d.greatest,
		"{clustered}", d.clustered, "{instr}", d.instr, "{lock}", d.lock).Replace(s)
}

// names lists the first n columns.
func (t *sqlTable) names(n int) string {
	var all []string
	for _, c := range t.columns[:n] {
		all = append(all, c.name)
	}
	return strings.Join(all, ", ")
}

// insert is the statement that puts rows in; values is where they come from.
func (t *sqlTable) insert(d *dialect, values string) string {
	var set []string
	for _, c := range t.columns {
		if c.merge != keep {
			set = append(set, c.name+" = "+strings.NewReplacer("{t}", t.name, "{c}", c.name).Replace(c.merge))
		}
	}
	s := "INSERT INTO " + t.name + " (" + t.names(len(t.columns)) + ") " + values + " ON CONFLICT (" + t.names(t.key) + ") DO "
	if len(set) == 0 {
		return s + "NOTHING"
	}
	return d.sql(s + "UPDATE SET " + strings.Join(set, ", "))
}

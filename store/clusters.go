package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Cluster is what a database holds of one cluster.
type Cluster struct {
	// Name is the cluster's, "" for a store without one. Schema is where its store is; it differs from that of every other cluster.
	Name, Schema string
	// Newest is as of Store.Newest.
	Newest time.Time
	// Summary is what was put last, and At when; both are zero before that.
	Summary json.RawMessage
	At      time.Time
	// Err is why the store cannot be read; then only Schema is known.
	Err error
}

func (c *Cluster) broken() bool { return c.Err != nil }

// OtherClusterError refuses to write the events of one cluster into the store of another one.
type OtherClusterError struct {
	Schema     string
	Have, Want string // "" for no name
}

// Error says which cluster the store is of.
func (e *OtherClusterError) Error() string {
	if e.Want == "" {
		return fmt.Sprintf("the schema %q is the store of the cluster %q, and the configuration names no cluster: set cluster, or another schema", e.Schema, e.Have)
	}
	return fmt.Sprintf("the schema %q is the store of the cluster %q, and not of %q: set another schema, or none", e.Schema, e.Have, e.Want)
}

// UnknownClusterError is that there is no store of a cluster, or none that may be read.
type UnknownClusterError struct {
	Name  string
	There []string // the clusters that may be read, sorted; a store without a name is left out
	// Unnamed are the schemas of stores without a name, or whose name cannot be read.
	Unnamed []string
}

// Error lists the clusters that are there.
func (e *UnknownClusterError) Error() string {
	there := "there is no cluster that this user may read"
	switch unnamed := "stores without a name in the schemas " + quotedNames(e.Unnamed); {
	case len(e.There) > 0 && len(e.Unnamed) > 0:
		there = "there are " + quotedNames(e.There) + ", and " + unnamed
	case len(e.There) > 0:
		there = "there are " + quotedNames(e.There)
	case len(e.Unnamed) > 0:
		there = "there are " + unnamed
	}
	if e.Name == "" {
		return "no cluster is named, by --cluster or by the configuration: " + there
	}
	return fmt.Sprintf("there is no cluster %q: %s", e.Name, there)
}

func quotedNames(names []string) string {
	const most = 20
	var out []string
	for _, n := range names[:min(len(names), most)] {
		out = append(out, strconv.Quote(n))
	}
	if more := len(names) - most; more > 0 {
		out = append(out, fmt.Sprintf("%d more", more))
	}
	return strings.Join(out, ", ")
}

// unnamed is the schema of a store that no cluster was named for.
const unnamed = "nodetrail"

var plainCluster = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,50}$`)

// schemaOf is the schema that is made for a cluster. Names differ in it whatever they hold: what is not plain has a hash behind a ~, which no plain
// name has.
func schemaOf(cluster string) string {
	if plainCluster.MatchString(cluster) {
		return unnamed + "_" + cluster
	}
	readable := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(cluster))
	sum := sha256.Sum256([]byte(cluster))
	return unnamed + "_" + readable[:min(len(readable), 30)] + "~" + hex.EncodeToString(sum[:8])
}

// placeOf finds the schema of a cluster, by a connection of its own: the schema has to be known before the store's connections are made. A store that
// writes gets a new schema where there is none, or the one without a name if all its facts are of the cluster.
func placeOf(ctx context.Context, config *pgx.ConnConfig, o Options) (string, error) {
	if o.Cluster == "" && !o.ReadOnly {
		return unnamed, nil
	}
	c := config.Copy()
	c.RuntimeParams["search_path"] = "pg_catalog"
	tune(c)
	conn, err := pgx.ConnectConfig(ctx, c)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // nothing was written
	all, err := listClusters(ctx, conn, time.Now())
	if err != nil {
		return "", err
	}
	own := unnamed
	if o.Cluster != "" {
		own = schemaOf(o.Cluster)
	}
	if slices.ContainsFunc(all, func(c Cluster) bool { return c.Schema == own && errors.Is(c.Err, errTablesGone) }) {
		return "", fmt.Errorf("the schema %q: %w", own, errTablesGone)
	}
	if o.ReadOnly {
		return toRead(all, own, o.Cluster)
	}
	there := false
	if err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)`, own).Scan(&there); err != nil {
		return "", err
	}
	if there {
		return own, nil
	}
	switch of := schemasOf(all, o.Cluster); len(of) {
	case 0:
	case 1:
		return of[0], nil
	default:
		return "", severalSchemas(o.Cluster, of)
	}
	i := slices.IndexFunc(all, func(c Cluster) bool { return c.Schema == unnamed && c.Name == "" && !errors.Is(c.Err, errNoRight) })
	if i < 0 {
		return own, nil
	}
	mine, err := factsOf(ctx, conn, o.Cluster)
	if err != nil {
		return "", err
	}
	if mine {
		return unnamed, nil
	}
	o.Log.Warn().Str("cluster", o.Cluster).Str("schema", own).
		Msg("the schema nodetrail has a store without a cluster's name, which is not used: if it is of this cluster, set store.postgres.schema: nodetrail once")
	return own, nil
}

func severalSchemas(cluster string, of []string) error {
	return fmt.Errorf("the schemas %s are all stores of the cluster %q: set store.postgres.schema to one of them", quotedNames(of), cluster)
}

// schemasOf are the schemas of a name.
func schemasOf(all []Cluster, name string) (out []string) {
	for i := range all {
		if all[i].Err == nil && all[i].Name == name {
			out = append(out, all[i].Schema)
		}
	}
	return out
}

// toRead is the schema of the cluster to be read. Opening one that cannot be read says what is wrong with it.
func toRead(all []Cluster, own, cluster string) (string, error) {
	var of []string
	if cluster != "" {
		of = schemasOf(all, cluster)
	}
	i := slices.IndexFunc(all, func(c Cluster) bool { return c.Schema == own })
	switch {
	case i >= 0 && (all[i].Name == cluster || all[i].broken()):
		return own, nil
	case cluster == "" && len(all) == 1:
		return all[0].Schema, nil
	case cluster == "" && len(all) == 0:
		return own, nil
	case len(of) == 1:
		return of[0], nil
	case len(of) > 1:
		return "", severalSchemas(cluster, of)
	}
	e := &UnknownClusterError{Name: cluster}
	for i := range all {
		if all[i].Name == "" {
			e.Unnamed = append(e.Unnamed, all[i].Schema)
		} else {
			e.There = append(e.There, all[i].Name)
		}
	}
	slices.Sort(e.There)
	e.There = slices.Compact(e.There)
	return "", e
}

// factsOf reports whether the facts in the store without a name are of one cluster.
func factsOf(ctx context.Context, conn *pgx.Conn, cluster string) (bool, error) {
	rows, err := conn.Query(ctx, `SELECT body FROM `+quoted(unnamed)+`.facts`)
	if err != nil {
		return false, err
	}
	bodies, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	mine := false
	for _, b := range bodies {
		var f struct {
			Cluster string `json:"cluster"`
		}
		if err := json.Unmarshal(b, &f); err != nil {
			return false, fmt.Errorf("reading the facts of the schema %s: %w", unnamed, err)
		}
		if f.Cluster != "" && f.Cluster != cluster {
			return false, err
		}
		mine = mine || f.Cluster == cluster
	}
	return mine, err
}

// claim makes a store the one of a cluster, for good. It runs while the schema is locked.
func claim(ctx context.Context, w tx, schema, cluster string) error {
	have, err := nameIn(ctx, w)
	switch {
	case err != nil:
		return fmt.Errorf("reading whose store it is: %w", err)
	case have == cluster:
		return nil
	case have != "":
		return &OtherClusterError{Schema: schema, Have: have, Want: cluster}
	}
	return w.exec(ctx, `INSERT INTO cluster (one, name, summary, at) VALUES (1, $1, '', 0) ON CONFLICT (one) DO UPDATE SET name = excluded.name`, escape(cluster))
}

// ofCluster refuses to read the store of another cluster. A store without a name is that of who names its schema.
func ofCluster(ctx context.Context, r reader, schema, cluster string) error {
	have, err := nameIn(ctx, r)
	if err == nil && have != "" && have != cluster {
		err = &OtherClusterError{Schema: schema, Have: have, Want: cluster}
	}
	return err
}

// ClusterName is the name of the cluster that the store is of, "" for none.
func (s *Store) ClusterName(ctx context.Context) (name string, err error) {
	err = s.read(ctx, "reading whose store it is", func(r reader) (err error) {
		name, err = nameIn(ctx, r)
		return err
	})
	return name, err
}

func nameIn(ctx context.Context, r reader) (name string, err error) {
	err = r.each(ctx, `SELECT name FROM cluster`, nil, func(scan func(...any) error) (err error) {
		if err = scan(&name); err == nil {
			name, err = unescape(name)
		}
		return err
	})
	return name, err
}

// PutSummary stores in short what there is to be said of the cluster, as JSON, for Clusters.
func (s *Store) PutSummary(ctx context.Context, summary json.RawMessage, at time.Time) error {
	if err := s.turn.take(ctx); err != nil {
		return err
	}
	defer s.turn.give()
	return s.write(ctx, "storing the summary", func(w tx) error {
		return w.exec(ctx, `INSERT INTO cluster (one, name, summary, at) VALUES (1, '', $1, $2)
			ON CONFLICT (one) DO UPDATE SET summary = excluded.summary, at = excluded.at`, []byte(summary), nanos(at, noLast))
	})
}

// Clusters reads of which clusters a PostgreSQL database has stores. Its methods may be called concurrently.
type Clusters struct {
	pool *pgxpool.Pool
	name string
}

// OpenClusters connects to a database; whatever schema the DSN names, all are looked at. No error holds the DSN's password.
func OpenClusters(ctx context.Context, dsn string) (*Clusters, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("reading the PostgreSQL DSN: %w", withoutDSN(err))
	}
	c := config.ConnConfig
	c.RuntimeParams["search_path"] = "pg_catalog"
	tune(c)
	config.MaxConns = 2
	out := &Clusters{name: describe(c)}
	if out.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, fmt.Errorf("opening %s: %w", out.name, err)
	}
	return out, nil
}

// Close closes the connections.
func (c *Clusters) Close() { c.pool.Close() }

// List returns the clusters whose stores the database's user may read, by name and schema. It asks twice, however many they are; a cluster that cannot
// be read says why in its Err, and hides no other.
func (c *Clusters) List(ctx context.Context, now time.Time) ([]Cluster, error) {
	all, err := listClusters(ctx, c.pool, now)
	if err != nil {
		return nil, fmt.Errorf("listing the clusters in %s: %w", c.name, lineError{err})
	}
	return all, nil
}

// querier is a connection or a pool.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// findStores selects the schemas that have a store, or most of one, and may be used, with whether its summary may be read and no table is missing.
const findStores = `SELECT n.nspname::text, EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = n.oid AND c.relname = 'cluster' AND c.relkind = 'r'),
	coalesce((SELECT bool_and(has_table_privilege(t.oid, 'SELECT')) FROM pg_class t WHERE t.relnamespace = n.oid AND t.relkind = 'r' AND t.relname IN ('cluster', 'hours', 'facts')), false), s.tables = 6
	FROM pg_namespace n, LATERAL (SELECT count(*) AS tables, bool_and(t.relname <> 'meta' OR has_table_privilege(t.oid, 'SELECT')) AS seen FROM pg_class t
		WHERE t.relnamespace = n.oid AND t.relkind = 'r' AND t.relname IN ('meta', 'lanes', 'seen', 'hours', 'findings', 'facts')) s
	WHERE has_schema_privilege(n.oid, 'USAGE') AND s.tables >= 4 AND s.seen
	ORDER BY n.nspname`

var (
	errOldStore   = errors.New("the store is of an older version: `nodetrail run` brings it up to date")
	errTablesGone = errors.New("the store is damaged, tables are missing: restore a backup, or remove the schema to begin with an empty store")
	errNoRight    = errors.New("the database's user may not read all tables of the store")
)

func listClusters(ctx context.Context, q querier, now time.Time) ([]Cluster, error) {
	rows, err := q.Query(ctx, findStores)
	if err != nil {
		return nil, err
	}
	var out []Cluster
	var readable []int
	for rows.Next() {
		var one Cluster
		var current, allowed, whole bool
		if err := rows.Scan(&one.Schema, &current, &allowed, &whole); err != nil {
			rows.Close()
			return nil, err
		}
		switch {
		case !allowed:
			one.Err = errNoRight
		case !whole:
			one.Err = errTablesGone
		case !current:
			one.Err = errOldStore
		default:
			readable = append(readable, len(out))
		}
		out = append(out, one)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	if err := summaries(ctx, q, now, out, readable); err != nil {
		// One of them may have gone, or is not what it seems. Which one that is shows when each is asked for alone.
		for _, i := range readable {
			if one := summaries(ctx, q, now, out, []int{i}); one != nil {
				out[i] = Cluster{Schema: out[i].Schema, Err: lineError{one}}
			}
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	slices.SortFunc(out, func(a, b Cluster) int {
		if n := strings.Compare(a.Name, b.Name); n != 0 {
			return n
		}
		return strings.Compare(a.Schema, b.Schema)
	})
	return out, nil
}

// summaries reads what the stores at the places say of themselves, in one query.
func summaries(ctx context.Context, q querier, now time.Time, all []Cluster, places []int) error {
	if len(places) == 0 {
		return nil
	}
	var parts []string
	for _, i := range places {
		s := quoted(all[i].Schema)
		parts = append(parts, fmt.Sprintf(`SELECT %d, c.name, c.summary, c.at, h.last FROM
			(SELECT coalesce(max(last) FILTER (WHERE last <= $1), max(last)) AS last FROM %s.hours) h LEFT JOIN %s.cluster c ON c.one = 1`, i, s, s))
	}
	rows, err := q.Query(ctx, strings.Join(parts, " UNION ALL "), now.Add(ahead).UnixNano())
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var i int
		var name *string
		var summary []byte
		var at, last *int64
		if err := rows.Scan(&i, &name, &summary, &at, &last); err != nil {
			return err
		}
		one := &all[i]
		if name != nil {
			if one.Name, err = unescape(*name); err != nil {
				return fmt.Errorf("reading the cluster's name: %w", err)
			}
		}
		if len(summary) > 0 && at != nil {
			one.Summary, one.At = summary, fromNanos(*at)
		}
		if last != nil {
			one.Newest = fromNanos(*last)
		}
	}
	return rows.Err()
}

package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/tally"
)

// database makes a database of the server that no other test has, and runs statements as its owner.
func database(t testing.TB, name string) (dsn string, run func(statements ...string)) {
	t.Helper()
	of := server.Shared(t).DSN()
	exec := func(dsn string, statements ...string) {
		t.Helper()
		conn, err := pgx.Connect(context.Background(), dsn)
		ok(t, err)
		defer func() { _ = conn.Close(context.Background()) }()
		for _, s := range statements {
			if _, err := conn.Exec(context.Background(), s); err != nil {
				t.Fatalf("%s: %v", s, err)
			}
		}
	}
	exec(of, "CREATE DATABASE "+name)
	u, err := url.Parse(of)
	ok(t, err)
	u.Path = "/" + name
	return u.String(), func(statements ...string) { t.Helper(); exec(u.String(), statements...) }
}

func openCluster(t testing.TB, dsn string, o Options) *Store {
	t.Helper()
	s, err := OpenPostgres(t.Context(), dsn, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func schemaNow(t testing.TB, s *Store) (schema string) {
	t.Helper()
	ok(t, s.read(t.Context(), "", func(r reader) error {
		return r.each(t.Context(), `SELECT current_schema()::text`, nil, func(scan func(...any) error) error { return scan(&schema) })
	}))
	return schema
}

func listed(t testing.TB, dsn string) []Cluster {
	t.Helper()
	c, err := OpenClusters(t.Context(), dsn)
	ok(t, err)
	defer c.Close()
	all, err := c.List(t.Context(), start)
	ok(t, err)
	return all
}

// clusterNames are names of clusters that an administrator may give, and some that nobody should.
var clusterNames = []string{
	"prod", "Prod", "prod/eu", `a"b; DROP SCHEMA public CASCADE; --`, `'; SELECT pg_sleep(9); --`, "<script>alert(1)</script>", "..", ".", "-x", "pg_catalog", "public",
	"é☃", "\u202e\u2066rtl", strings.Repeat("n", 60), strings.Repeat("n", 61), strings.Repeat("ü", 120), "$1", `\x00`, "%s%d", "nodetrail", "a b", "x~0123456789abcdef",
}

// Every cluster has a schema of its own that is found by its name alone, whatever the name holds; what is written for one is not read for another.
func TestClustersApart(t *testing.T) {
	dsn, _ := database(t, "apart")
	openCluster(t, dsn, Options{}) // the one without a name
	schemas := map[string]string{unnamed: ""}
	for i, name := range clusterNames {
		for range 2 { // the second finds what the first has made
			s := openCluster(t, dsn, Options{Cluster: name})
			schema := schemaNow(t, s)
			if of, taken := schemas[schema]; taken && of != name || len(schema) > 63 {
				t.Fatalf("%q and %q share the schema %q", of, name, schema)
			}
			schemas[schema] = name
			must(s.Acquire(t.Context(), "lane", 0, 0))(t)
			ok(t, s.Commit(t.Context(), commit("lane", 0, fmt.Sprint("of ", name), tally.Entry{ID: tally.IDOf(name), Time: at(time.Duration(i) * time.Hour), IsNode: true, Node: name})))
			ok(t, s.PutSummary(t.Context(), []byte(fmt.Sprintf(`{"n":%d}`, i)), start))
		}
	}
	all := listed(t, dsn)
	if len(all) != len(clusterNames)+1 {
		t.Errorf("%d clusters are listed, want %d", len(all), len(clusterNames)+1)
	}
	for _, c := range all {
		if c.Err != nil || schemas[c.Schema] != c.Name {
			t.Errorf("schema %q is of %q, listed as %q: %v", c.Schema, schemas[c.Schema], c.Name, c.Err)
		}
	}
	for i, name := range clusterNames {
		s := openCluster(t, dsn, Options{Cluster: name, ReadOnly: true, ByName: true})
		sum, err := s.Tally(t.Context(), time.Time{}, time.Time{})
		ok(t, err)
		if got := must(s.ClusterName(t.Context()))(t); got != name || len(sum.Nodes) != 1 || sum.Nodes[name] == nil {
			t.Errorf("the store of %q is of %q and has %v", name, got, sum.Nodes)
		}
		one := all[slices.IndexFunc(all, func(c Cluster) bool { return c.Name == name })]
		// What lies more than an hour ahead of the clock is no last request, unless there is no other.
		if !one.Newest.Equal(at(time.Duration(i)*time.Hour)) || string(one.Summary) != fmt.Sprintf(`{"n":%d}`, i) || !one.At.Equal(start) {
			t.Errorf("%q: %+v", name, one)
		}
	}
	if _, err := OpenPostgres(t.Context(), dsn, Options{Cluster: "nobody", ReadOnly: true}); !strings.HasSuffix(fmt.Sprint(err), `, and stores without a name in the schemas "nodetrail"`) {
		t.Errorf("reading a cluster that is not there: %v", err)
	}
	_, err := OpenPostgres(t.Context(), dsn, Options{Cluster: "nobody", ReadOnly: true})
	var unknown *UnknownClusterError
	if !errors.As(err, &unknown) || len(unknown.There) != len(clusterNames) || !strings.Contains(err.Error(), `there is no cluster "nobody": there are "$1", `) || strings.Contains(err.Error(), "\n") {
		t.Errorf("reading a cluster that is not there: %v", err)
	}
}

// A store is of one cluster for good. An analyzer of another one, or of none, is refused, and nothing of it is stored.
func TestClusterClaimed(t *testing.T) {
	dsn, _ := database(t, "claimed")
	openCluster(t, dsn, Options{Schema: "mine", Cluster: "a"})
	for _, o := range []Options{{Schema: "mine", Cluster: "b"}, {Schema: "mine"}} {
		_, err := OpenPostgres(t.Context(), dsn, o)
		var other *OtherClusterError
		if !errors.As(err, &other) || *other != (OtherClusterError{Schema: "mine", Have: "a", Want: o.Cluster}) {
			t.Errorf("opened for %q: %v", o.Cluster, err)
		}
	}
	_, err := OpenPostgres(t.Context(), dsn, Options{Schema: "mine", Cluster: "b", ReadOnly: true})
	var other *OtherClusterError
	if !errors.As(err, &other) {
		t.Errorf("read for b: %v", err)
	}
	openCluster(t, dsn, Options{Schema: "mine", Cluster: "a", ReadOnly: true})
	openCluster(t, dsn, Options{Schema: "mine", ReadOnly: true})
	// The name leads to it, without the schema.
	if got := schemaNow(t, openCluster(t, dsn, Options{Cluster: "a"})); got != "mine" {
		t.Errorf("a is in %q", got)
	}
	// Two stores of one name: neither is guessed.
	openCluster(t, dsn, Options{Schema: "mine2", Cluster: "a"})
	for _, o := range []Options{{Cluster: "a"}, {Cluster: "a", ReadOnly: true}} {
		if _, err := OpenPostgres(t.Context(), dsn, o); err == nil || !strings.Contains(err.Error(), `"mine", "mine2" are all stores of the cluster "a"`) {
			t.Errorf("one of two was opened: %v", err)
		}
	}
}

// A store from before clusters had places is found by the cluster that its facts are of, and by no other.
func TestClusterAdopts(t *testing.T) {
	for name, c := range map[string]struct {
		facts []string
		adopt bool
	}{
		"same":      {[]string{`{"cluster":"prod"}`}, true},
		"oneUnsaid": {[]string{`{"cluster":"prod"}`, `{}`}, true},
		"unsaid":    {[]string{`{}`, `{"cluster":""}`}, false},
		"nofacts":   {nil, false},
		"other":     {[]string{`{"cluster":"test"}`}, false},
		"mixed":     {[]string{`{"cluster":"prod"}`, `{"cluster":"test"}`}, false},
	} {
		t.Run(name, func(t *testing.T) {
			dsn, run := database(t, "adopt"+strings.ToLower(name))
			old, err := openShared(t.Context(), dsn, Options{}, migrations[:clusterVersion-1])
			ok(t, err)
			ok(t, old.close())
			for i, f := range c.facts {
				run(fmt.Sprintf(`INSERT INTO nodetrail.facts (instance, body, at) VALUES ('i%d', '%s', 1)`, i, f))
			}
			for _, one := range listed(t, dsn) {
				if one.Schema != unnamed || !errors.Is(one.Err, errOldStore) {
					t.Errorf("before: %+v", one)
				}
			}
			// The first analyzer that is started after the upgrade brings the schema up to date, whichever it is.
			if _, err := OpenPostgres(t.Context(), dsn, Options{Cluster: "prod", ReadOnly: true}); err == nil {
				t.Error("a store that is not there was read")
			}
			want := "nodetrail_prod"
			if c.adopt {
				want = unnamed
			}
			for range 2 {
				if got := schemaNow(t, openCluster(t, dsn, Options{Cluster: "prod"})); got != want {
					t.Fatalf("prod is in %q, want %q", got, want)
				}
			}
			if got := schemaNow(t, openCluster(t, dsn, Options{Cluster: "staging"})); got != "nodetrail_staging" {
				t.Errorf("staging is in %q", got)
			}
			if _, err := OpenPostgres(t.Context(), dsn, Options{}); (err != nil) != c.adopt {
				t.Errorf("an analyzer without a cluster: %v", err)
			}
			if !c.adopt { // said once, it is the cluster's
				s := openCluster(t, dsn, Options{Schema: unnamed, Cluster: "dev"})
				if got := must(s.ClusterName(t.Context()))(t); got != "dev" {
					t.Errorf("it is of %q", got)
				}
				if got := schemaNow(t, openCluster(t, dsn, Options{Cluster: "dev"})); got != unnamed {
					t.Errorf("dev is in %q", got)
				}
			}
		})
	}
}

// Who may read one schema sees one cluster, and no error: not in the list, not by name, and not without a name.
func TestClusterRights(t *testing.T) {
	dsn, run := database(t, "rights")
	for _, name := range []string{"a", "b", "c"} {
		openCluster(t, dsn, Options{Cluster: name})
	}
	run(`CREATE ROLE only_b LOGIN`, `GRANT USAGE ON SCHEMA nodetrail_b TO only_b`, `GRANT SELECT ON ALL TABLES IN SCHEMA nodetrail_b TO only_b`,
		`GRANT SELECT ON ALL TABLES IN SCHEMA nodetrail_c TO only_b`, // but no right to use the schema
		`CREATE ROLE half LOGIN`, `GRANT USAGE ON SCHEMA nodetrail_a, nodetrail_b TO half`, `GRANT SELECT ON ALL TABLES IN SCHEMA nodetrail_a TO half`,
		`GRANT SELECT ON nodetrail_b.meta TO half`, `CREATE ROLE nobody LOGIN`)
	as := func(user string) string {
		u, err := url.Parse(dsn)
		ok(t, err)
		u.User = url.User(user)
		return u.String()
	}
	if all := listed(t, as("only_b")); len(all) != 1 || all[0].Name != "b" || all[0].Err != nil {
		t.Errorf("seen by who may read b: %+v", all)
	}
	for _, o := range []Options{{ReadOnly: true}, {ReadOnly: true, Cluster: "b"}, {ReadOnly: true, Cluster: "b", ByName: true, Schema: "nodetrail_a"}} {
		if got := schemaNow(t, openCluster(t, as("only_b"), o)); got != "nodetrail_b" {
			t.Errorf("%+v reads %q", o, got)
		}
	}
	_, err := OpenPostgres(t.Context(), as("only_b"), Options{ReadOnly: true, Cluster: "a"})
	if err == nil || !strings.HasSuffix(err.Error(), `there is no cluster "a": there are "b"`) {
		t.Errorf("reading a without the right to: %v", err)
	}
	all := listed(t, as("half"))
	if len(all) != 2 || all[1].Name != "a" || all[1].Err != nil || !errors.Is(all[0].Err, errNoRight) || all[0].Schema != "nodetrail_b" {
		t.Errorf("seen with half of the rights to b: %+v", all)
	}
	if all := listed(t, as("nobody")); len(all) != 0 {
		t.Errorf("seen without rights: %+v", all)
	}
	_, err = OpenPostgres(t.Context(), as("nobody"), Options{ReadOnly: true, Cluster: "a"})
	if err == nil || !strings.HasSuffix(err.Error(), `there is no cluster "a": there is no cluster that this user may read`) {
		t.Errorf("reading without rights: %v", err)
	}
}

// countedPool counts the queries of a pool.
type countedPool struct {
	*pgxpool.Pool
	n int
}

func (c *countedPool) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	c.n++
	return c.Pool.Query(ctx, sql, args...)
}

// Fifty clusters are listed by as many queries as one. What only looks like a store, or is broken, takes nothing from the others.
func TestClustersListed(t *testing.T) {
	most := effort.Of(50, 12)
	dsn, run := database(t, "many")
	for i := range most {
		s := openCluster(t, dsn, Options{Cluster: fmt.Sprintf("c%02d", i)})
		ok(t, s.PutSummary(t.Context(), []byte(`{}`), start))
		ok(t, s.Close())
	}
	pool, err := pgxpool.New(t.Context(), dsn)
	ok(t, err)
	defer pool.Close()
	q := &countedPool{Pool: pool}
	all, err := listClusters(t.Context(), q, start)
	if err != nil || len(all) != most || q.n != 2 {
		t.Errorf("%d clusters by %d queries: %v", len(all), q.n, err)
	}
	run(`CREATE SCHEMA notours`, `CREATE TABLE notours.meta (name text)`, `CREATE TABLE notours.cluster (name text)`,
		`CREATE SCHEMA looks`, `CREATE TABLE looks.meta (x int)`, `CREATE TABLE looks.lanes (x int)`, `CREATE TABLE looks.seen (x int)`, `CREATE TABLE looks.hours (x int)`,
		`CREATE TABLE looks.findings (x int)`, `CREATE TABLE looks.facts (x int)`, `CREATE TABLE looks.cluster (x int)`,
		`UPDATE nodetrail_c05.cluster SET name = '\zz'`, `DROP TABLE nodetrail_c06.lanes`, `DROP TABLE nodetrail_c07.meta`)
	all, err = listClusters(t.Context(), q, start)
	ok(t, err)
	broken := map[string]bool{}
	for _, c := range all {
		if c.Err != nil {
			broken[c.Schema] = true
		} else if string(c.Summary) != `{}` || c.Name == "" {
			t.Errorf("%+v", c)
		}
	}
	if len(all) != most+1 || !maps.Equal(broken, map[string]bool{"looks": true, "nodetrail_c05": true, "nodetrail_c06": true, "nodetrail_c07": true}) {
		t.Errorf("%d are listed, broken are %v", len(all), broken)
	}
}

// Writers of one cluster do not wait for who prunes another one, and wait for who prunes theirs, also in a store from before clusters had places.
func TestClusterLocks(t *testing.T) {
	dsn, run := database(t, "locks")
	a, b := openCluster(t, dsn, Options{Cluster: "a"}), openCluster(t, dsn, Options{Cluster: "b"})
	again := openCluster(t, dsn, Options{Cluster: "a"})
	key := func(s *Store) int64 { return s.db.(*shared).lock }
	if key(a) == key(b) || key(a) != key(again) || key(a) == pruneLock {
		t.Errorf("the locks are %x, %x and %x", key(a), key(again), key(b))
	}
	run(`DELETE FROM nodetrail_a.meta WHERE name = 'lock'`)
	if s := openCluster(t, dsn, Options{Cluster: "a"}); key(s) != pruneLock {
		t.Errorf("the lock of an old store is %x", key(s))
	}
	ok(t, a.db.write(t.Context(), true, func(tx) error {
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		return b.db.write(ctx, false, func(tx) error { return nil }) // it would never get it
	}))
}

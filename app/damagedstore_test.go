package app

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5" //nolint:depguard // a database of the test's own
)

// Somebody drops a table of the store while run uses it. What was not stored makes run fail when it ends, although a commit without it succeeds, and
// report says what is wrong with the store.
func TestTableDropped(t *testing.T) {
	dir, dsn := t.TempDir(), newDatabase(t, "damaged")
	db, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close(context.Background()) }()
	path, log := filepath.Join(dir, "nodetrail.yaml"), filepath.Join(dir, "audit.log")
	text := fmt.Sprintf("cluster: prod\ndata: %s/data\nlisten: 127.0.0.1:0\nstate: {files: [%s/journal.jsonl.gz]}\nstore: {postgres: {dsn: %q}}\n", dir, capture, dsn)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	lines, ended := make(signalWriter, 1000), make(chan error, 1)
	go func() {
		ended <- Run(ctx, RunOptions{StoreOptions: StoreOptions{Config: path}, Logs: []string{log}, Log: LogTo{W: lines}})
	}()
	await := func(what string) {
		t.Helper()
		lines.await(t, what, ended)
	}
	await(`"message":"running"`)
	drop := func(table string) {
		t.Helper()
		if _, err := db.Exec(t.Context(), "DROP TABLE nodetrail_prod."+table); err != nil {
			t.Fatal(err)
		}
	}
	drop("nodes")
	if err := os.WriteFile(log, unpacked(t, filepath.Join(capture, "audit.log.gz")), 0o600); err != nil {
		t.Fatal(err)
	}
	await("commit failed; acknowledgements paused")
	stop()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "its sources will bring it again") {
		t.Errorf("it ends with %v", err)
	}
	drop("lanes")
	_, err = Report(t.Context(), ReportOptions{StoreOptions: StoreOptions{Config: path}})
	if err == nil || !strings.Contains(err.Error(), `the schema "nodetrail_prod": the store is damaged, tables are missing`) {
		t.Errorf("report says %v", err)
	}
	again := Run(t.Context(), RunOptions{StoreOptions: StoreOptions{Config: path}, Logs: []string{log}, Log: LogTo{W: lines}})
	if again == nil || !strings.Contains(again.Error(), "the store is damaged") {
		t.Errorf("run says %v", again)
	}
}

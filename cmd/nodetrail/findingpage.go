package main

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/internal/config"
	"github.com/nodetrail/nodetrail/sinks"
)

// findingsKept bounds what is looked through for a finding, and how far back.
const (
	findingsKept = 20_000
	findingsBack = 30 * 24 * time.Hour
)

// findingPage serves one finding as JSON, under the ID that sinks and alerts give it: where an alert's generatorURL leads.
func (r *runner) findingPage(cluster string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		id := req.PathValue("id")
		recent, err := r.store.Recent(req.Context(), time.Now().Add(-findingsBack), findingsKept)
		if err != nil {
			r.log.Error().Err(err).Msg("cannot read findings")
			http.Error(w, "the store cannot be read now", http.StatusServiceUnavailable)
			return
		}
		var found *sinks.Finding
		for i := range recent { // the latest first, one for each hour
			f := sinks.FromGroup(cluster, &recent[i].Key, &recent[i].Group)
			switch {
			case f.ID != id:
			case found == nil:
				found = &f
			default:
				found.Count += f.Count
				if f.First.Before(found.First) {
					found.First = f.First
				}
			}
		}
		if found == nil {
			http.Error(w, "there is no such finding among the latest; nodetrail report lists all that the store has", http.StatusNotFound)
			return
		}
		b, err := json.MarshalIndent(found, "", "  ")
		if err != nil {
			r.log.Error().Err(err).Msg("cannot encode a finding")
			http.Error(w, "the finding cannot be encoded", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write(append(b, '\n')) // whoever asked is gone
	})
}

// storeBytes is the size of the embedded store with its log, nil where the store is none.
func storeBytes(c *config.Config) func() int64 {
	if c.Store.Postgres != nil {
		return nil
	}
	path := sqlitePath(c)
	return func() int64 {
		var n int64
		for _, suffix := range []string{"", "-wal"} {
			if s, err := os.Stat(path + suffix); err == nil {
				n += s.Size()
			}
		}
		return n
	}
}

// isThere reports whether a lane's log exists, be it empty.
func isThere(lane string) bool {
	_, err := os.Stat(strings.TrimPrefix(lane, "file:"))
	return err == nil
}

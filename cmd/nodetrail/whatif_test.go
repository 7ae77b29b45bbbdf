package main

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/report"
)

// TestWhatIfWithoutAnnotations: managed clusters may not log the API server's own word; what breaks is the same without it.
func TestWhatIfWithoutAnnotations(t *testing.T) {
	type kind struct{ Client, Node, User, Verb, Group, Resource, Sub, Path, Relation string }
	for _, dir := range []string{capture, rbacOnly} {
		breaks := func(log string) (map[kind]int64, *report.WhatIfReport) {
			t.Helper()
			code, out, errs := invoke(t, "", "what-if", "-o", "json", "--skew", "150ms", "--state", dir+"/journal.jsonl.gz", log)
			if code != 0 || errs != "" {
				t.Fatalf("exit status %d, standard error %q", code, errs)
			}
			r := &report.WhatIfReport{}
			if err := json.Unmarshal([]byte(out), r); err != nil {
				t.Fatal(err)
			}
			kinds := map[kind]int64{}
			for i := range r.Groups {
				if g := &r.Groups[i]; g.Outcome == "breaks" {
					kinds[kind{g.Client, g.Node, g.User, g.Verb, g.APIGroup, g.Resource, g.Subresource, g.Path, g.Relation}] = g.Count
				}
			}
			return kinds, r
		}
		with, r := breaks(dir + "/audit.log.gz")
		without, bare := breaks(unannotated(t, dir+"/audit.log.gz"))
		if diff := cmp.Diff(with, without); diff != "" || len(with) < 90 {
			t.Errorf("%s: %d kinds with annotations, and without (-with +without):\n%s", dir, len(with), diff)
		}
		if got, want := bare.Requests.Total(), r.Requests.Total(); got != want {
			t.Errorf("%s: %d requests, want %d", dir, got, want)
		}
	}
}

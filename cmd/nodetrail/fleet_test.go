package main

import (
	"strings"
	"testing"
)

// What --fleet and --cluster refuse, in one sentence.
func TestFleetFlags(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"report --fleet", "several clusters share a PostgreSQL, and the configuration has none (store.postgres)"},
		{"report --fleet --serve 127.0.0.1:0", "several clusters share a PostgreSQL, and the configuration has none (store.postgres)"},
		{"report --fleet --cluster a", "--cluster is for one cluster, and --fleet lists all of them"},
		{"report --fleet --waive w.yaml", "--waive is for one cluster, and --fleet lists all of them"},
		{"report --fleet -o html", "--output"},
		{"report --fleet --serve 127.0.0.1:0 -o json", "--output is for a report that is printed, and --serve shows pages"},
		{"report --fleet --serve nowhere", "--serve: "},
		{"report --fleet --serve 127.0.0.1:0 --health nowhere", "--health: "},
		{"report --fleet --health 127.0.0.1:0", "--health is for the pages of --serve"},
		{"report --cluster " + strings.Repeat("x", 254), "is not a name of at most 253 bytes without control characters"},
		{"run --cluster a\x01b audit.log", `--cluster: "a\x01b" is not a name of at most 253 bytes without control characters`},
	} {
		code, out, errs := invoke(t, "", strings.Fields(c.args)...)
		if code != 1 || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%.60s: exit status %d, %s%s", c.args, code, out, errs)
		}
	}
}

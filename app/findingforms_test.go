package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/sinks"
	"github.com/nodetrail/nodetrail/sinks/alertmanager"
	sinkhttp "github.com/nodetrail/nodetrail/sinks/http"
	"github.com/nodetrail/nodetrail/sinks/jsonl"
	sinkkafka "github.com/nodetrail/nodetrail/sinks/kafka"
	"github.com/nodetrail/nodetrail/store"
	"github.com/nodetrail/nodetrail/tally"
	"github.com/nodetrail/nodetrail/web"
	"github.com/nodetrail/nodetrail/wording"
)

// facts are what each form has to tell of a finding: who, from where, how often, what answer, and by which audit IDs to find the requests. Where several
// texts say it, one of them is enough.
type facts struct{ user, group, address, node, count, answer, auditID []string }

// seven requests of one finding, of which one was answered 200 and six 409, and none 2xx if failed is set.
func flagged(begin time.Time, mark string, failed bool) []tally.Entry {
	var out []tally.Entry
	for i := range 7 {
		e := tally.Entry{
			Time: begin.Add(time.Duration(i) * time.Second), IsNode: true, Node: "worker-1",
			Origin: tally.Origin{
				User: "user-a1" + mark, Groups: []string{"group-b2" + mark, "group-b3"}, Code: 409, Address: tally.Address{Address: "192.0.2.77" + mark, Node: "having-c4" + mark},
			},
			Findings: []tally.Finding{{
				Key: tally.Key{
					Rule: rules.ExcessAccess, Node: "worker-1", Verb: "get", Resource: "secrets", Namespace: "shop", Name: "db" + mark, Product: "curl",
					Binding: rbac.BindingRef{Kind: "ClusterRoleBinding", Name: "legacy"},
				},
				Reason: rules.BindingNeeded, Severity: rules.Critical, Allowed: true, AuditID: fmt.Sprintf("audit-d5-%d%s", i, mark),
			}},
		}
		if i == 3 && !failed {
			e.Origin.Code = 200
		}
		copy(e.ID[:], fmt.Sprintf("request-%d", i))
		out = append(out, e)
	}
	return out
}

// memoryWriter is a Kafka topic.
type memoryWriter struct{ values []string }

func (w *memoryWriter) Write(_ context.Context, _, values [][]byte) error {
	for _, v := range values {
		w.values = append(w.values, string(v))
	}
	return nil
}
func (w *memoryWriter) Close() error { return nil }

// formsOf writes the same findings in every form that there is.
func formsOf(t *testing.T, entries []tally.Entry) map[string]string {
	t.Helper()
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	out := map[string]string{}

	// The report of what a store holds.
	s, err := store.OpenSQLite(ctx, filepath.Join(t.TempDir(), "nodetrail.db"), store.Options{})
	must(err)
	defer s.Close()
	_, err = s.Acquire(ctx, "log", 0, 0)
	must(err)
	for i := range entries { // each in a commit of its own, so that rows are merged
		must(s.Commit(ctx, &tally.Commit{At: entries[i].Time, Lanes: []tally.LaneCommit{{Lane: "log", Latest: entries[i].Time, Entries: entries[i : i+1]}}}))
	}
	sum, err := s.Tally(ctx, time.Time{}, time.Time{})
	must(err)
	r := report.Make(sum, report.Facts{Cluster: "production"})
	for name, write := range map[string]func(io.Writer) error{
		"text --all": func(w io.Writer) error { return report.Text{All: true}.Write(w, r) }, "json": r.WriteJSON, "yaml": r.WriteYAML,
		"markdown": func(w io.Writer) error { return r.WriteMarkdown(w, true) }, "html": func(w io.Writer) error { return r.WriteHTML(w, true) },
		"csv": r.WriteCSV, "sarif": r.WriteSARIF, "junit": r.WriteJUnit,
	} {
		var b strings.Builder
		must(write(&b))
		out["report as "+name] = b.String()
	}

	// Findings as sinks get them.
	var groups []sinks.Finding
	g := sinks.NewGrouper(sinks.GrouperOptions{Cluster: "production", Every: time.Hour}, func(f []sinks.Finding) { groups = append(groups, f...) })
	for i := range entries {
		entries[i].Duplicate = false
	}
	g.Add(entries[:1])
	groups = nil // the first is sent at once, the other six together
	g.Add(append(entries[1:len(entries):len(entries)], entries[0]))
	g.Close()
	var posted string
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		posted = string(body)
	}))
	defer receiver.Close()
	for _, format := range []sinks.Format{sinks.JSON, sinks.CloudEvents, sinks.OCSF} {
		lines := filepath.Join(t.TempDir(), "findings.jsonl")
		file, err := jsonl.OpenFile(lines)
		must(err)
		must(jsonl.NewSender("jsonl", file, format).Send(ctx, groups))
		text, err := os.ReadFile(lines)
		must(err)
		out["sink jsonl as "+string(format)] = string(text)
		sender, err := sinkhttp.New(sinkhttp.Options{Name: "http", URL: receiver.URL, Format: format})
		must(err)
		must(sender.Send(ctx, groups))
		out["sink http as "+string(format)] = posted
		var topic memoryWriter
		must(sinkkafka.NewSender("kafka", &topic, format).Send(ctx, groups))
		out["sink kafka as "+string(format)] = strings.Join(topic.values, "\n")
	}
	alerts := make(chan string, 100)
	manager := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		alerts <- string(body)
	}))
	defer manager.Close()
	for name, incidents := range map[string]bool{"alert of a finding": false, "alert of an incident": true} {
		sink, err := alertmanager.New(alertmanager.Options{
			URLs: []string{manager.URL}, Incidents: incidents, Recent: func(context.Context, time.Time) ([]sinks.Finding, error) { return nil, nil },
			ResolveAfter: 100 * 365 * 24 * time.Hour})
		must(err)
		sink.Add(groups)
		out[name] = <-alerts
		must(sink.Close(ctx))
	}

	// Pages and the API.
	pages, err := web.New(web.Options{Cluster: "production", Store: s, Facts: func(context.Context) (report.Facts, error) { return report.Facts{Cluster: "production"}, nil }})
	must(err)
	get := func(path string) string {
		req := httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+path, nil)
		req.RemoteAddr = "127.0.0.1:4711"
		w := httptest.NewRecorder()
		pages.ServeHTTP(w, req)
		if w.Code != http.StatusOK {
			t.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
		return w.Body.String()
	}
	out["api list"], out["page's CSV"], out["page's JSON"] = get("/api/v1/findings"), get("/findings.csv"), get("/findings.json")
	var list struct {
		Findings []struct {
			ID string `json:"id"`
		} `json:"findings"`
	}
	must(json.Unmarshal([]byte(out["api list"]), &list))
	if len(list.Findings) != 1 {
		t.Fatalf("%d findings", len(list.Findings))
	}
	out["page"], out["api"] = get("/findings/"+list.Findings[0].ID), get("/api/v1/findings/"+list.Findings[0].ID)
	return out
}

// Every form tells who, from where, how often, what answer and by which audit IDs.
func TestEachFormTellsFiveFacts(t *testing.T) {
	want := facts{
		user: []string{"user-a1"}, group: []string{"group-b2"}, address: []string{"192.0.2.77"}, node: []string{"having-c4"}, answer: []string{"409"}, auditID: []string{"audit-d5-2"},
		count: []string{`"count":7`, `"count": 7`, "count: 7", `"count":"7"`, "x7", "| 7 |", "<td>7</td>", ",7,", "(7 times)", `<th scope="row">Requests</th><td>7,`},
	}
	for name, text := range formsOf(t, flagged(time.Now().Add(-time.Hour).UTC(), "", false)) {
		for fact, forms := range map[string][]string{
			"user": want.user, "group": want.group, "address": want.address, "node of the address": want.node, "count": want.count, "answer": want.answer, "audit ID": want.auditID,
		} {
			found := false
			for _, s := range forms {
				found = found || strings.Contains(text, s)
			}
			if !found {
				t.Errorf("%s has no %s (%q):\n%.3000s", name, fact, forms, text)
			}
		}
	}
}

// allowed means that a request succeeded: seven that were authorized and then failed were not.
func TestAllowedMeansSucceeded(t *testing.T) {
	for _, failed := range []bool{false, true} {
		for name, text := range formsOf(t, flagged(time.Now().Add(-time.Hour).UTC(), "", failed)) {
			text = strings.ReplaceAll(strings.ReplaceAll(text, `": `, `":`), `"true"`, `true`)
			for _, word := range []string{`"allowed":true`, "allowed: true\n", ">succeeded: ", "] succeeded: ", "\n             succeeded: ", "| succeeded: ", "\n  succeeded: "} {
				if strings.Contains(text, word) == failed && failed {
					t.Errorf("%s of requests that failed says %q", name, word)
				}
			}
			if json := strings.Contains(text, `"allowed":`); json && strings.Contains(text, `"allowed":true`) == failed {
				t.Errorf("%s: failed %t:\n%.2000s", name, failed, text)
			}
		}
	}
}

// What names hold shows nowhere: no control character, no markup, no formula, no change of direction.
func TestFormsOfHostileOrigins(t *testing.T) {
	for _, mark := range []string{"\u202e\u2066", "\u009b31m\x1b[2J", "<script>alert(1)</script>", "=cmd|'/C calc'!A0", "\r\n| x |\r\n", `"],["x`, strings.Repeat("<&|", 3000), "\x00\xff"} {
		for name, text := range formsOf(t, flagged(time.Now().Add(-time.Hour).UTC(), mark, false)) {
			rest := strings.NewReplacer("\r\n", "", "\n", "").Replace(text)
			if strings.ContainsFunc(rest, wording.Hidden) {
				t.Errorf("%s shows characters that are hidden, of %.20q", name, mark)
			}
			if strings.Contains(text, "<script>alert") && !strings.HasPrefix(strings.TrimLeft(text, "[{"), `"`) && (strings.Contains(name, "html") || name == "page" || strings.Contains(name, "markdown")) {
				t.Errorf("%s has markup of a name", name)
			}
			if strings.Contains(strings.ToLower(name), "csv") && (strings.Contains(text, ",=") || strings.Contains(text, `,"=`)) {
				t.Errorf("%s has a formula", name)
			}
			if len(text) > 1<<20 {
				t.Errorf("%s has %d bytes of a name of %d", name, len(text), len(mark))
			}
		}
	}
}

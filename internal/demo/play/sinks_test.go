package play

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/audit"
)

func TestWebhook(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	events := []Event{{JSON: []byte(event("a", "2026-01-01T00:00:00Z"))}, {JSON: []byte(event("b", "2026-01-01T00:00:00Z"))}}
	// f sends to a server that answers one after the other; an answer is a status, and Retry-After behind a blank.
	f := func(name string, answers []string, patience time.Duration, waited time.Duration, wantErr string) {
		t.Helper()
		var asked []string
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			var ids []string
			(&audit.Decoder{}).Split(body, func(ev *audit.Event, _ []byte) { ids = append(ids, ev.AuditID) },
				func(m audit.Malformed, _ []byte) { t.Errorf("malformed: %+v", m) })
			asked = append(asked, r.Header.Get("Authorization")+" "+strings.Join(ids, " "))
			status, after, _ := strings.Cut(answers[min(len(asked), len(answers))-1], " ")
			if after != "" {
				w.Header().Set("Retry-After", after)
			}
			code, _ := strconv.Atoi(status)
			w.WriteHeader(code)
		}))
		defer srv.Close()
		c := &clock{now: at("2027-01-01T00:00:00Z")}
		var changes []bool
		hook, err := NewWebhook(WebhookOptions{
			URL: srv.URL + "/audit", TokenFile: token, Client: srv.Client(), Clock: c, Patience: patience,
			Changed: func(err error) { changes = append(changes, err == nil) },
		})
		if err != nil {
			t.Fatal(err)
		}
		err = hook.Send(t.Context(), events)
		switch {
		case wantErr == "" && err != nil, wantErr != "" && (err == nil || !strings.Contains(err.Error(), wantErr)):
			t.Errorf("%s: error %v, want %q", name, err, wantErr)
		}
		if got := c.now.Sub(at("2027-01-01T00:00:00Z")); waited >= 0 && got != waited {
			t.Errorf("%s: waited %s, want %s", name, got, waited)
		}
		for _, a := range asked {
			if diff := cmp.Diff("Bearer secret a b", a); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
		var want []bool
		switch {
		case len(answers) > 1:
			want = []bool{false, true}
		case wantErr != "" && patience > 0:
			want = []bool{false}
		}
		if diff := cmp.Diff(want, changes); diff != "" {
			t.Errorf("%s: changes (-want +got):\n%s", name, diff)
		}
		if wantErr == "" && len(asked) != len(answers) {
			t.Errorf("%s: asked %d times, want %d", name, len(asked), len(answers))
		}
	}
	f("taken", []string{"200"}, 0, 0, "")
	f("no room", []string{"429 7", "503 2", "204"}, 0, 9*time.Second, "")
	f("a date", []string{"503 Fri, 01 Jan 2027 00:00:20 GMT", "200"}, 0, 20*time.Second, "")
	f("asked for too long", []string{"503 86400", "200"}, 0, maxPause, "")
	f("without a word", []string{"500", "500", "200"}, 0, -1, "")
	f("refused", []string{"401"}, 0, 0, "the webhook answered 401 Unauthorized")
	f("not there for good", []string{"503"}, time.Minute, -1, "tried for 1m0s")
}

func TestNewWebhookRefuses(t *testing.T) {
	for _, o := range []WebhookOptions{
		{URL: "127.0.0.1:9443"}, {URL: "ftp://a/b"}, {URL: "http://example.com/audit", TokenFile: "t"}, {URL: "http://a:b@example.com/audit"},
	} {
		if _, err := NewWebhook(o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
	for _, o := range []WebhookOptions{
		{URL: "http://[::1]:9443/audit", TokenFile: "t"}, {URL: "https://example.com/audit", TokenFile: "t"}, {URL: "http://nodetrail:9443/audit"},
	} {
		if _, err := NewWebhook(o); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

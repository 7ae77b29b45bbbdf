package http

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/nodetrail/nodetrail/sinks"
)

// A webhook of Slack gets a request for each message. What it refuses for good is lost, and nothing else.
func TestSlack(t *testing.T) {
	var got []string
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		b, _ := io.ReadAll(req.Body)
		var m map[string]string
		if err := json.Unmarshal(b, &m); err != nil || len(m) != 1 || req.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%v: %s as %s", err, b, req.Header.Get("Content-Type"))
		}
		if strings.Contains(m["text"], "refused") {
			rw.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(rw, "invalid_payload")
			return
		}
		if !strings.Contains(m["text"], "\n<https://nodetrail.example/incidents?credential=n|") {
			t.Errorf("no link in %q", m["text"])
		}
		got = append(got, m["text"][strings.LastIndex(m["text"], " ")+1:])
		_, _ = io.WriteString(rw, "ok")
	}))
	defer srv.Close()
	s, err := New(Options{Name: "slack", URL: srv.URL, Format: sinks.Slack, Pages: "https://nodetrail.example"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var all []sinks.Finding
	for _, id := range []string{"1", "refused", "2", "3"} {
		e := sinks.NewIncidentEvent(sinks.IncidentOpened, &sinks.Incident{ID: id, Credential: "n"}, nil)
		all = append(all, e.Finding())
	}
	var p *sinks.PermanentError
	if err := s.Send(context.Background(), all); !errors.As(err, &p) || p.Refused != 1 {
		t.Errorf("%v", err)
	}
	if strings.Join(got, " ") != "`1-opened` `2-opened` `3-opened`" {
		t.Errorf("%v", got)
	}
	if err := s.Send(context.Background(), nil); err != nil || len(got) != 3 {
		t.Errorf("nothing to send: %v", err)
	}
	if err := s.Send(context.Background(), []sinks.Finding{{ID: "f"}}); !errors.As(err, &p) || len(got) != 3 {
		t.Errorf("a finding: %v", err)
	}
}

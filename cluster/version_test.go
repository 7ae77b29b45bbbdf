package cluster

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"k8s.io/client-go/rest"
)

func TestLiveVersion(t *testing.T) {
	for _, c := range []struct {
		answer, want, wrong string
	}{
		{`{"major":"1","minor":"35","gitVersion":"v1.35.4"}`, "1.35", ""},
		{`{"major":"1","minor":"33+","gitVersion":"v1.33.5-eks-1"}`, "1.33", ""},
		{`{"major":"1","minor":"36","emulationMajor":"1","emulationMinor":"33","minCompatibilityMajor":"1","minCompatibilityMinor":"32"}`, "1.33", ""},
		{`{"major":"1","minor":"\u001b[2J"}`, "", `minor "\x1b[2J"`},
		{`{}`, "", `its version is ""`},
		{`[]`, "", "reading the API server's version"},
		{"", "", "asking the API server for its version"},
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/version" || c.answer == "" {
				http.Error(w, "no", http.StatusForbidden)
				return
			}
			_, _ = io.WriteString(w, c.answer)
		}))
		l, err := NewLive(LiveConfig{Record: RecordConfig{Config: &rest.Config{Host: srv.URL}}}, NewState(), zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		got, err := l.Version(t.Context())
		if got != c.want || (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: %q, %v", c.answer, got, err)
		}
		srv.Close()
	}
}

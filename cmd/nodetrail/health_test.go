package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestHealth(t *testing.T) {
	answer := http.StatusOK
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(answer)
		_, _ = w.Write([]byte("the state is not synced\n"))
	}))
	defer srv.Close()
	if code, out, errs := invoke(t, "", "health", srv.URL); code != 0 || out+errs != "" {
		t.Errorf("exit status %d, %q, %q", code, out, errs)
	}
	answer = http.StatusServiceUnavailable
	if code, _, errs := invoke(t, "", "health", srv.URL); code != 1 || !strings.Contains(errs, "503 Service Unavailable: the state is not synced") {
		t.Errorf("exit status %d, %q", code, errs)
	}
}

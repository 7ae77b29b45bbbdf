package web

import (
	"context"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/report"
)

// Each list of readiness whose length the cluster decides is cut, what is cut is counted, and the overview that is shortened keeps all.
func TestOverviewIsShort(t *testing.T) {
	const most = 100                                            // as openapi.json says
	whole := map[string]bool{"onlyNodes": true, "checks": true} // as long as the configuration, and the program, have them
	for _, n := range []int{0, most, most + 1, 3 * most} {
		o := &Overview{}
		lists := func(o *Overview) map[string]reflect.Value {
			out := map[string]reflect.Value{}
			r := reflect.ValueOf(&o.Readiness).Elem()
			for i := range r.NumField() {
				if name, _, _ := strings.Cut(r.Type().Field(i).Tag.Get("json"), ","); r.Field(i).Kind() == reflect.Slice && !whole[name] {
					out[name] = r.Field(i)
				}
			}
			return out
		}
		for _, list := range lists(o) {
			list.Set(reflect.MakeSlice(list.Type(), n, n))
		}
		short := o.shorten()
		for name, list := range lists(short) {
			if want := min(n, most); list.Len() != want || short.More[name] != n-want {
				t.Errorf("%s: %d and %d more of %d", name, list.Len(), short.More[name], n)
			}
		}
		for name, list := range lists(o) {
			if list.Len() != n {
				t.Errorf("%s: %d are left of %d", name, list.Len(), n)
			}
		}
		if n <= most && len(short.More) > 0 {
			t.Errorf("more: %v", short.More)
		}
	}
}

// heldWriter is of somebody who reads the answer only when let.
type heldWriter struct {
	*httptest.ResponseRecorder
	let <-chan struct{}
}

func (w *heldWriter) Write(b []byte) (int, error) {
	<-w.let
	return w.ResponseRecorder.Write(b)
}

// Two reports are written at a time. Who comes meanwhile waits for one of them to end, and is refused for now if none does.
func TestReportsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &api{log: zerolog.Nop(), reports: make(chan struct{}, reportsAtOnce)}
		let := make(chan struct{})
		ask := func(ctx context.Context) *httptest.ResponseRecorder {
			w := &heldWriter{httptest.NewRecorder(), let}
			go a.answerReport(w, request("/api/v1/report").WithContext(ctx), &wholeReport{&report.Report{}})
			synctest.Wait()
			return w.ResponseRecorder
		}
		ended := func(w *httptest.ResponseRecorder, code int) {
			t.Helper()
			synctest.Wait()
			if w.Code != code || w.Body.Len() == 0 {
				t.Errorf("a report answers %d with %d bytes, want %d", w.Code, w.Body.Len(), code)
			}
		}
		first, second := ask(t.Context()), ask(t.Context())
		gone, leave := context.WithCancel(t.Context())
		left := ask(gone)
		leave()
		third := ask(t.Context())
		time.Sleep(reportWait)
		synctest.Wait()
		if third.Code != http.StatusServiceUnavailable || third.Header().Get("Retry-After") == "" {
			t.Errorf("the third report answers %d", third.Code)
		}
		fourth := ask(t.Context())
		close(let)
		ended(left, http.StatusServiceUnavailable)
		ended(third, http.StatusServiceUnavailable)
		for _, w := range []*httptest.ResponseRecorder{first, second, fourth, ask(t.Context()), ask(t.Context())} {
			ended(w, http.StatusOK)
		}
	})
}

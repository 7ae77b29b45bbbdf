package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/wording"
)

const (
	// overviewAtMost bounds each list of the overview in the API.
	overviewAtMost = 100
	// reportsAtOnce bounds the reports that are written at the same time. Who comes while there are so many waits for reportWait.
	reportsAtOnce = 2
	reportWait    = 5 * time.Second
)

// errBusy is that something takes much memory and others do it already.
var errBusy = errors.New("others are being answered the same: ask again")

// shorten leaves the first of each list whose length the cluster decides, and counts the others.
func (o *Overview) shorten() *Overview {
	out := *o
	out.More = map[string]int{}
	r := &out.Readiness
	clip(out.More, "clients", &r.Clients)
	clip(out.More, "identities", &r.Identities)
	clip(out.More, "denials", &r.Denials)
	clip(out.More, "unseenNodes", &r.Unseen)
	clip(out.More, "blockers", &r.Blockers)
	clip(out.More, "blocking", &r.Blocking)
	clip(out.More, "warnings", &r.Warnings)
	clip(out.More, "doubts", &r.Doubts)
	clip(out.More, "holes", &r.Holes)
	clip(out.More, "plan", &r.Plan)
	return &out
}

func clip[T any](more map[string]int, name string, list *[]T) {
	if n := len(*list) - overviewAtMost; n > 0 {
		more[name] = n
		*list = (*list)[:overviewAtMost:overviewAtMost]
	}
}

// wholeReport is an answer of the API that is written piece by piece.
type wholeReport struct{ report *report.Report }

// readReport answers with a report. It is as long as there are findings.
func (a *api) readReport(ctx context.Context, window string) (any, error) {
	r, err := a.data.report(ctx, window)
	if err != nil {
		return nil, err
	}
	return &wholeReport{r}, nil
}

// answerReport writes a report. Only a piece of it is in memory at a time.
func (a *api) answerReport(w http.ResponseWriter, r *http.Request, of *wholeReport) {
	wait := time.NewTimer(reportWait)
	defer wait.Stop()
	select {
	case a.reports <- struct{}{}:
		defer func() { <-a.reports }()
	case <-wait.C:
		a.fail(w, r, errBusy)
		return
	case <-r.Context().Done():
		a.fail(w, r, r.Context().Err())
		return
	}
	short := *of.report
	short.Incidents, short.Findings = nil, nil
	b, err := json.Marshal(&short)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	before, after, there := bytes.Cut(b, []byte(`,"findings":null,`)) // no text has a quotation mark that is not escaped
	head, middle, both := bytes.Cut(before, []byte(`,"incidents":null`))
	if !there || !both {
		a.fail(w, r, errors.New("a report has no incidents and findings"))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	put := func(parts ...[]byte) {
		for _, p := range parts {
			if err == nil {
				_, err = w.Write(p)
			}
		}
	}
	put(wording.EscapeJSON(head), []byte(`,"incidents":`))
	err = errors.Join(err, writeList(w, of.report.Incidents))
	put(wording.EscapeJSON(middle), []byte(`,"findings":`))
	err = errors.Join(err, writeList(w, of.report.Findings))
	put([]byte(","), wording.EscapeJSON(after), []byte("\n"))
	if err != nil && r.Context().Err() == nil {
		a.log.Debug().Err(err).Msg("a report was not written to its end") // whoever asked may be gone
	}
}

// writeList writes a list of JSON, one value at a time.
func writeList[T any](w io.Writer, all []T) error {
	if _, err := io.WriteString(w, "["); err != nil {
		return err
	}
	for i := range all {
		b, err := json.Marshal(&all[i])
		if err != nil {
			return err
		}
		if i > 0 {
			b = append([]byte{','}, b...)
		}
		if _, err := w.Write(wording.EscapeJSON(b)); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, "]")
	return err
}

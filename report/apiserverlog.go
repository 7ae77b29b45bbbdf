package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/denylog"
	"github.com/nodetrail/nodetrail/wording"
)

// MaxDenials bounds the lines of each list of an ApiserverLog.
const MaxDenials = 1000

// ApiserverLog is what the NODE DENY lines of the API server's own log say.
type ApiserverLog struct {
	Lines int64 `json:"lines"`
	// Matched counts the lines whose request is in the audit log, Unknown those of them in which the API server did not know the object.
	Matched int64 `json:"matched"`
	Unknown int64 `json:"unknown"`
	// Unmatched counts the other lines. Of these Reviews answer access reviews (no request was refused), Outside were written at a time that the audit log
	// does not cover, and the form of Unreadable is not known.
	Unmatched  int64 `json:"unmatched"`
	Reviews    int64 `json:"reviews"`
	Outside    int64 `json:"outside"`
	Unreadable int64 `json:"unreadable"`
	// Dropped counts the lines beyond what is kept in memory, which were not matched.
	Dropped int64 `json:"dropped"`
	// MatchedLines and UnmatchedLines have the first MaxDenials of each.
	MatchedLines   []DenyLine `json:"matchedLines"`
	UnmatchedLines []DenyLine `json:"unmatchedLines"`
}

// DenyLine is a NODE DENY line.
type DenyLine struct {
	File string `json:"file"`
	Line int    `json:"line"`
	// Time and Message are empty for a line whose form is not known.
	Time    *time.Time `json:"time"`
	Message string     `json:"message"`
	// AuditID is of the request, "" if there is none.
	AuditID string `json:"auditID,omitempty"`
	Unknown bool   `json:"unknown,omitempty"`
}

// NewApiserverLog returns the report's form of a result.
func NewApiserverLog(res *denylog.Result) *ApiserverLog {
	out := &ApiserverLog{
		Lines: res.Lines, Matched: int64(len(res.Matched)), Unmatched: int64(len(res.Unmatched)), Reviews: res.Reviews, Outside: res.Outside, Unreadable: res.Unreadable, Dropped: res.Dropped,
	}
	list := func(all []denylog.Match) []DenyLine {
		list := make([]DenyLine, 0, min(len(all), MaxDenials))
		for i := range all[:min(len(all), MaxDenials)] {
			m := &all[i]
			d := DenyLine{File: m.File, Line: m.Line, Message: m.Text, AuditID: m.AuditID, Unknown: m.Unknown && m.AuditID != ""}
			if m.Text != "" {
				d.Time = &m.Time
			}
			list = append(list, d)
		}
		return list
	}
	out.MatchedLines, out.UnmatchedLines = list(res.Matched), list(res.Unmatched)
	for i := range res.Matched {
		if res.Matched[i].Unknown {
			out.Unknown++
		}
	}
	return out
}

// Unlogged counts the refusals whose request should be in the audit log and is not.
func (d *ApiserverLog) Unlogged() int64 { return d.Unmatched - d.Reviews - d.Outside - d.Unreadable }

// Words say it in a sentence.
func (d *ApiserverLog) Words() string {
	parts := []string{fmt.Sprintf("%s: %d matched with audit events (in %d the API server did not know the object)", plural(d.Lines, "NODE DENY line"), d.Matched, d.Unknown)}
	for _, x := range []struct {
		n    int64
		what string
	}{
		{d.Unlogged(), "without an audit event"}, {d.Reviews, "of access reviews"}, {d.Outside, "at times that the audit log does not cover"}, {d.Unreadable, "unreadable"},
		{d.Dropped, "not matched, more than memory is kept for"},
	} {
		if x.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", x.n, x.what))
		}
	}
	return strings.Join(parts, ", ")
}

// unmatched lists the lines without an audit event.
func (t Text) unmatched(b *strings.Builder, d *ApiserverLog) {
	if d == nil {
		return
	}
	const most = 10
	for i := range d.UnmatchedLines[:min(most, len(d.UnmatchedLines))] {
		x := &d.UnmatchedLines[i]
		at, what := "", "unreadable"
		if x.Time != nil {
			at, what = stamp(*x.Time)+" ", wording.Visible(x.Message)
		}
		fmt.Fprintf(b, "  %s %s:%d: %s%s\n", t.paint(yellow, "!"), wording.Visible(x.File), x.Line, at, what)
	}
	if n := d.Unmatched - most; n > 0 {
		fmt.Fprintf(b, "  %s\n", t.paint(dim, fmt.Sprintf("... and %s (-o json lists up to %d)", plural(n, "more unmatched line"), MaxDenials)))
	}
}

package audit

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"

	"github.com/nodetrail/nodetrail/internal/jscan"
)

// export decodes what the API of a log store answers to a query, if it is that. Such an answer may hold less than the query found: then that is
// reported.
func (d *Decoder) export(m *memberSet) bool {
	buf := d.run.buf
	switch {
	case m.is(mHits, jscan.Object):
		return d.search(m)
	case m.is(mResults, jscan.Array):
		return d.insights(m)
	case m.is(mStreams, jscan.Array):
		d.streams(m.of[mStreams])
		return true
	case m.is(mData, jscan.Object):
		var data memberSet
		data.look(&d.layers.fields.s, buf, m.of[mData].from, m.of[mData].to)
		if data.is(mResult, jscan.Array) {
			d.streams(data.of[mResult])
			return true
		}
	}
	return false
}

// search decodes what `_search` of Elasticsearch and OpenSearch answers.
func (d *Decoder) search(m *memberSet) bool {
	buf, s := d.run.buf, &d.layers.fields.s
	var hits memberSet
	hits.look(s, buf, m.of[mHits].from, m.of[mHits].to)
	list := hits.of[mHits]
	if list.kind != jscan.Array {
		return false
	}
	from := m.of[mHits].from
	if total := hits.of[mTotal]; !m.any(mScrollID, mPITID) {
		n, found := int64(d.elements(list)), d.number(total)
		switch {
		case total.kind == jscan.Object && bytes.Contains(buf[total.from:total.to], atLeast):
			d.report(from, fmt.Sprintf("the search answers with %d of %d or more hits: get the others too, by search_after or scroll, or search with track_total_hits", n, found))
		case found > n:
			d.report(from, fmt.Sprintf("the search answers with %d of %d hits: get the others too, by a larger size, search_after or scroll", n, found))
		}
	}
	if m.is(mTimedOut, jscan.Bool) && buf[m.of[mTimedOut].from] == 't' {
		d.report(from, "the search timed out, and hits are missing: search again")
	}
	var shards memberSet
	if m.is(mShards, jscan.Object) {
		shards.look(s, buf, m.of[mShards].from, m.of[mShards].to)
		if n := d.number(shards.of[mFailed]); n > 0 {
			d.report(from, fmt.Sprintf("the search failed on %d shards, and hits are missing: search again", n))
		}
	}
	d.member(list, EnvelopeOther)
	return true
}

// atLeast is the relation of a total that is not the exact number.
var atLeast = []byte(`"gte"`)

// number is what a member says, or the value of an object that holds one; 0 if it is neither.
func (d *Decoder) number(v member) int64 {
	buf := d.run.buf
	if v.kind == jscan.Object {
		var inside memberSet
		inside.look(&d.layers.fields.s, buf, v.from, v.to)
		v = inside.of[mValue]
	}
	if v.kind != jscan.Number {
		return 0
	}
	n, err := strconv.ParseFloat(string(buf[v.from:v.to]), 64) // CloudWatch counts in floating-point numbers
	if err != nil || n < 0 || n > 1<<62 {
		return 0
	}
	return int64(n)
}

// insights decodes what GetQueryResults of CloudWatch Logs Insights answers: rows of fields with a name and a value.
func (d *Decoder) insights(m *memberSet) bool {
	buf := d.run.buf
	results := m.of[mResults]
	if inside := bytes.TrimLeft(buf[results.from+1:results.to], " \t\r\n"); inside[0] != '[' && !m.has(mStatus, mStatistics) {
		return false
	}
	if m.is(mStatus, jscan.String) && string(m.of[mStatus].inside(buf)) != "Complete" {
		d.reportInside(EnvelopeCloudWatch, results.from, fmt.Sprintf("the query is not complete but %s: get its results again", quote(m.of[mStatus].inside(buf))))
	}
	if m.is(mStatistics, jscan.Object) {
		var statistics memberSet
		statistics.look(&d.layers.fields.s, buf, m.of[mStatistics].from, m.of[mStatistics].to)
		if n, matched := d.elements(results), d.number(statistics.of[mMatched]); matched > int64(n) {
			d.reportInside(EnvelopeCloudWatch, results.from, fmt.Sprintf("the query answers with %d of %d records: raise its limit, or ask for shorter times", n, matched))
		}
	}
	var rows jscan.Scanner
	rows.ResetAt(buf[:results.to], results.from)
	for rows.Array(); rows.More(); {
		row := valueOf(&rows)
		d.insightsRow(row)
	}
	return true
}

// insightsRow decodes one row of Logs Insights.
func (d *Decoder) insightsRow(row member) {
	buf := d.run.buf
	if row.kind != jscan.Array {
		d.reportInside(EnvelopeCloudWatch, row.from, "row is not an array of fields")
		return
	}
	var fields jscan.Scanner
	fields.ResetAt(buf[:row.to], row.from)
	var m memberSet // of the row, as if it were an object
	for fields.Array(); fields.More(); {
		v := valueOf(&fields)
		if v.kind != jscan.Object {
			continue
		}
		var field memberSet
		field.look(&d.layers.fields.s, buf, v.from, v.to)
		name := field.of[mField]
		if name.kind != jscan.String {
			continue
		}
		if i := memberOf(string(name.inside(buf))); i >= 0 {
			m.of[i] = field.of[mValue]
		}
	}
	switch {
	case foreignStream(buf, &m):
		d.foreignRecords(1)
	case m.is(mAtMessage, jscan.String):
		d.member(m.of[mAtMessage], EnvelopeCloudWatch)
	default:
		d.reportInside(EnvelopeCloudWatch, row.from, "row has no @message: query fields @timestamp, @message")
	}
}

// streams decodes the streams that Loki answers with, or that it is given: each has entries of a time, a line and perhaps more.
func (d *Decoder) streams(list member) {
	buf := d.run.buf
	var streams jscan.Scanner
	streams.ResetAt(buf[:list.to], list.from)
	for streams.Array(); streams.More(); {
		v := valueOf(&streams)
		var m memberSet
		if v.kind == jscan.Object {
			m.look(&d.layers.fields.s, buf, v.from, v.to)
		}
		if !m.is(mValues, jscan.Array) || !m.is(mStream, jscan.Object) {
			d.reportInside(EnvelopeLoki, v.from, "result is not a stream of lines: query the lines themselves, without a metric")
			continue
		}
		var entries jscan.Scanner
		entries.ResetAt(buf[:m.of[mValues].to], m.of[mValues].from)
		for entries.Array(); entries.More(); {
			d.streamEntry(valueOf(&entries))
		}
	}
}

func (d *Decoder) streamEntry(entry member) {
	var line member
	if entry.kind == jscan.Array {
		var s jscan.Scanner
		s.ResetAt(d.run.buf[:entry.to], entry.from)
		i := 0
		for s.Array(); s.More(); i++ {
			if v := valueOf(&s); i == 1 {
				line = v
			}
		}
	}
	if line.kind != jscan.String {
		d.reportInside(EnvelopeLoki, entry.from, "entry has no line")
		return
	}
	d.member(line, EnvelopeLoki)
}

// exportHeads are what answers of log stores begin with, without spaces.
var exportHeads = [...]string{
	`{"took":`, `{"_scroll_id":`, `{"pit_id":`, `{"hits":{`, `{"results":[[`, `{"results":[]`, `{"queryLanguage":"CWLI","results":`, `{"status":"success","data":{`, `{"streams":[`,
}

// exportHead is whether text begins as the answer of a log store does, which is a document even on one line: its events may be in any order.
func exportHead(line []byte) bool {
	const longest = 64
	head := make([]byte, 0, longest)
	for _, c := range line[:min(len(line), 4*longest)] {
		if !blank(c) && c != '\n' && len(head) < longest {
			head = append(head, c)
		}
	}
	for _, h := range exportHeads {
		if bytes.HasPrefix(head, []byte(h)) {
			return true
		}
	}
	return false
}

// logcliHead is what logcli writes by default in front of the line of the log: a time, and labels in braces.
var logcliHead = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{8,18}(?:Z|[-+][0-9:]{5}) +\{(?:[A-Za-z_][A-Za-z0-9_]*="(?:[^"\\]|\\.)*"(?:, |))*\} +\{`)

// logcliLine returns where the line of the log begins in a line as logcli writes it by default.
func logcliLine(line []byte) (start int, ok bool) {
	const longest = 4096
	if len(line) < 20 || line[4] != '-' || line[10] != 'T' {
		return 0, false
	}
	end := len(logcliHead.Find(line[:min(len(line), longest)]))
	return end - 1, end > 0
}

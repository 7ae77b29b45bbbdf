package coverage

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

const (
	metricErrors   = "apiserver_audit_error_total"
	metricEvents   = "apiserver_audit_event_total"
	metricRejected = "apiserver_audit_requests_rejected_total"
	metricRequests = "apiserver_request_total"
	metricStart    = "process_start_time_seconds"
)

// totals are the counters of a process.
type totals struct {
	errors                     map[string]float64 // by plugin
	events, rejected, requests float64
	start                      float64
}

// mostOfUse bounds the lines that matter, in bytes: an API server has some thousand of them.
const mostOfUse = 16 << 20

// parseTotals reads metrics in the text format, and of them only the lines that matter: an API server has a hundred thousand.
func parseTotals(r io.Reader, most int64) (*totals, error) {
	limited := &io.LimitedReader{R: r, N: most + 1}
	in := bufio.NewReaderSize(limited, 64<<10)
	var use bytes.Buffer
	for {
		line, err := in.ReadSlice('\n')
		if !errors.Is(err, bufio.ErrBufferFull) && matters(line) && use.Len()+len(line) < mostOfUse {
			use.Write(bytes.TrimRight(line, "\r\n"))
			use.WriteByte('\n')
		}
		for errors.Is(err, bufio.ErrBufferFull) { // no line that matters is as long
			_, err = in.ReadSlice('\n')
		}
		switch {
		case limited.N <= 0:
			return nil, fmt.Errorf("its answer is longer than %d bytes", most)
		case errors.Is(err, io.EOF):
			return totalsOf(&use)
		case err != nil:
			return nil, err
		}
	}
}

// matters reports whether a line is a sample of one of the metrics.
func matters(line []byte) bool {
	name := line
	if i := bytes.IndexAny(line, "{ \t"); i >= 0 {
		name = line[:i]
	}
	return slices.Contains([]string{metricErrors, metricEvents, metricRejected, metricRequests, metricStart}, string(name))
}

func totalsOf(r io.Reader) (*totals, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(r)
	if err != nil {
		return nil, errors.New("its answer is not in the text format of Prometheus")
	}
	if len(families) == 0 {
		return nil, errors.New("its answer holds none of the metrics of an apiserver")
	}
	out := &totals{errors: map[string]float64{}}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			v := valueOf(m)
			if !(v >= 0) || v > 1e18 {
				return nil, fmt.Errorf("its %s is not a number that a counter can have", f.GetName())
			}
			switch f.GetName() {
			case metricErrors:
				out.failed(m, v)
			case metricEvents:
				out.events += v
			case metricRejected:
				out.rejected += v
			case metricRequests:
				out.requests += v
			case metricStart:
				out.start = v
			}
		}
	}
	return out, nil
}

// failed adds the errors of one plugin, such as "buffered" or "webhook". There are a few of them.
func (t *totals) failed(m *dto.Metric, v float64) {
	const most, longest = 32, 64
	plugin := ""
	for _, l := range m.GetLabel() {
		if l.GetName() == "plugin" && len(l.GetValue()) <= longest {
			plugin = l.GetValue()
		}
	}
	if _, there := t.errors[plugin]; there || len(t.errors) < most {
		t.errors[plugin] += v
	}
}

func valueOf(m *dto.Metric) float64 {
	switch {
	case m.GetUntyped() != nil:
		return m.GetUntyped().GetValue()
	case m.GetCounter() != nil:
		return m.GetCounter().GetValue()
	}
	return m.GetGauge().GetValue()
}

package app

import (
	"errors"
	"fmt"
	"time"

	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/pipeline/file"
	"github.com/nodetrail/nodetrail/report"
)

// Limit is one end of a window: a time, or how long before the log's end. The zero value is no limit.
type Limit struct {
	At time.Time
	// Back counts from the log's end if FromEnd is set and At is zero.
	Back    time.Duration
	FromEnd bool
}

// ParseLimit reads a time (RFC 3339) or a duration before the log's end; "" is no limit.
func ParseLimit(value string) (Limit, error) {
	if value == "" {
		return Limit{}, nil
	}
	if at, err := time.Parse(time.RFC3339Nano, value); err == nil {
		return Limit{At: at}, nil
	}
	back, err := time.ParseDuration(value)
	if days, e := report.ParseWindow(value); e == nil {
		back, err = days, nil
	}
	if err != nil || back < 0 {
		return Limit{}, fmt.Errorf("%q is neither a time such as 2026-11-21T06:00:00Z nor a duration such as 90m, 24h or 7d", value)
	}
	return Limit{Back: back, FromEnd: true}, nil
}

// WindowError is a window that ends before it begins.
type WindowError struct{ Since, Until time.Time }

// Error names both ends.
func (e *WindowError) Error() string {
	return fmt.Sprintf("Since (%s) is not before Until (%s)", e.Since.UTC().Format(time.RFC3339), e.Until.UTC().Format(time.RFC3339))
}

// window is the time that the limits leave, with the end of the logs looked up where one counts from it.
func (in *Input) window(inputs []file.Input) (w pipeline.Window, err error) {
	var end time.Time
	resolve := func(l Limit) (time.Time, error) {
		if !l.FromEnd || !l.At.IsZero() {
			return l.At, nil
		}
		if end.IsZero() {
			if end, err = file.LastTime(inputs); err != nil {
				return end, err
			}
			if end.IsZero() {
				return end, errors.New("nothing in the log says when it ends: give a time")
			}
		}
		return end.Add(-l.Back), nil
	}
	if w.Since, err = resolve(in.Since); err != nil {
		return w, &OptionError{"Since", err}
	}
	if w.Until, err = resolve(in.Until); err != nil {
		return w, &OptionError{"Until", err}
	}
	if !w.Since.IsZero() && !w.Until.IsZero() && !w.Since.Before(w.Until) {
		return w, &WindowError{w.Since, w.Until}
	}
	return w, nil
}

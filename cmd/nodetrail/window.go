package main

import (
	"fmt"
	"time"

	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/pipeline/file"
)

// limit is the value of --since or --until: a time, or how long before the log's end.
type limit struct {
	flag string
	at   time.Time
	back time.Duration
	set  bool
}

func parseLimit(flag, value string) (limit, error) {
	l := limit{flag: flag, set: value != ""}
	if !l.set {
		return l, nil
	}
	var err error
	if l.at, err = time.Parse(time.RFC3339Nano, value); err == nil {
		return l, nil
	}
	if l.back, err = time.ParseDuration(value); err != nil || l.back < 0 {
		return l, fmt.Errorf("%s: %q is neither a time such as 2026-11-21T06:00:00Z nor a duration such as 90m or 24h", flag, value)
	}
	return l, nil
}

// windowOf is the time that the limits leave, with the end of the log looked up where one counts from it.
func windowOf(since, until limit, inputs []file.Input) (pipeline.Window, error) {
	var end time.Time
	resolve := func(l limit) (time.Time, error) {
		if !l.set || !l.at.IsZero() {
			return l.at, nil
		}
		if end.IsZero() {
			var err error
			if end, err = file.LastTime(inputs); err != nil {
				return end, fmt.Errorf("%s: %w", l.flag, err)
			}
			if end.IsZero() {
				return end, fmt.Errorf("%s: nothing in the log says when it ends: give a time", l.flag)
			}
		}
		return end.Add(-l.back), nil
	}
	var w pipeline.Window
	var err error
	if w.Since, err = resolve(since); err != nil {
		return w, err
	}
	if w.Until, err = resolve(until); err != nil {
		return w, err
	}
	if !w.Since.IsZero() && !w.Until.IsZero() && !w.Since.Before(w.Until) {
		return w, fmt.Errorf("--since (%s) is not before --until (%s)", w.Since.UTC().Format(time.RFC3339), w.Until.UTC().Format(time.RFC3339))
	}
	return w, nil
}

package app

import (
	"testing"
	"time"
)

// No instant that is given is one that nobody gave, or one that cannot be counted in nanoseconds.
func TestParseInstant(t *testing.T) {
	for s, good := range map[string]bool{
		"0001-01-01T00:00:00Z": false, "0001-01-01T01:00:00+01:00": false, "0000-01-01T00:00:00Z": false, "1677-09-21T00:12:43Z": false, "1969-12-31T23:59:59.999999999Z": false,
		"1970-01-01T00:00:00Z": true, "2026-11-21T06:04:19.448Z": true, "2026-11-21T06:04:19+01:00": true, "2262-04-11T23:47:16.854775807Z": true, "2262-04-11T23:47:16.854775808Z": false,
		"9999-12-31T23:59:59Z": false, "yesterday": false, "": false,
	} {
		at, err := ParseInstant(s)
		if (err == nil) != good || good && !time.Unix(0, at.UnixNano()).Equal(at) {
			t.Errorf("%q: %s, %v", s, at, err)
		}
	}
}

package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration is a span of time, written as in Go, and with d for 24 hours: 500ms, 1h30m, 90d.
type Duration time.Duration

// D is the duration as Go's.
func (d Duration) D() time.Duration { return time.Duration(d) }

func (d Duration) String() string {
	const day = 24 * time.Hour
	if t := time.Duration(d); t != 0 && t%day == 0 {
		return strconv.FormatInt(int64(t/day), 10) + "d"
	}
	s := time.Duration(d).String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, zero) {
			s = s[:len(s)-2]
		}
	}
	return s
}

// parseDuration reads what Duration documents.
func parseDuration(s string) (Duration, error) {
	rest, days := s, int64(0)
	if i := strings.IndexByte(s, 'd'); i >= 0 {
		n, err := strconv.ParseUint(s[:i], 10, 16)
		if err != nil {
			return 0, fmt.Errorf("not a duration")
		}
		days, rest = int64(n), s[i+1:]
		if rest == "" {
			rest = "0s"
		}
	}
	t, err := time.ParseDuration(rest)
	if err != nil || days > 0 && t < 0 || t > math.MaxInt64-time.Duration(days)*24*time.Hour {
		return 0, fmt.Errorf("not a duration")
	}
	return Duration(t + time.Duration(days)*24*time.Hour), nil
}

// Size is a number of bytes, written plain or with KiB, MiB or GiB.
type Size int64

func (s Size) String() string {
	for _, u := range sizeUnits {
		if s != 0 && int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

var sizeUnits = []struct {
	name  string
	bytes int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

// parseSize reads what Size documents.
func parseSize(s string) (Size, error) {
	unit := int64(1)
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(s, u.name); ok {
			s, unit = strings.TrimSuffix(rest, " "), u.bytes
			break
		}
	}
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil || int64(n) > math.MaxInt64/unit {
		return 0, fmt.Errorf("not a size")
	}
	return Size(int64(n) * unit), nil
}

// Secret is a text that is never printed: not by fmt, nor as JSON or YAML, nor by a logger. Only Reveal gives it away.
type Secret struct{ text string }

// NewSecret makes a Secret of a text.
func NewSecret(text string) Secret { return Secret{text: text} }

// Hidden stands for a secret wherever one would be printed.
const Hidden = "<secret>"

// Reveal returns the text itself.
func (s Secret) Reveal() string { return s.text }

// IsSet reports whether there is a text.
func (s Secret) IsSet() bool { return s.text != "" }

// String hides the text; it is "" only where there is none.
func (s Secret) String() string {
	if s.text == "" {
		return ""
	}
	return Hidden
}

// Format hides the text from every verb of fmt.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) } // fmt keeps no error of it

// MarshalText hides the text from JSON, YAML and loggers.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

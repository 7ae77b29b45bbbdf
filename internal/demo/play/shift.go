package play

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

// A Shift moves times, and gives audit IDs and UIDs new values. The zero value leaves all as it is.
type Shift struct {
	// From is the time that becomes To. Where either is zero no time moves.
	From, To time.Time
	// Speed is how many seconds of the original go by in one; 0 means 1.
	Speed float64
	// Renew, if it is not empty, replaces audit IDs and the UIDs of objects. The same value always makes the same new one of an old one.
	Renew string

	// observedFrom, if it is not zero, is before which nothing was observed.
	observedFrom time.Time
}

// far is how far from the log a time is none of its own: the beginning of time, a certificate that never ends. It stays.
const far = 200 * 365 * 24 * time.Hour

// Time moves a time. One that is centuries away stays as it is.
func (s *Shift) Time(t time.Time) time.Time {
	if s.From.IsZero() || s.To.IsZero() {
		return t
	}
	d := t.Sub(s.From)
	if s.Speed != 0 && s.Speed != 1 {
		d = time.Duration(max(-9e18, min(float64(d)/s.Speed, 9e18)))
	}
	if d < -far || d > far {
		return t
	}
	return s.To.Add(d)
}

// ID is what becomes of an audit ID or UID.
func (s *Shift) ID(old string) string {
	if s.Renew == "" || old == "" {
		return old
	}
	sum := sha256.Sum256([]byte(strconv.Itoa(len(s.Renew)) + s.Renew + old))
	sum[6] = sum[6]&0x0f | 0x80 // version 8: made as its maker likes (RFC 9562)
	sum[8] = sum[8]&0x3f | 0x80
	h := hex.EncodeToString(sum[:16])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// Append appends a JSON value to dst with its times moved and its IDs renewed; all other bytes stay. The value must be well-formed.
//
// A time is an RFC 3339 string in a member that is named as Kubernetes names times: …Time, …Timestamp, …At, time, notBefore, notAfter. It keeps
// the number of its digits, since objects' own times may only have whole seconds. IDs are strings in the members auditID and uid.
func (s *Shift) Append(dst, value []byte) []byte {
	var key []byte
	kept := 0 // value[:kept] is in dst
	for i := 0; i < len(value); {
		if value[i] != '"' {
			i++
			continue
		}
		end := stringEnd(value, i)
		text := value[i+1 : max(end-1, i+1)]
		if next := bytes.TrimLeft(value[end:], " \t\r\n"); len(next) > 0 && next[0] == ':' {
			key, i = text, end
			// A key is for the value that comes next alone.
			if v := bytes.TrimLeft(next[1:], " \t\r\n"); len(v) == 0 || v[0] != '"' {
				key = nil
			}
			continue
		}
		if moved, ok := s.replace(string(key), text); ok {
			dst = append(dst, value[kept:i+1]...)
			dst = append(dst, moved...)
			kept = end - 1
		}
		key, i = nil, end
	}
	return append(dst, value[kept:]...)
}

// stringEnd is where the string that begins at i ends, behind its quote.
func stringEnd(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

// replace is what becomes of the string in the member key.
func (s *Shift) replace(key string, text []byte) (string, bool) {
	switch {
	case key == "auditID" || key == "uid":
		if s.Renew == "" || len(text) == 0 || bytes.IndexByte(text, '\\') >= 0 {
			return "", false
		}
		return s.ID(string(text)), true
	case !namesTime(key) || len(text) < len("2006-01-02T15:04:05Z") || len(text) > 64 || text[0] < '0' || text[0] > '9':
		return "", false
	}
	t, err := time.Parse(time.RFC3339Nano, string(text))
	if err != nil {
		return "", false
	}
	moved := s.Time(t)
	if key == "observedAt" && moved.Before(s.observedFrom) {
		moved = s.observedFrom
	}
	if moved.Equal(t) || moved.Year() < 0 || moved.Year() > 9999 {
		return "", false
	}
	return format(moved, fraction(text)), true
}

func namesTime(key string) bool {
	switch key {
	case "time", "notBefore", "notAfter":
		return true
	}
	return strings.HasSuffix(key, "Time") || strings.HasSuffix(key, "Timestamp") || strings.HasSuffix(key, "At")
}

// fraction counts the digits behind the point of a time.
func fraction(text []byte) int {
	_, after, ok := bytes.Cut(text, []byte("."))
	if !ok {
		return 0
	}
	n := 0
	for n < len(after) && after[n] >= '0' && after[n] <= '9' {
		n++
	}
	return min(n, 9)
}

// format writes a time with so many digits behind the point. What does not fit is cut off, so that the order of times stays.
func format(t time.Time, digits int) string {
	layout := "2006-01-02T15:04:05"
	if digits > 0 {
		layout += "." + strings.Repeat("0", digits)
	}
	return t.UTC().Format(layout + "Z07:00")
}

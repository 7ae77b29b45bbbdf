package store

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// escape makes any bytes text that a database takes: valid UTF-8 without control characters. unescape gives the bytes back. What needs no
// escaping, as any real name, stays as it is.
func escape(s string) string {
	i := 0
	for i < len(s) && s[i] >= 0x20 && s[i] < utf8.RuneSelf && s[i] != '\\' {
		i++
	}
	if i == len(s) {
		return s
	}
	const digits = "0123456789abcdef"
	var b strings.Builder
	b.WriteString(s[:i])
	for i < len(s) {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 || r < 0x20 || r == '\\' {
			b.WriteByte('\\')
			b.WriteByte(digits[s[i]>>4])
			b.WriteByte(digits[s[i]&15])
		} else {
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

var errEscape = errors.New("an escape is damaged")

func unescape(s string) (string, error) {
	if strings.IndexByte(s, '\\') < 0 {
		return s, nil
	}
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, `\`)
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		if len(after) < 2 {
			return "", errEscape
		}
		hi, lo := strings.IndexByte(hexDigits, after[0]), strings.IndexByte(hexDigits, after[1])
		if hi < 0 || lo < 0 {
			return "", errEscape
		}
		b.WriteByte(byte(hi<<4 | lo))
		s = after[2:]
	}
}

const hexDigits = "0123456789abcdef"

// list writes strings as a JSON list of escaped ones: to be read by people too, and the same for the same strings.
func list(fields ...string) string {
	all := make([]string, len(fields))
	for i, f := range fields {
		all[i] = escape(f)
	}
	out, err := json.Marshal(all)
	if err != nil {
		return "" // strings can always be written
	}
	return string(out)
}

// parseList reads what list wrote: n strings, or any number if n is negative.
func parseList(s string, n int) ([]string, error) {
	var all []string
	if err := json.Unmarshal([]byte(s), &all); err != nil {
		return nil, err
	}
	if n >= 0 && len(all) != n {
		return nil, fmt.Errorf("%d fields, want %d", len(all), n)
	}
	for i := range all {
		var err error
		if all[i], err = unescape(all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func keyText(k *tally.Key) string {
	return list(k.Rule, k.Node, k.Verb, k.APIGroup, k.Resource, k.Subresource, k.Namespace, k.Name, k.Product, string(k.Reason),
		k.Binding.Kind, k.Binding.Namespace, k.Binding.Name, k.Apart)
}

func parseKey(s string) (tally.Key, error) {
	f, err := parseList(s, 14)
	if err != nil {
		return tally.Key{}, fmt.Errorf("reading a finding's key: %w", err)
	}
	return tally.Key{
		Rule: f[0], Node: f[1], Verb: f[2], APIGroup: f[3], Resource: f[4], Subresource: f[5], Namespace: f[6], Name: f[7],
		Product: f[8], Reason: rules.Reason(f[9]), Binding: rbac.BindingRef{Kind: f[10], Namespace: f[11], Name: f[12]}, Apart: f[13],
	}, nil
}

// paramsText writes parameters as a list of keys and values in turn, "" if there are none.
func paramsText(p codes.Params) string {
	if len(p) == 0 {
		return ""
	}
	all := make([]string, 0, 2*len(p))
	for i := range p {
		all = append(all, p[i].Key, p[i].Value)
	}
	return list(all...)
}

func parseParams(s string) (codes.Params, error) {
	if s == "" {
		return nil, nil
	}
	all, err := parseList(s, -1)
	if err == nil && len(all)%2 != 0 {
		err = errors.New("a key without a value")
	}
	if err != nil {
		return nil, fmt.Errorf("reading the parameters of a finding: %w", err)
	}
	out := make(codes.Params, 0, len(all)/2)
	for i := 0; i < len(all); i += 2 {
		out = append(out, codes.Text(all[i], all[i+1]))
	}
	return out, nil
}

func ambientText(k *tally.AmbientKey) string {
	return list(k.Binding.Kind, k.Binding.Namespace, k.Binding.Name, k.Verb, k.Resource)
}

func parseAmbient(s string) (tally.AmbientKey, error) {
	f, err := parseList(s, 5)
	if err != nil {
		return tally.AmbientKey{}, fmt.Errorf("reading an access of any authenticated user: %w", err)
	}
	return tally.AmbientKey{Binding: rbac.BindingRef{Kind: f[0], Namespace: f[1], Name: f[2]}, Verb: f[3], Resource: f[4]}, nil
}

func admissionText(k *tally.AdmissionKey) string {
	return list(string(k.Outcome), k.Missing, k.Verb, k.Resource, k.Subresource)
}

func parseAdmission(s string) (tally.AdmissionKey, error) {
	f, err := parseList(s, 5)
	if err != nil {
		return tally.AdmissionKey{}, fmt.Errorf("reading an answer of admission: %w", err)
	}
	return tally.AdmissionKey{Outcome: rules.Outcome(f[0]), Missing: f[1], Verb: f[2], Resource: f[3], Subresource: f[4]}, nil
}

// hash is the key of a row whose own key is too long for an index.
func hash(s string) tally.ID {
	sum := sha256.Sum256([]byte(s))
	return tally.ID(sum[:16])
}

// laneText is the lane's name as a key. PostgreSQL takes keys of at most 2,704 bytes; a path may be longer.
func laneText(lane string) string {
	s := escape(lane)
	if len(s) <= 1024 {
		return s
	}
	return fmt.Sprintf("%s...%x", strings.ToValidUTF8(s[:512], ""), hash(lane))
}

// What stands for no time at all in a column that keeps the earliest or the latest.
const (
	noFirst = math.MaxInt64
	noLast  = math.MinInt64
)

// nanos is the time in nanoseconds since 1970; what that cannot hold (before 1678, after 2262) becomes the nearest that it can.
func nanos(t time.Time, none int64) int64 {
	switch s := t.Unix(); {
	case t.IsZero():
		return none
	case s <= math.MinInt64/int64(time.Second):
		return math.MinInt64 + 1
	case s >= math.MaxInt64/int64(time.Second):
		return math.MaxInt64 - 1
	}
	return t.UnixNano()
}

func fromNanos(n int64) time.Time {
	if n == noFirst || n == noLast {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

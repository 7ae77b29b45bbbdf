package ownrules

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/cel-go/common/types"

	"github.com/nodetrail/nodetrail/codes"
)

// maxShown bounds what a message shows of one field, in bytes.
const maxShown = 128

// template is a message: fixed text, and fields in braces.
type template []piece

// piece is a text, or a field.
type piece struct {
	text  string
	field *Field
}

// parseMessage reads a template. {{ and }} stand for braces. offset is where it is wrong, in bytes.
func parseMessage(s string) (t template, offset int, err error) {
	var literal strings.Builder
	flush := func() {
		if literal.Len() > 0 {
			t = append(t, piece{text: literal.String()})
			literal.Reset()
		}
	}
	for i := 0; i < len(s); i++ {
		switch {
		case strings.HasPrefix(s[i:], "{{"), strings.HasPrefix(s[i:], "}}"):
			literal.WriteByte(s[i])
			i++
		case s[i] == '}':
			return nil, i, fmt.Errorf("message: a } without its {; write }} for a brace")
		case s[i] == '{':
			end := strings.IndexByte(s[i:], '}')
			if end < 0 {
				return nil, i, fmt.Errorf("message: a { without its }; write {{ for a brace")
			}
			path := s[i+1 : i+end]
			f := fieldOf(path)
			if f == nil {
				return nil, i + 1, fmt.Errorf("message: there is no field %q%s", path, meantField(path))
			}
			flush()
			t = append(t, piece{field: f})
			i += end
		default:
			literal.WriteByte(s[i])
		}
	}
	flush()
	return t, 0, nil
}

// of is the message for a request. What a request holds is bounded and otherwise as it is: whoever shows the message makes it harmless.
func (t template) of(s *subject) string {
	var b strings.Builder
	for _, p := range t {
		if p.field == nil {
			b.WriteString(p.text)
			continue
		}
		b.WriteString(codes.Bound(p.field.shown(s), maxShown))
	}
	return codes.Bound(b.String(), codes.MaxValue)
}

// shown is the value as a message has it.
func (f *Field) shown(s *subject) string {
	if !f.isKnown(s) {
		return "unknown"
	}
	switch v := f.of(s).(type) {
	case types.String:
		return string(v)
	case types.Int:
		return strconv.FormatInt(int64(v), 10)
	case types.Bool:
		return strconv.FormatBool(bool(v))
	case types.Timestamp:
		return v.UTC().Format(time.RFC3339)
	default:
		all, _ := v.Value().([]string)
		return strings.Join(all[:min(len(all), 8)], ", ")
	}
}

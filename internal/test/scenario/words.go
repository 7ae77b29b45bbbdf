package scenario

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// word is one word of a line: KEY=VALUE, or a value alone.
type word struct {
	key, value string
	quoted     bool
}

// cutWords takes a line apart. A back quote or a double quote at the beginning of a word or behind its first = begins a quoted value.
func cutWords(line string) ([]word, error) {
	var out []word
	for {
		line = strings.TrimLeft(line, " \t")
		if line == "" {
			return out, nil
		}
		var w word
		if i := strings.IndexAny(line, " \t=`\""); i > 0 && line[i] == '=' && i+1 < len(line) && (line[i+1] == '`' || line[i+1] == '"') {
			w.key, line = line[:i], line[i+1:]
		}
		if line[0] == '`' || line[0] == '"' {
			q, err := strconv.QuotedPrefix(line)
			if err != nil {
				return nil, fmt.Errorf("a quote that does not end, at %.40q", line)
			}
			if w.value, err = strconv.Unquote(q); err != nil {
				return nil, fmt.Errorf("%.40q is not a quoted word: %w", q, err)
			}
			w.quoted = true
			if line = line[len(q):]; line != "" && line[0] != ' ' && line[0] != '\t' {
				return nil, fmt.Errorf("no blank behind a quoted word, at %.40q", line)
			}
			out = append(out, w)
			continue
		}
		end := strings.IndexAny(line, " \t")
		if end < 0 {
			end = len(line)
		}
		w.value, line = line[:end], line[end:]
		if key, value, ok := strings.Cut(w.value, "="); ok && isKey(key) {
			w.key, w.value = key, value
		}
		out = append(out, w)
	}
}

func isKey(s string) bool {
	for _, c := range s {
		if (c < 'a' || c > 'z') && c != '-' {
			return false
		}
	}
	return s != ""
}

// clock reads a time of the day, 06:04:19 or with a fraction.
func clock(day time.Time, s string) (time.Time, error) {
	t, err := time.Parse("15:04:05.999999", s)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is not a time such as 06:04:19.448", s)
	}
	return day.Add(t.Sub(t.Truncate(24 * time.Hour))), nil
}

const (
	// maxRepeat bounds the lines that one line can stand for, maxLines those of a section.
	maxRepeat = 1000
	maxLines  = 5000
)

var errTooMany = errors.New("more than 5000 lines, copies included") // maxLines

// copies are the lines that one line stands for, and the time between them.
type copies struct {
	lines [][]word
	every time.Duration
}

// repeated does what the keys repeat and every ask for, and puts in the numbers.
func repeated(words []word) (c copies, err error) {
	n := 1
	for _, w := range words {
		switch w.key {
		case "repeat":
			if n, err = strconv.Atoi(w.value); err != nil || n < 1 || n > maxRepeat {
				return c, fmt.Errorf("repeat=%s is no number from 1 to %d", w.value, maxRepeat)
			}
		case "every":
			if c.every, err = time.ParseDuration(w.value); err != nil {
				return c, fmt.Errorf("every=%s is no duration", w.value)
			}
		}
	}
	for i := range n {
		line := make([]word, len(words))
		for k, w := range words {
			w.value = strings.ReplaceAll(w.value, "%n", strconv.Itoa(i+1))
			line[k] = w
		}
		c.lines = append(c.lines, line)
	}
	return c, nil
}

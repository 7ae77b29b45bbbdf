package wording

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// Columns is how many columns of a terminal a string takes that is [Visible]: East Asian wide characters take two. Marks that combine
// count as one, since not every terminal combines them.
func Columns(s string) int {
	n := 0
	for _, r := range s {
		n += columnsOf(r)
	}
	return n
}

func columnsOf(r rune) int {
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// Fit is Visible, cut to so many columns; what is cut ends with an ellipsis.
func Fit(s string, most int) string {
	s = Visible(s)
	if Columns(s) <= most {
		return s
	}
	return s[:prefix(s, most-1)] + "…"
}

// prefix is the length in bytes of the longest beginning of s that takes at most so many columns.
func prefix(s string, most int) int {
	n := 0
	for i, r := range s {
		if n += columnsOf(r); n > most {
			return i
		}
	}
	return len(s)
}

// Wrap breaks a text into lines of at most so many columns, at spaces where it can. most bounds the lines, 0 for no bound; what is cut ends with an ellipsis.
func Wrap(s string, columns, most int) []string {
	columns = max(columns, 2) // one character may take two
	var out []string
	rest := strings.TrimSpace(Visible(s))
	for Columns(rest) > columns {
		if most > 0 && len(out) == most-1 {
			return append(out, Fit(rest, columns))
		}
		end := prefix(rest, columns)
		cut := end
		if rest[end] != ' ' {
			if space := strings.LastIndexByte(rest[:end], ' '); space > 0 {
				cut = space
			}
		}
		if cut == 0 {
			_, cut = utf8.DecodeRuneInString(rest)
		}
		out = append(out, strings.TrimRight(rest[:cut], " "))
		rest = strings.TrimLeft(rest[cut:], " ")
	}
	return append(out, rest)
}

// WrapCommand breaks a command of a shell into lines of at most so many columns, between its words: a backslash ends each line but the last. It returns
// nil where a word alone is too long.
func WrapCommand(s string, columns int) []string {
	var out []string
	line := ""
	for _, word := range shellWords(s) {
		switch {
		case line == "":
			line = word
		case Columns(line)+1+Columns(word)+len(` \`) <= columns:
			line += " " + word
		default:
			out, line = append(out, line+` \`), word
		}
		if Columns(line)+len(` \`) > columns {
			return nil
		}
	}
	return append(out, line)
}

// shellWords are the words of a command as they stand, with their quotes.
func shellWords(s string) (out []string) {
	from, quote := -1, rune(0)
	for i, r := range s {
		switch {
		case quote != 0:
			if r == quote {
				quote = 0
			}
		case r == ' ':
			if from >= 0 {
				out, from = append(out, s[from:i]), -1
			}
			continue
		case r == '\'' || r == '"':
			quote = r
		}
		if from < 0 {
			from = i
		}
	}
	if from >= 0 {
		out = append(out, s[from:])
	}
	return out
}

// Large writes a count in short: 38.2M from a million on, else with its digits grouped.
func Large(n int64) string {
	if n < 1_000_000 {
		return Thousands(n)
	}
	tenths := n / 100_000
	s := Thousands(tenths / 10)
	if tenths%10 > 0 {
		s += "." + string(rune('0'+tenths%10))
	}
	return s + "M"
}

// Cell is text for a cell of a table file: a spreadsheet must not take it for a formula, whatever it begins with.
func Cell(s string) string {
	if s = Visible(s); s != "" && strings.ContainsRune("=+-@|%＝＋－＠", []rune(s)[0]) {
		return "'" + s
	}
	return s
}

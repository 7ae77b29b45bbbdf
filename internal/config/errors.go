package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nodetrail/nodetrail/internal/spelling"
)

// Problem is one thing that is wrong in a file.
type Problem struct {
	// Line counts from 1; it is 0 where no line is to blame.
	Line int
	// Field is the path of the key, such as sources.files[0].paths; it may be empty.
	Field string
	// Text says what is wrong and what is allowed.
	Text string
}

// FileError is everything that is wrong in a file, in the order of its lines.
type FileError struct {
	File     string
	Problems []Problem
}

// Error is a line for each problem.
func (e *FileError) Error() string {
	var b strings.Builder
	for i, p := range e.Problems {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(e.File)
		if p.Line > 0 {
			fmt.Fprintf(&b, ":%d", p.Line)
		}
		b.WriteString(": ")
		if p.Field != "" {
			b.WriteString(p.Field + ": ")
		}
		b.WriteString(p.Text)
	}
	return b.String()
}

// maxProblems bounds the problems of one file.
const maxProblems = 100

func (e *FileError) add(line int, field, format string, args ...any) {
	if !e.full() {
		e.Problems = append(e.Problems, Problem{Line: line, Field: field, Text: fmt.Sprintf(format, args...)})
	}
}

func (e *FileError) full() bool { return len(e.Problems) >= maxProblems }

func (e *FileError) sorted() *FileError {
	slices.SortStableFunc(e.Problems, func(a, b Problem) int { return a.Line - b.Line })
	return e
}

// quoted is a value as an error shows it: printable and short.
func quoted(s string) string {
	const most = 80
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	return fmt.Sprintf("%q", s)
}

// meant proposes what a mistyped word may have been; "" if nothing is near.
func meant(word string, all []string) string {
	if near := spelling.Nearest(word, all); len(near) > 0 {
		return near[0]
	}
	return ""
}

// Package spelling proposes what a mistyped word may have been. Its functions are safe for concurrent use.
package spelling

import (
	"fmt"
	"slices"
	"strings"
)

// Nearest returns the words of all that word may stand for, in their order: those that begin with it, else those that differ from it in the fewest
// bytes, at most in a third of word's, or of what follows its last slash. The case of letters does not count. The result is a new slice, and empty where nothing is near.
func Nearest(word string, all []string) (near []string) {
	word = strings.ToLower(word)
	most := (len(word[strings.LastIndexByte(word, '/')+1:]) + 1) / 3
	for _, s := range all {
		lower := strings.ToLower(s)
		if strings.HasPrefix(lower, word) {
			if most >= 0 {
				near, most = near[:0], -1
			}
			near = append(near, s)
			continue
		}
		d := most + 1
		if most >= 0 {
			d = distance(word, lower)
		}
		switch {
		case d > most:
		case d < most:
			near, most = append(near[:0], s), d
		default:
			near = append(near, s)
		}
	}
	return near
}

// Meant returns a question that proposes the first five of what Nearest finds, such as "did you mean pods or nodes?", and "" where that is nothing.
func Meant(word string, all []string) string {
	const most = 5
	near := Nearest(word, all)
	switch more := len(near) - most; {
	case len(near) == 0:
		return ""
	case more > 0:
		return fmt.Sprintf("did you mean %s, or one of %d more?", strings.Join(near[:most], ", "), more)
	}
	return "did you mean " + OneOf(near) + "?"
}

// OneOf joins words to a choice: "a, b or c".
func OneOf(words []string) string {
	if n := len(words); n > 1 {
		return strings.Join(words[:n-1], ", ") + " or " + words[n-1]
	}
	return strings.Join(words, "")
}

// distance is how many bytes must be inserted, removed or replaced to make b of a (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := slices.Clone(row)
		row[0] = i + 1
		for j := range len(b) {
			differ := 1
			if a[i] == b[j] {
				differ = 0
			}
			row[j+1] = min(last[j]+differ, last[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}

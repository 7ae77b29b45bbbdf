// Package words keeps words that puzzle readers out of the tree: out of documents, Go comments and strings, templates, YAML and dashboards. The list is
// banned.txt, with what to write instead; allowed.txt has the names of interfaces that contain one of them. Its test reads the whole tree.
package words

import (
	"fmt"
	"go/scanner"
	"go/token"
	"path"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A List is what is banned, and where which text with a banned word is allowed.
type List struct {
	banned  []ban
	allowed []*allowance
}

type ban struct {
	phrase  string // in lower case
	instead string
}

type allowance struct {
	glob, text string
	used       bool
}

// A Hit is a banned phrase in a file.
type Hit struct {
	Line          int
	Phrase, Reads string // Reads is the text around the phrase.
	Instead       string
}

// ParseList reads the two lists: lines of fields that a tab separates, where empty lines and lines that start with # say nothing.
// A banned line is phrases between bars, and what to write instead. An allowed line is a pattern of paths as in [path.Match], and a text.
func ParseList(banned, allowed string) (*List, error) {
	list := new(List)
	for _, fields := range lines(banned) {
		if len(fields) != 2 {
			return nil, fmt.Errorf("banned: %q: want phrases, a tab and what to write instead", fields)
		}
		for phrase := range strings.SplitSeq(fields[0], "|") {
			list.banned = append(list.banned, ban{strings.ToLower(phrase), fields[1]})
		}
	}
	for _, fields := range lines(allowed) {
		if len(fields) != 2 {
			return nil, fmt.Errorf("allowed: %q: want a path, a tab and a text", fields)
		}
		if _, err := path.Match(fields[0], ""); err != nil {
			return nil, fmt.Errorf("allowed: %q: %w", fields[0], err)
		}
		list.allowed = append(list.allowed, &allowance{glob: fields[0], text: fields[1]})
	}
	return list, nil
}

func lines(text string) [][]string {
	var all [][]string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			all = append(all, strings.Split(line, "\t"))
		}
	}
	return all
}

// Find returns the banned phrases in a file, in the order of the list. It sees phrases across the ends of lines too. Name is the file's path with slashes.
func (l *List) Find(name string, content []byte) []Hit {
	text := new(prose)
	if path.Ext(name) == ".go" {
		text.readGo(content)
	} else {
		text.read(content)
	}
	words := text.String()
	lower := strings.ToLower(words)
	if len(lower) != len(words) {
		lower = strings.Map(func(r rune) rune {
			if r < utf8.RuneSelf {
				return unicode.ToLower(r)
			}
			return r
		}, words)
	}
	var hits []Hit
	for _, ban := range l.banned {
		for from, to := next(lower, ban.phrase, 0); from >= 0; from, to = next(lower, ban.phrase, to) {
			if isPart(lower[:from], lower[to:]) || text.names(from, to) || l.allows(name, words, from, to) {
				continue
			}
			hits = append(hits, Hit{
				Line: text.line(from), Phrase: words[from:to], Instead: ban.instead,
				Reads: strings.TrimSpace(words[max(0, from-30):min(len(words), to+30)]),
			})
		}
	}
	return hits
}

func next(text, phrase string, after int) (from, to int) {
	at := strings.Index(text[after:], phrase)
	if at < 0 {
		return -1, -1
	}
	return after + at, after + at + len(phrase)
}

// isPart reports whether what is between the two is a part of a longer word, of a path or of an expression.
func isPart(before, after string) bool {
	return partBefore.MatchString(before[max(0, len(before)-utf8.UTFMax):]) || partAfter.MatchString(after[:min(len(after), 2*utf8.UTFMax)])
}

var (
	partBefore = regexp.MustCompile(`[\pL\pN_.$/-]$`)
	partAfter  = regexp.MustCompile(`^([\pL\pN_/=(-]|[.][\pL\pN_])`)
)

// Unused returns the allowed texts that Find has not met.
func (l *List) Unused() []string {
	var unused []string
	for _, a := range l.allowed {
		if !a.used {
			unused = append(unused, a.glob+"\t"+a.text)
		}
	}
	return unused
}

// allows reports whether the phrase is within an allowed text.
func (l *List) allows(name, words string, from, to int) bool {
	for _, a := range l.allowed {
		if ok, _ := path.Match(a.glob, name); !ok {
			continue
		}
		for at := max(0, to-len(a.text)); at <= from; at++ {
			if strings.HasPrefix(words[at:], a.text) {
				a.used = true
				return true
			}
		}
	}
	return false
}

// A prose is the text of a file for readers.
type prose struct {
	strings.Builder
	pieces []piece
}

// A piece starts at an offset of the text and is from one line of the file. Documents are the identifiers on the line that a comment is about.
type piece struct {
	offset, line int
	documents    []string
}

// apart is between comments, strings and paragraphs.
const apart = "\x00"

// add adds a line without blanks at its ends and more than one in a row; an empty one keeps what is around it apart.
func (p *prose) add(line int, text string) {
	p.pieces = append(p.pieces, piece{offset: p.Len(), line: line})
	if text = strings.Join(strings.Fields(text), " "); text == "" {
		text = apart
	}
	p.WriteString(text + " ")
}

func (p *prose) piece(offset int) piece {
	return p.pieces[sort.Search(len(p.pieces), func(i int) bool { return p.pieces[i].offset > offset })-1]
}

func (p *prose) line(offset int) int { return p.piece(offset).line }

// names reports whether a word names something in code: it is in quotes of its own, a whole string, or what a comment documents.
func (p *prose) names(from, to int) bool {
	words := p.String()
	word, before, after := words[from:to], words[:from], words[to:]
	if slices.Contains(p.piece(from).documents, word) {
		return true
	}
	if strings.Contains(word, " ") {
		return false
	}
	enclosed := func(quotes [2]string) bool {
		return strings.HasSuffix(before, quotes[0]) && strings.HasPrefix(after, quotes[1])
	}
	if slices.ContainsFunc([][2]string{{"[", "]"}, {`"`, `":`}}, enclosed) {
		return true // A link of a Go comment, a key of JSON.
	}
	return strings.ToLower(word) == word && slices.ContainsFunc([][2]string{{"`", "`"}, {`"`, `"`}, {"{{", "}}"}, {apart + " ", " " + apart}}, enclosed)
}

// read reads a text without what starts its lines in comments, lists and tables.
func (p *prose) read(content []byte) {
	number := 0
	for line := range strings.Lines(string(content)) {
		number++
		p.add(number, strings.TrimLeft(line, " \t#/>*"))
	}
}

// readGo reads the comments and strings of Go source. Strings that a plus sign joins are one.
func (p *prose) readGo(content []byte) {
	var source scanner.Scanner
	files := token.NewFileSet()
	file := files.AddFile("", files.Base(), len(content))
	source.Init(file, content, func(token.Position, string) {}, scanner.ScanComments)
	before := token.ILLEGAL
	first, last := 0, 0 // Of the comment before: its first piece, and its last line.
	for {
		pos, kind, literal := source.Scan()
		line := file.Line(pos)
		switch {
		case kind == token.EOF:
			p.add(line, "")
			return
		case kind == token.SEMICOLON && literal == "\n":
			continue // The scanner inserts it before the end of a line.
		case kind == token.COMMENT:
			if before != token.COMMENT {
				p.add(line, "")
				first = len(p.pieces)
			}
			for part := range strings.Lines(literal + "\n") {
				p.add(line, strings.TrimLeft(part, " \t/*"))
				last = line
				line++
			}
		case kind == token.STRING:
			if before != token.ADD {
				p.add(line, "")
			}
			if literal[0] == '`' {
				for part := range strings.Lines(strings.Trim(literal, "`")) {
					p.add(line, part)
					line++
				}
			} else if value, err := strconv.Unquote(literal); err == nil {
				p.add(line, value)
			}
		case kind == token.IDENT && line == last+1:
			for i := range p.pieces[first:] {
				p.pieces[first+i].documents = append(p.pieces[first+i].documents, literal)
			}
		}
		before = kind
	}
}

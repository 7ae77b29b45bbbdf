// Package docs reads the Markdown of this repository: its links, the anchors that a link can name, and its blocks of code. Its tests hold that every link
// leads somewhere, that every page below docs/ is reached from docs/README.md, that the glossary is complete, and that the messages in docs/troubleshooting.md
// are those of the program.
package docs

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

// A Page is one Markdown file.
type Page struct {
	// Name is its path with slashes.
	Name string
	// Links are the destinations of links and images, as written.
	Links []string
	// Strong are the texts in bold; Messages are those that are code as a whole.
	Strong, Messages []Phrase
	// Blocks are the blocks of code that name a language.
	Blocks []Block

	anchors map[string]bool
}

// A Phrase is a text below a heading.
type Phrase struct{ Text, Section string }

// A Block is a block of code.
type Block struct {
	Language, Text string
	// Section is the heading before it.
	Section string
}

// Read parses a page.
func Read(name string, source []byte) *Page {
	p := &Page{Name: name, anchors: map[string]bool{}}
	section := ""
	root := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser().Parse(text.NewReader(source))
	// The function that is given never fails.
	_ = ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			section = plain(n, source)
			p.addAnchor(section)
		case *ast.Link:
			p.Links = append(p.Links, string(n.Destination))
		case *ast.Image:
			p.Links = append(p.Links, string(n.Destination))
		case *ast.Emphasis:
			if n.Level == 2 {
				to := &p.Strong
				if _, code := n.FirstChild().(*ast.CodeSpan); code && n.ChildCount() == 1 {
					to = &p.Messages
				}
				*to = append(*to, Phrase{plain(n, source), section})
			}
		case *ast.FencedCodeBlock:
			var b bytes.Buffer
			for i := range n.Lines().Len() {
				line := n.Lines().At(i)
				b.Write(line.Value(source))
			}
			p.Blocks = append(p.Blocks, Block{Language: string(n.Language(source)), Text: b.String(), Section: section})
		}
		return ast.WalkContinue, nil
	})
	return p
}

// plain is the text below a node.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		switch c := c.(type) {
		case *ast.Text:
			b.Write(c.Value(source))
			if c.SoftLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.String:
			b.Write(c.Value)
		default:
			b.WriteString(plain(c, source))
		}
	}
	return b.String()
}

// addAnchor adds the anchor that GitHub gives a heading: letters, digits, hyphens and low lines stay, blanks become hyphens, the second of a kind is numbered.
func (p *Page) addAnchor(heading string) {
	anchor := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
	free := anchor
	for n := 1; p.anchors[free]; n++ {
		free = fmt.Sprintf("%s-%d", anchor, n)
	}
	p.anchors[free] = true
}

// A Site is the pages of a repository with the files that they may link to.
type Site struct {
	files fs.FS
	pages map[string]*Page
}

// ReadAll reads the named pages.
func ReadAll(files fs.FS, names []string) (*Site, error) {
	s := &Site{files: files, pages: map[string]*Page{}}
	for _, name := range names {
		b, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("reading a page: %w", err)
		}
		s.pages[name] = Read(name, b)
	}
	return s, nil
}

// Pages are the pages, in the order of their names.
func (s *Site) Pages() []*Page {
	var all []*Page
	for _, p := range s.pages {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *Page) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Broken says of each link that leads nowhere what is wrong with it. Links to other sites are not followed.
func (s *Site) Broken() []string {
	var broken []string
	for _, p := range s.Pages() {
		for _, link := range p.Links {
			if _, _, err := s.follow(p, link); err != nil {
				broken = append(broken, fmt.Sprintf("%s: %s: %v", p.Name, link, err))
			}
		}
	}
	return broken
}

// follow returns the file that a link of a page leads to, and whether it is one of this repository.
func (s *Site) follow(p *Page, link string) (string, bool, error) {
	u, err := url.Parse(link)
	if err != nil {
		return "", false, err
	}
	if u.Scheme != "" || u.Host != "" {
		return "", false, nil
	}
	name := p.Name
	if u.Path != "" {
		name = path.Join(path.Dir(p.Name), u.Path)
	}
	info, err := fs.Stat(s.files, name)
	if err != nil {
		return "", false, fmt.Errorf("there is no %s", name)
	}
	if info.IsDir() {
		name = path.Join(name, "README.md")
	}
	target := s.pages[name]
	if u.Fragment != "" && (target == nil || !target.anchors[u.Fragment]) {
		return "", false, fmt.Errorf("there is no heading #%s in %s", u.Fragment, name)
	}
	return name, true, nil
}

// Unreached are the pages below a folder to which no links lead from a page.
func (s *Site) Unreached(from, folder string) []string {
	seen := map[string]bool{from: true}
	for next := []string{from}; len(next) > 0; next = next[1:] {
		p := s.pages[next[0]]
		if p == nil {
			continue
		}
		for _, link := range p.Links {
			if name, ours, err := s.follow(p, link); err == nil && ours && !seen[name] && strings.HasPrefix(name, folder+"/") {
				seen[name] = true
				next = append(next, name)
			}
		}
	}
	var unreached []string
	for _, p := range s.Pages() {
		if strings.HasPrefix(p.Name, folder+"/") && !seen[p.Name] {
			unreached = append(unreached, p.Name)
		}
	}
	return unreached
}

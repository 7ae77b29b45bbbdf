package web

import (
	"html"
	"html/template"
	"regexp"
	"strings"
)

// renderDoc makes HTML of what the pages of rules use of Markdown: headings (one and two #), paragraphs, lists with a dash, blocks of code, code between
// back quotes, and links to other rules. All else is text. A comment and the first heading are left out: the page has a title.
func renderDoc(doc string) template.HTML {
	d := docWriter{code: regexp.MustCompile("`([^`\n]+)`"), link: regexp.MustCompile(`\[([^\]\n]+)\]\(([a-z-]+)\.md\)`)}
	for line := range strings.Lines(doc) {
		d.line(strings.TrimRight(line, "\r\n"))
	}
	d.close()
	return template.HTML(d.b.String()) // all text in it is escaped by inline
}

type docWriter struct {
	b          strings.Builder
	code, link *regexp.Regexp
	block      string   // the element that is open: p, li or none
	list       bool     // whether a list is open
	fenced     bool     // whether a block of code is open
	text       []string // of the block
}

func (d *docWriter) line(s string) {
	trimmed := strings.TrimSpace(s)
	switch {
	case d.fenced && trimmed == "```":
		d.b.WriteString("</code></pre></div>\n")
		d.fenced = false
	case d.fenced:
		d.b.WriteString(html.EscapeString(s) + "\n")
	case strings.HasPrefix(s, "```"):
		d.close()
		d.b.WriteString(`<div class="commands"><pre tabindex="0" aria-label="Commands"><code>`)
		d.fenced = true
	case trimmed == "":
		d.endBlock()
	case strings.HasPrefix(s, "<!--"):
	case strings.HasPrefix(s, "## "):
		d.close()
		d.b.WriteString("<h2>" + d.inline(s[3:]) + "</h2>\n")
	case strings.HasPrefix(s, "# "):
		d.close()
	case strings.HasPrefix(s, "- "):
		d.endBlock()
		if !d.list {
			d.b.WriteString("<ul>\n")
			d.list = true
		}
		d.block, d.text = "li", []string{s[2:]}
	case d.block == "" && d.list && !strings.HasPrefix(s, " "):
		d.close()
		fallthrough
	default:
		if d.block == "" {
			d.block = "p"
		}
		d.text = append(d.text, trimmed)
	}
}

// endBlock writes the open paragraph or entry.
func (d *docWriter) endBlock() {
	if d.block != "" {
		d.b.WriteString("<" + d.block + ">" + d.inline(strings.Join(d.text, "\n")) + "</" + d.block + ">\n")
	}
	d.block, d.text = "", nil
}

// close ends the paragraph and the list.
func (d *docWriter) close() {
	if d.fenced {
		d.line("```")
	}
	d.endBlock()
	if d.list {
		d.b.WriteString("</ul>\n")
		d.list = false
	}
}

// inline escapes text, then makes code and links of what is left of their marks.
func (d *docWriter) inline(s string) string {
	s = html.EscapeString(s)
	s = d.link.ReplaceAllString(s, `<a href="/rules/$2">$1</a>`)
	return d.code.ReplaceAllString(s, "<code>$1</code>")
}

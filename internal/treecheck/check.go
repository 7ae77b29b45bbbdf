package main

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// maxLines is where a Go file is no longer about one thing. The house aims at 400.
const maxLines = 600

var (
	// The brackets keep these expressions from finding themselves.
	machinePath = regexp.MustCompile(`/(work|root|farm|tmp)[/]`)
	unfinished  = regexp.MustCompile(`\b(T[O]DO|F[I]XME)\b`)
	skipped     = regexp.MustCompile(`\b(t|b|f|tb)\.S[k]ip(f|Now)?\(`)
	generated   = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)
	mainModule  = regexp.MustCompile(`^\s*(replace\b|(require\s+)?k8s\.io/kubernetes\s)`)
)

// maySkip are the folders whose tests, or whose callers' tests, may be skipped: for want of Kafka's broker or of PostgreSQL, which they say, and
// which CI does not let them.
var maySkip = []string{"internal/kafkatest", "internal/pgtest"}

// checker holds what the checks of one file need.
type checker struct {
	hosts []string // of the package registries in use
}

// check returns what is wrong with one file, a line each: `name:line: what`. Binary files and checksums are not looked into.
func (c checker) check(name string, content []byte) []string {
	if path.Ext(name) == ".sum" || bytes.IndexByte(content, 0) >= 0 {
		return nil
	}
	var problems []string
	lines := 0
	for line := range strings.Lines(string(content)) {
		lines++
		for _, what := range c.checkLine(name, line) {
			problems = append(problems, fmt.Sprintf("%s:%d: %s", name, lines, what))
		}
	}
	if path.Ext(name) == ".go" && lines > maxLines && !generated.Match(content) {
		problems = append(problems, fmt.Sprintf("%s: %d lines, at most %d: is it about one thing?", name, lines, maxLines))
	}
	return problems
}

func (c checker) checkLine(name, line string) []string {
	var problems []string
	if m := machinePath.FindString(line); m != "" {
		problems = append(problems, "names a path of one machine: "+m)
	}
	for _, host := range c.hosts {
		if strings.Contains(line, host) {
			problems = append(problems, "names the host of a package registry")
		}
	}
	if m := unfinished.FindString(line); m != "" {
		problems = append(problems, "marks unfinished work: "+m)
	}
	if m := skipped.FindString(line); m != "" && path.Ext(name) == ".go" && !slices.Contains(maySkip, path.Dir(name)) {
		problems = append(problems, "skips a test: "+m)
	}
	if name == "go.mod" && mainModule.MatchString(line) {
		problems = append(problems, "the main module has no replace lines and does not need k8s.io/kubernetes: go install would break")
	}
	return problems
}

// Command breaks sees that the end-to-end tests can fail: it breaks nodetrail in the place that breaks.txt names for each of them, runs that test, and
// wants it to fail on an assertion.
//
//	breaks [REGEXP]
//
// The regular expression picks tests. It is run by make e2e-breaks, at the top of the module e2e, and changes no file: the compiler is given the
// broken one in place of the other.
package main

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/e2e/plane"
	"github.com/nodetrail/nodetrail/e2e/trail"
)

//go:embed breaks.txt
var list string

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	if len(args) > 1 {
		fmt.Fprintln(stderr, "breaks: want one regular expression at most")
		return 1
	}
	only, err := regexp.Compile(strings.Join(args, ""))
	if err != nil {
		fmt.Fprintln(stderr, "breaks:", err)
		return 1
	}
	all, err := parse(list)
	if err != nil {
		fmt.Fprintln(stderr, "breaks:", err)
		return 1
	}
	unseen := 0
	for i := range all {
		b := &all[i]
		if !only.MatchString(b.test) {
			continue
		}
		began := time.Now()
		out, err := b.try()
		if err != nil {
			unseen++
			fmt.Fprintf(stdout, "NOT SEEN  %s: %v\n%s\n", b.test, err, out)
			continue
		}
		fmt.Fprintf(stdout, "seen      %s with %s broken, in %s: %s\n", b.test, b.file, time.Since(began).Round(time.Second), failure(out))
	}
	if unseen > 0 {
		return 1
	}
	return 0
}

// broken is one entry of the list.
type broken struct{ packageName, test, file, from, to, patience, kubernetes string }

func parse(text string) ([]broken, error) {
	var all []broken
	var b *broken
	var to *string
	for line := range strings.Lines(text) {
		switch word, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " "); {
		case word == "test":
			name, test, ok := strings.Cut(rest, " ")
			if !ok {
				return nil, fmt.Errorf("breaks.txt: %q: want a package and a test", rest)
			}
			all = append(all, broken{packageName: name, test: test, patience: "45s"})
			b, to = &all[len(all)-1], nil
		case strings.HasPrefix(word, "#") || b == nil:
		case word == "file":
			b.file = rest
		case word == "patience":
			b.patience = rest
		case word == "kubernetes":
			b.kubernetes = rest
		case word == "-":
			b.from, to = rest, &b.from
		case word == "+":
			b.to, to = rest, &b.to
		case line == "\n":
			to = nil
		case to != nil:
			*to += "\n" + strings.TrimSuffix(line, "\n")
		}
	}
	for i := range all {
		if b := &all[i]; b.file == "" || b.from == "" || b.to == "" {
			return nil, fmt.Errorf("breaks.txt: %s lacks a file or a text", b.test)
		}
	}
	return all, nil
}

var errPassed = errors.New("it passed")

// try runs the test with nodetrail broken. An error says that this was not noticed.
func (b *broken) try() (out []byte, err error) {
	dir, err := os.MkdirTemp("", "nodetrail-breaks-")
	if err != nil {
		return nil, fmt.Errorf("making a folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	// PostgreSQL runs as another user when the tests run as root.
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making a folder: %w", err)
	}
	path, err := filepath.Abs(filepath.Join("..", filepath.FromSlash(b.file)))
	if err != nil {
		return nil, fmt.Errorf("finding the file: %w", err)
	}
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading what to break: %w", err)
	}
	if n := strings.Count(string(source), b.from); n != 1 {
		return nil, fmt.Errorf("%s has %q %d times", b.file, b.from, n)
	}
	changed := filepath.Join(dir, "broken.go")
	if err := os.WriteFile(changed, []byte(strings.Replace(string(source), b.from, b.to, 1)), 0o600); err != nil {
		return nil, fmt.Errorf("breaking it: %w", err)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{path: changed}})
	if err != nil {
		return nil, fmt.Errorf("breaking it: %w", err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		return nil, fmt.Errorf("breaking it: %w", err)
	}
	cmd := exec.Command("go", "test", "-count=1", "-timeout=30m", "-run", "^"+strings.ReplaceAll(b.test, "/", "$/^")+"$", "./"+b.packageName)
	cmd.Env = append(os.Environ(), trail.OverlayEnv+"="+file, "TMPDIR="+dir, plane.PatienceEnv+"="+b.patience, plane.MinorEnv+"="+b.kubernetes, "NODETRAIL_E2E_CHURN=30s", "NODETRAIL_E2E_KUBELETS=6")
	out, err = cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return out, errPassed
	case !errors.As(err, &exit):
		return out, fmt.Errorf("running the test: %w", err)
	case failure(out) == "" || strings.Contains(string(out), "building nodetrail"):
		return out, errors.New("it failed, but not on an assertion")
	}
	return out, nil
}

// failure is the last line that the test wrote: what it logged comes before.
func failure(out []byte) string {
	all := regexp.MustCompile(`(?m)^\s+\w+_test\.go:\d+: (.*)$`).FindAllSubmatch(out, -1)
	if len(all) == 0 {
		return ""
	}
	line := string(all[len(all)-1][1])
	return line[:min(len(line), 160)]
}

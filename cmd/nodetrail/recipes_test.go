package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nodetrail/nodetrail/internal/test/docs"
	"github.com/nodetrail/nodetrail/report"
)

// words are the arguments of each command of nodetrail in a block for the shell. What is quoted is one word; a pipe, a redirection or a comment ends a command.
func words(block string) [][]string {
	var commands [][]string
	token := regexp.MustCompile(`'[^']*'|"[^"]*"|[|>&;#].*|[^\s|>&;]+`)
	for line := range strings.Lines(strings.ReplaceAll(block, "\\\n", " ")) {
		args := token.FindAllString(strings.TrimPrefix(strings.TrimSpace(line), "$ "), -1)
		for i, arg := range args {
			if arg != "nodetrail" && arg != "/nodetrail" || (i > 0 && args[i-1] != "--") {
				continue
			}
			var command []string
			for _, arg := range args[i+1:] {
				if strings.ContainsAny(arg[:1], "|>&;#") {
					break
				}
				command = append(command, strings.Trim(arg, `'"`))
			}
			commands = append(commands, command)
			break
		}
	}
	return commands
}

// wrong says what the command tree has against a command.
func wrong(command []string) error {
	cmd, rest, err := newRoot(streams{}).Find(command)
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if help, err := cmd.Flags().GetBool("help"); err == nil && help {
		return nil
	}
	if cmd.HasSubCommands() {
		return fmt.Errorf("%s has no command in %q", cmd.Name(), rest)
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

// TestCommands holds that every command of nodetrail in a block for the shell, in any page, has a name, flags and arguments that there are.
func TestCommands(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	deeper, err := filepath.Glob("../../docs/*/*.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, name := range append(append(pages, deeper...), "../../README.md") {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range docs.Read(name, b).Blocks {
			if block.Language != "sh" && block.Language != "console" {
				continue
			}
			for _, command := range words(block.Text) {
				if len(command) > 0 && command[0] == "·" {
					continue // the first line of a report
				}
				n++
				if err := wrong(command); err != nil {
					t.Errorf("%s: nodetrail %q: %v", name, command, err)
				}
			}
		}
	}
	if n < 50 {
		t.Errorf("%d commands", n)
	}
	for _, planted := range []string{"nodetrail analyse audit.log", "nodetrail analyze --stat x audit.log", "nodetrail analyze --state x", "kubectl exec nodetrail-0 -- /nodetrail report --windows 24h"} {
		if commands := words(planted); len(commands) != 1 || wrong(commands[0]) == nil {
			t.Errorf("%s: %q is taken for right", planted, commands)
		}
	}
}

// TestRecipes runs the commands of docs/recipes.md that read what a cloud's own tools print, on samples in that form.
func TestRecipes(t *testing.T) {
	b, err := os.ReadFile("../../docs/recipes.md")
	if err != nil {
		t.Fatal(err)
	}
	envelopes, journal, policy := abs(t, "../../audit/testdata/envelopes"), abs(t, capture+"/journal.jsonl.gz"), abs(t, "../../deploy/audit-policy.yaml")
	sample := func(name string) []byte {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(envelopes, name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	t.Chdir(t.TempDir())
	// The tools print one indented document.
	indented := func(name string, document []byte) {
		t.Helper()
		var out bytes.Buffer
		if err := json.Indent(&out, document, "", "    "); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	indented("eks.json", sample("cloudwatch-filter.json"))
	entries := bytes.Split(bytes.TrimSpace(sample("gke.jsonl")), []byte("\n"))
	indented("gke.json", append(append([]byte("["), bytes.Join(entries, []byte(","))...), ']'))
	if err := os.WriteFile("openshift.log", sample("node-logs.log"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir("logs", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("logs/audit.log", sample("bare.log"), 0o600); err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, block := range docs.Read("docs/recipes.md", b).Blocks {
		if block.Language != "sh" {
			continue
		}
		for _, command := range words(block.Text) {
			for i := range command {
				command[i] = strings.NewReplacer("journal.jsonl", journal, "/etc/kubernetes/audit/policy.yaml", policy).Replace(command[i])
				if command[i] == "policy.yaml" {
					command[i] = policy
				}
			}
			switch command[0] {
			case "analyze":
				ran++
				code, out, errs := invoke(t, "", append(command, "-o", "json")...)
				r := &report.Report{}
				if err := json.Unmarshal([]byte(out), r); code != 0 || err != nil {
					t.Errorf("%q: exit status %d, %v, standard error %q", command, code, err, errs)
				} else if r.Events.Read == 0 || r.Events.Malformed > 0 || r.Events.Judged == 0 {
					t.Errorf("%q: %+v", command, r.Events)
				}
			case "policy":
				ran++
				if code, out, errs := invoke(t, "", command...); code != 0 || out == "" {
					t.Errorf("%q: exit status %d, standard error %q", command, code, errs)
				}
			}
		}
	}
	if ran != 6 {
		t.Errorf("%d commands", ran)
	}
}

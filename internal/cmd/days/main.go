// Command days writes a simulated day of a cluster as files: an audit log, the journal of its state, the audit policy, and a README that says what
// is planted in it. It is for demonstrations and for drills: can you, and can nodetrail, find what is wrong with the day?
//
//	days -out drill -seed 7 -span 3h -features drains,join -mutate plant-request,remove-node-hour
package main

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/internal/test/days"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "days:", err)
		os.Exit(1)
	}
}

type settings struct {
	out, features, mutate, from string
	seed                        uint64
	compress, split, list       bool
	options                     days.Options
}

func run(args []string, stdout, stderr io.Writer) error {
	var s settings
	flags := flag.NewFlagSet("days", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&s.out, "out", "", "write the files to this folder, which is made")
	flags.Uint64Var(&s.seed, "seed", 1, "the same seed gives the same day")
	flags.IntVar(&s.options.Nodes, "nodes", 3, "how many nodes there are all day")
	flags.DurationVar(&s.options.Span, "span", 26*time.Hour, "length of the day")
	flags.IntVar(&s.options.Servers, "servers", 1, "how many API servers there are")
	flags.IntVar(&s.options.Minor, "minor", 36, "Kubernetes' minor version, 28 to 37")
	flags.StringVar(&s.options.Profile, "profile", "nodetrail", "audit policy: nodetrail, eks, gke or aks-audit-admin")
	flags.BoolVar(&s.options.NoBinding, "no-binding", false, "the binding of system:node to the nodes is gone")
	flags.StringVar(&s.from, "from", "", "when the day begins, RFC 3339; the seed chooses if empty")
	flags.StringVar(&s.features, "features", "", "what happens, with commas, or all; -list shows them")
	flags.StringVar(&s.mutate, "mutate", "", "what to plant or remove, with commas; -list shows them")
	flags.BoolVar(&s.compress, "gzip", false, "compress the audit log")
	flags.BoolVar(&s.split, "split", false, "write one log for each API server")
	flags.BoolVar(&s.list, "list", false, "list features and mutations")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if s.list {
		return list(stdout)
	}
	if s.out == "" || flags.NArg() > 0 {
		return fmt.Errorf("use -out FOLDER, and no arguments")
	}
	day, err := s.day()
	if err != nil {
		return err
	}
	return s.write(day)
}

func (s *settings) day() (*days.Day, error) {
	if s.from != "" {
		from, err := time.Parse(time.RFC3339, s.from)
		if err != nil {
			return nil, err
		}
		s.options.From = from
	}
	names := days.FeatureNames()
	for _, name := range words(s.features) {
		f, ok := names[name]
		if name == "all" {
			ok = true
			for _, g := range names {
				f |= g
			}
		}
		if !ok {
			return nil, fmt.Errorf("no feature %q; -list shows them", name)
		}
		s.options.Features |= f
	}
	day, err := days.Clean(s.seed, s.options)
	if err != nil {
		return nil, err
	}
	for _, name := range words(s.mutate) {
		m, ok := days.Named(name, s.seed)
		if !ok {
			return nil, fmt.Errorf("no mutation %q; -list shows them", name)
		}
		if day, ok = m.Apply(day); !ok {
			return nil, fmt.Errorf("mutation %q does not apply to this day", name)
		}
	}
	return day, nil
}

func words(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

func list(w io.Writer) error {
	var b bytes.Buffer
	b.WriteString("features:\n")
	var names []string
	for name := range days.FeatureNames() {
		names = append(names, name)
	}
	slices.Sort(names)
	fmt.Fprintf(&b, "  %s\n\nmutations:\n", strings.Join(names, "\n  "))
	for _, m := range days.Mutations(0) {
		fmt.Fprintf(&b, "  %-32s %s: %s\n", m.Name, m.Effect, m.Description)
	}
	_, err := w.Write(b.Bytes())
	return err
}

func (s *settings) write(day *days.Day) error {
	if err := os.MkdirAll(s.out, 0o755); err != nil {
		return err
	}
	logs := map[string][]byte{}
	if s.split {
		for i := range s.options.Servers {
			logs[fmt.Sprintf("audit-%d.log", i+1)] = day.ServerLog(i)
		}
	} else {
		logs["audit.log"] = day.Log()
	}
	files := map[string][]byte{"journal.jsonl": day.Journal(), "README.md": day.Readme()}
	if day.Policy != "" {
		files["audit-policy.yaml"] = []byte(day.Policy)
	}
	for name, text := range logs {
		if s.compress {
			var b bytes.Buffer
			zw := gzip.NewWriter(&b)
			if _, err := zw.Write(text); err != nil {
				return err
			}
			if err := zw.Close(); err != nil {
				return err
			}
			name, text = name+".gz", b.Bytes()
		}
		files[name] = text
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(s.out, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

package app

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A kubelet with a user agent of its own, which the owner names, is judged like any other: all commands say the same of it.
func TestKubeletOfAnotherName(t *testing.T) {
	dir := t.TempDir()
	const journal = "../internal/demo/capture/journal.jsonl.gz"
	named, renamed := filepath.Join(dir, "usual.log"), filepath.Join(dir, "own.log")
	log := gunzipped(t, "../internal/demo/capture/audit.log.gz")
	as := func(names ...string) []byte { return []byte(strings.NewReplacer(names...).Replace(string(log))) }
	const agent = `"userAgent":"`
	for path, data := range map[string][]byte{ // curl needs bindings
		named:   as(agent+"hollow-kubelet", agent+"kubelet/v1.36.3", agent+"curl/", agent+"kubelet/"),
		renamed: as(agent+"kubelet/", agent+"kubelet2/", agent+"hollow-kubelet", agent+"kubelet2/v1.36.3", agent+"curl/", agent+"kubelet2/"),
	} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	input := func(log string) Input { return Input{State: []string{journal}, Logs: []string{log}} }
	for name, ask := range map[string]func(log string, kubelets []string) (any, error){
		"analyze": func(log string, kubelets []string) (any, error) {
			a, err := Analyze(t.Context(), AnalyzeOptions{Input: input(log), KubeletUserAgents: kubelets})
			if err != nil {
				return nil, err
			}
			return a.Report.Readiness, nil
		},
		"what-if": func(log string, kubelets []string) (any, error) {
			w, err := WhatIf(t.Context(), WhatIfOptions{ChangeOptions: ChangeOptions{Input: input(log), KubeletUserAgents: kubelets}})
			if err != nil {
				return nil, err
			}
			return w.Report, nil
		},
		"suggest": func(log string, kubelets []string) (any, error) {
			s, err := Suggest(t.Context(), SuggestOptions{ChangeOptions: ChangeOptions{Input: input(log), KubeletUserAgents: kubelets}})
			if err != nil {
				return nil, err
			}
			return s.Suggestion, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			said := func(log string, kubelets ...string) string {
				of, err := ask(log, kubelets)
				if err != nil {
					t.Fatal(err)
				}
				text, err := json.MarshalIndent(of, "", " ")
				if err != nil {
					t.Fatal(err)
				}
				return strings.NewReplacer("kubelet2", "kubelet", renamed, named).Replace(string(text))
			}
			want := said(named)
			if got := said(renamed, "kubelet2"); got != want {
				t.Error(cmp.Diff(want, got))
			}
			if name != "what-if" && said(renamed) == want { // the capture has no secrets for images alone, of which what-if knows that kubelets do without
				t.Error("whether it is a kubelet makes no difference, so nothing is tested")
			}
		})
	}
}

package cli

import "testing"

func TestIsPlugin(t *testing.T) {
	for program, want := range map[string]bool{
		"nodetrail":                              false,
		"/usr/bin/nodetrail":                     false,
		"kubectl-nodetrail":                      true,
		"/home/a/.krew/bin/kubectl-nodetrail":    true,
		`C:\Users\a\.krew\kubectl-nodetrail.exe`: true,
		"KUBECTL-NODETRAIL.EXE":                  true,
		"/kubectl-nodetrail/nodetrail":           false,
		"kubectl-nodetrail-old":                  false,
		"":                                       false,
	} {
		if got := IsPlugin(program, "nodetrail"); got != want {
			t.Errorf("%q: %v", program, got)
		}
	}
}

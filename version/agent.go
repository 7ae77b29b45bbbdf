package version

import (
	"strconv"
	"strings"
)

// Agent is what a user agent of the control plane says.
type Agent struct {
	// Program is kube-apiserver, kube-controller-manager or kube-scheduler.
	Program string
	// Version is as in the user agent, such as v1.36.3.
	Version string
}

// users are the identities under which the programs act: another's claim counts for nothing.
func userOf(program string) (name, prefix string) {
	switch program {
	case "kube-apiserver":
		return "system:apiserver", ""
	case "kube-controller-manager":
		return "system:kube-controller-manager", "system:serviceaccount:kube-system:"
	case "kube-scheduler":
		return "system:kube-scheduler", ""
	}
	return "", ""
}

// agentOf reads a user agent such as "kube-apiserver/v1.36.3 (linux/amd64) kubernetes/4b9b38b". The version v0.0.0 tells nothing.
func agentOf(userAgent, user string) (Agent, int, bool) {
	program, rest, ok := strings.Cut(userAgent, "/")
	name, prefix := userOf(program)
	if !ok || name == "" || user != name && (prefix == "" || !strings.HasPrefix(user, prefix)) {
		return Agent{}, 0, false
	}
	version, _, _ := strings.Cut(rest, " ")
	minor, ok := strings.CutPrefix(version, "v1.")
	if !ok {
		return Agent{}, 0, false
	}
	minor, _, _ = strings.Cut(minor, ".")
	n, err := strconv.Atoi(minor)
	if err != nil || n <= 0 || n > 999 {
		return Agent{}, 0, false
	}
	return Agent{Program: program, Version: version}, n, true
}

// weight orders programs: the apiserver knows its own version best.
func (a Agent) weight() int {
	switch a.Program {
	case "kube-apiserver":
		return 3
	case "kube-controller-manager":
		return 2
	}
	return 1
}

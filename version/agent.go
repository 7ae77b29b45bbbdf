package version

import (
	"strconv"
	"strings"

	"github.com/nodetrail/nodetrail/internal/floor"
)

const (
	apiserver         = "kube-apiserver"
	controllerManager = "kube-controller-manager"
	scheduler         = "kube-scheduler"

	maxMinor = 999
)

// Agent is what a user agent of the control plane says.
type Agent struct {
	// Program is kube-apiserver, kube-controller-manager or kube-scheduler.
	Program string
	// Version is as in the user agent, such as v1.36.3.
	Version string
}

// userOf are the identities under which the programs act: another's claim counts for nothing.
func userOf(program string) (name, prefix string) {
	switch program {
	case apiserver:
		return "system:apiserver", ""
	case controllerManager:
		return "system:kube-controller-manager", "system:serviceaccount:kube-system:"
	case scheduler:
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
	if len(version) > idBytes {
		return Agent{}, 0, false
	}
	minor, ok := strings.CutPrefix(version, "v1.")
	if !ok {
		return Agent{}, 0, false
	}
	minor, _, _ = strings.Cut(minor, ".")
	n, err := strconv.Atoi(minor)
	if err != nil || n <= 0 || n > maxMinor {
		return Agent{}, 0, false
	}
	return Agent{Program: program, Version: version}, n, true
}

// weight orders programs: the API server knows its own version best.
func (a Agent) weight() int {
	switch a.Program {
	case apiserver:
		return 3
	case controllerManager:
		return 2
	}
	return 1
}

// agents bounds those of a program in an hour. A service account of kube-system can call itself any kube-controller-manager, and takes no room from
// the API server.
const agents = 64

// sighting is when an agent was seen in an hour.
type sighting struct {
	minor    int
	requests int64
	minutes  uint64
}

// minuteOf is the minute of a time in seconds.
func minuteOf(unix int64) int64 { return floor.Div(unix, 60) }

package report

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/tally"
)

// ParseWindow reads the length of a window, in which days may be given, too: 90m, 24h, 7d. "" is 0, which is all that there is.
func ParseWindow(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n > 0 && n < 36500 {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%q is no duration such as 90m, 24h or 7d", s)
	}
	return d, nil
}

// Together is the gap that requests leave whose node names a tally does not distinguish, since there are too many; nil where there is none.
func Together(t *tally.Tally) []codes.Gap {
	n := t.Nodes[tally.Others]
	if n == nil {
		return nil
	}
	return []codes.Gap{{Kind: codes.Log, Code: codes.NamesTogether, Params: codes.Params{codes.Int(codes.ParamTotal, n.Requests)}}}
}

// Uncovered is the gap that requests from from to to leave in a window that was asked for; nil where there is none.
func Uncovered(from, to time.Time, window time.Duration) []codes.Gap {
	if window <= 0 || to.IsZero() {
		return nil
	}
	have := to.Sub(from)
	if have >= window-min(window/10, time.Hour) {
		return nil
	}
	return []codes.Gap{{Kind: codes.Log, Code: codes.WindowUncovered, Params: codes.Params{
		codes.Duration(codes.ParamHave, have.Round(time.Second)), codes.Duration(codes.ParamWant, window),
	}}}
}

// BindingCommands show a binding, keep it in a file of that name, and delete it, in this order; for a shell. Of a binding that is known with its UID and resource
// version, the last one deletes it only while it is that object.
func BindingCommands(b Binding, file string, known []NodeBinding) []string {
	name := kubectlName(b)
	remove, _ := deletionOf(b, known)
	return []string{"kubectl describe " + name, "kubectl get " + name + " -o yaml > " + file, remove}
}

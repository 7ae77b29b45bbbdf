package scale

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/e2e/plane"
	"github.com/nodetrail/nodetrail/e2e/trail"
	"regexp"
	"strings"
)

// log is what the audit log says, read without nodetrail.
type log struct {
	events int64
	// denied are requests of nodes that the Node authorizer denied; requests all of nodes.
	requests, denied map[string]bool
	// bound and deleted are when pods were, by "namespace/name" and for bound the node too.
	bound, deleted map[string][]time.Time
}

func readLog(p *plane.Plane) (*log, error) {
	l := &log{requests: map[string]bool{}, denied: map[string]bool{}, bound: map[string][]time.Time{}, deleted: map[string][]time.Time{}}
	files, err := p.AuditLogs()
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for line := range bytes.Lines(b) {
			var e struct {
				plane.Event
				RequestObject struct{ Target struct{ Name string } }
			}
			if err := json.Unmarshal(line, &e); err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			l.take(&e.Event, e.RequestObject.Target.Name)
		}
	}
	return l, nil
}

func (l *log) take(e *plane.Event, target string) {
	l.events++
	if strings.HasPrefix(e.User.Username, "system:node:") && slices.Contains(e.User.Groups, "system:nodes") {
		l.requests[e.AuditID] = true
		if !e.NodeAllowed() {
			l.denied[e.AuditID] = true
		}
	}
	if e.ObjectRef.Resource != "pods" || e.Stage != "ResponseComplete" || e.ResponseStatus.Code > 299 {
		return
	}
	pod := e.ObjectRef.Namespace + "/" + e.ObjectRef.Name
	switch {
	case e.ObjectRef.Subresource == "binding":
		l.bound[pod+" "+target] = append(l.bound[pod+" "+target], e.StageTimestamp)
	case e.Verb == "delete" && e.ObjectRef.Subresource == "":
		l.deleted[pod] = append(l.deleted[pod], e.StageTimestamp)
	}
}

// explained says whether the edge that a race's detail names is in the audit log, as near to the request as it says.
func (l *log) explained(v *trail.Verdict) error {
	m := regexp.MustCompile(`^pod (\S+) (was bound to|on) (\S+) (?:was deleted )?(\S+) (later|earlier)$`).FindStringSubmatch(v.Detail)
	if m == nil {
		return fmt.Errorf("detail %q", v.Detail)
	}
	after, err := time.ParseDuration(m[4])
	if err != nil {
		return fmt.Errorf("detail %q: %w", v.Detail, err)
	}
	if m[5] == "earlier" {
		after = -after
	}
	if m[3] != v.Node {
		return fmt.Errorf("detail %q of a request of node %s", v.Detail, v.Node)
	}
	times := l.deleted[m[1]]
	if m[2] != "on" {
		times = l.bound[m[1]+" "+m[3]]
	}
	// nodetrail estimates between the audit event and the watch, so that a second's tolerance is enough.
	for _, at := range times {
		if d := at.Sub(v.Time.Add(after)).Abs(); d <= time.Second {
			return nil
		}
	}
	return fmt.Errorf("detail %q of a request at %s: the audit log has %s", v.Detail, v.Time, times)
}

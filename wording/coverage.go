package wording

import (
	"fmt"
	"strings"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/rules"
)

func (s *said) logSilent() string {
	since, long := s.time(rules.ParamSince), lasting(s.p.Duration(rules.ParamFor))
	const why = ": either no API server ran, or a part of the log is missing"
	if s.p.Has(rules.ParamUntil) {
		return fmt.Sprintf("no request of any node was logged from %s to %s, for %s", since, s.time(rules.ParamUntil), long) + why
	}
	return fmt.Sprintf("no request of any node has been logged since %s, for %s, where %s made requests in %d%% of all intervals of ten seconds",
		since, long, Plural(s.p.Int(rules.ParamNodes), "node"), s.p.Int(rules.ParamPercent)) + why
}

func (s *said) nodeSilent() string {
	since, long := s.time(rules.ParamSince), lasting(s.p.Duration(rules.ParamFor))
	if s.p.Has(rules.ParamUntil) {
		return fmt.Sprintf("no request of node %s was logged from %s to %s, for %s, while its Node object existed and other nodes continued: either it was down or "+
			"cut off, or its requests are missing from the log", s.k.Node, since, s.time(rules.ParamUntil), long)
	}
	return fmt.Sprintf("no request of node %s has been logged since %s, for %s, while its Node object exists and other nodes continue: either it is down or "+
		"cut off, or its requests are missing from the log", s.k.Node, since, long)
}

func (s *said) nodesSilent() string {
	names := s.p.All(rules.ParamNode)
	n := s.p.Int(rules.ParamNodes)
	return fmt.Sprintf("no requests of %s have been logged since about %s, while their Node objects exist and other nodes continue: the log of one API server may be "+
		"missing, or these nodes are cut off: %s", Plural(n, "node"), s.time(rules.ParamSince), Some(names, int(n), len(names)))
}

func (s *said) secretReads() string {
	if s.k.Node == "" || s.p.Has(rules.ParamTested) {
		return fmt.Sprintf("of %d nodes whose pods need secrets, %d have no read of any secret in the log, such as that of %s for pod %s on node %s: the audit policy or "+
			"a filter hides these reads", s.p.Int(rules.ParamTested), s.p.Int(rules.ParamNodes), s.p.Text(rules.ParamSecret), s.p.Text(rules.ParamPod),
			s.p.Text(rules.ParamNode))
	}
	return fmt.Sprintf("no read of any secret by node %s is in the log in the hour before pod %s was bound to it at %s and ten minutes after, though the pod needs the "+
		"secret %s and other requests of the node are there: the audit policy or a filter hides these reads", s.k.Node, s.p.Text(rules.ParamPod),
		s.time(rules.ParamSince), s.p.Text(rules.ParamSecret))
}

func (s *said) trouble() string { return s.k.Name + ": " + s.p.Text(rules.ParamTrouble) }

func (s *said) policy(does string) string {
	subject := s.k.Name + " of the audit policy"
	if s.k.Name == codes.NoRule {
		subject = "the audit policy, whose rules do not match them,"
	}
	requests := s.p.All(codes.ParamRequest)
	if n := s.p.Int(codes.ParamMore); n > 0 {
		requests = append(requests, fmt.Sprintf("and %d more", n))
	}
	out := subject + " " + does + ": " + strings.Join(requests, ", ")
	if s.p.Has(codes.ParamMinor) {
		out += "; no binding is needed for them"
	}
	return out
}

func (s *said) dropped() string {
	var by []string
	for _, v := range s.p.All(codes.ParamPlugin) {
		n, plugin := counted(v)
		by = append(by, fmt.Sprintf("%s by plugin %q", n, plugin))
	}
	return fmt.Sprintf("the API server at %s could not write %s audit events, which are not in the log (%s: %s)",
		s.k.Name, s.p.Text(rules.ParamCount), s.p.Text(codes.ParamMetric), strings.Join(by, ", "))
}

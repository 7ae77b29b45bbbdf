package app

import (
	"errors"
	"io"
	"os"

	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/sinks/jsonl"
)

// VerdictLine is the verdict line of a judgement, as analyze writes it. Its strings are the judgement's, which lives no longer than the call that
// it is given to.
func VerdictLine(j *pipeline.Judgement) jsonl.Verdict {
	a, ev, o := j.Attrs, j.Event, &j.Observed
	v := jsonl.Verdict{
		AuditID: ev.AuditID, Time: j.Time, Node: j.Node, Verb: a.Verb, APIGroup: a.APIGroup, Resource: a.Resource,
		Subresource: a.Subresource, Namespace: a.Namespace, Name: a.Name, Verdict: j.Answer.Verdict.String(), Race: j.Answer.Race,
		Reason: j.Reason(), Detail: j.Detail(), Code: ev.Code, UserAgent: ev.UserAgent, SourceIPs: ev.SourceIPs,
		Observed: jsonl.Observed{Decision: o.Decision, Authorizer: string(o.Authorizer), ObservedReason: o.Reason},
	}
	if !a.ResourceRequest {
		v.Path = a.Path
	}
	if w := &j.Admission; w.Asked() {
		v.Admission = &jsonl.Admission{
			Verdict: w.Verdict.String(), Code: w.Code, Message: w.Message, Missing: string(w.Missing), Race: w.Answer.Race, Observed: w.Observed.String(),
		}
	}
	if o.NodeVerdict == nodeauthz.Allow || o.NodeVerdict == nodeauthz.Deny {
		v.NodeVerdict = o.NodeVerdict.String()
	}
	if o.HasGrant {
		g := o.Grant
		v.Grant = &jsonl.Grant{
			BindingKind: g.Binding.Kind, BindingNamespace: g.Binding.Namespace, BindingName: g.Binding.Name,
			RoleKind: g.Role.Kind, RoleName: g.Role.Name, SubjectKind: g.Subject.Kind, SubjectName: g.Subject.Name,
		}
	}
	for i := range j.Findings {
		v.Findings = append(v.Findings, j.Findings[i].Finding.Rule)
	}
	return v
}

// Verdicts writes verdict lines; the zero value writes none. It is not safe for concurrent use.
type Verdicts struct {
	w    *jsonl.Writer
	file *os.File
}

// Open makes the file of verdict lines, or takes stdout for "-". An empty path is none. An error is an [OptionError].
func (s *Verdicts) Open(path string, stdout io.Writer) error {
	switch path {
	case "":
		return nil
	case "-":
		s.w = jsonl.NewWriter(stdout)
		return nil
	}
	f, err := os.Create(path)
	if err != nil {
		return optionError("Verdicts", "cannot write %w", PathError(path, err))
	}
	s.w, s.file = jsonl.NewWriter(f), f
	return nil
}

// Write writes the line of a node's request; of other requests there is none. It serves as AnalyzeOptions.Each.
func (s *Verdicts) Write(j *pipeline.Judgement) error {
	if s.w == nil || !j.IsNode {
		return nil
	}
	v := VerdictLine(j)
	return s.w.Write(&v)
}

// Close writes what is left, and closes the file that Open made.
func (s *Verdicts) Close() error {
	if s.w == nil {
		return nil
	}
	err := s.w.Flush()
	if s.file != nil {
		err = errors.Join(err, s.file.Close())
	}
	return err
}

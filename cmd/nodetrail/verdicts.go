package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/sinks/jsonl"
)

// verdictSink writes verdict lines; the zero value writes none.
type verdictSink struct {
	w    *jsonl.Writer
	file *os.File
}

// spareInputs refuses to write verdicts over what is to be read.
func (a *analysis) spareInputs() error {
	out, err := os.Stat(a.verdicts)
	if err != nil || !out.Mode().IsRegular() {
		return nil //nolint:nilerr // a file that is not there yet holds nothing
	}
	paths := slices.Clone(a.state)
	for i := range a.inputs {
		paths = append(paths, a.inputs[i].Path)
	}
	for _, p := range paths {
		if in, err := os.Stat(p); err == nil && os.SameFile(in, out) {
			return fmt.Errorf("--verdicts: %s is also an input, and would be overwritten", a.verdicts)
		}
	}
	return nil
}

// openVerdicts opens what --verdicts names. When verdicts take standard output, the report moves to standard error.
func (a *analysis) openVerdicts(reportTo *io.Writer) (*verdictSink, error) {
	switch a.verdicts {
	case "":
		return &verdictSink{}, nil
	case "-":
		*reportTo = a.std.err
		return &verdictSink{w: jsonl.NewWriter(a.std.out)}, nil
	}
	f, err := os.Create(a.verdicts)
	if err != nil {
		return nil, fmt.Errorf("--verdicts: cannot write %w", pathless(a.verdicts, err))
	}
	return &verdictSink{w: jsonl.NewWriter(f), file: f}, nil
}

// pathless is the error of package os with the path first and without the system call.
func pathless(path string, err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return fmt.Errorf("%s: %w", path, err)
}

func (s *verdictSink) close() error {
	if s.w == nil {
		return nil
	}
	err := s.w.Flush()
	if s.file != nil {
		err = errors.Join(err, s.file.Close())
	}
	return err
}

func (s *verdictSink) write(j *pipeline.Judgement) error {
	if s.w == nil || !j.IsNode {
		return nil
	}
	v := verdictOf(j)
	return s.w.Write(&v)
}

// verdictOf is the verdict line of a judgement. Its strings are the judgement's.
func verdictOf(j *pipeline.Judgement) jsonl.Verdict {
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

package app

import (
	"context"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/denylog"
	"github.com/nodetrail/nodetrail/internal/filekind"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/pipeline/file"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/rules"
)

// denialBook matches the lines of an API server's own log with requests. A nil book has no log.
type denialBook struct{ log *denylog.Log }

// readDenials reads the logs, nil for none.
func readDenials(ctx context.Context, logs []string, stdin io.Reader) (*denialBook, error) {
	if len(logs) == 0 {
		return nil, nil
	}
	b := &denialBook{log: denylog.New()}
	seen := map[string]bool{}
	for _, arg := range logs {
		paths := []string{arg}
		if strings.ContainsAny(arg, "*?[") {
			matches, err := filepath.Glob(arg)
			if err != nil {
				return nil, optionError("ApiserverLogs", "%s: not a pattern: %w", arg, err)
			}
			if len(matches) > 0 {
				paths = matches
			}
		}
		for _, path := range paths {
			if seen[path] {
				continue
			}
			seen[path] = true
			if err := b.read(ctx, path, stdin); err != nil {
				return nil, optionError("ApiserverLogs", "cannot read %w", err)
			}
		}
	}
	return b, nil
}

func (b *denialBook) read(ctx context.Context, path string, stdin io.Reader) error {
	name := path
	if path == "-" {
		name = "<stdin>"
	}
	if err := Misplaced(path, filekind.ApiserverLog); err != nil {
		return err
	}
	r, done, err := file.Open(ctx, path, stdin)
	if err == nil {
		defer done()
		err = b.log.Read(name, r)
	}
	if err != nil {
		return PathError(name, err)
	}
	return nil
}

// add takes in a request that the Node authorizer refused, or may have refused.
func (b *denialBook) add(j *pipeline.Judgement) {
	if b == nil || !j.IsNode || !j.Attrs.ResourceRequest && j.Node != "" || j.Observed.NodeVerdict == nodeauthz.Allow || j.Observed.Authorizer == rules.ByNode {
		return
	}
	a := j.Attrs
	r := denylog.Request{
		AuditID: j.Event.AuditID, User: j.Event.Effective().Username, Node: j.Node, Verb: a.Verb, APIGroup: a.APIGroup, Resource: a.Resource,
		Subresource: a.Subresource, Namespace: a.Namespace, Name: a.Name, From: j.Time, Static: j.Answer.Static && j.Answer.Verdict == nodeauthz.Deny,
	}
	if j.Event.Stage != audit.StageRequestReceived {
		r.To = j.Event.StageTime
	}
	b.log.See(&r)
}

// tell puts what came of the lines into the facts. first and last are when the audit log begins and ends.
func (b *denialBook) tell(f *report.Facts, first, last time.Time) {
	if b == nil {
		return
	}
	res := b.log.Match(first, last)
	out := report.NewApiserverLog(res)
	f.ApiserverLog = out
	if n := out.Unlogged(); n > 0 {
		g := codes.Gap{Kind: codes.Log, Code: codes.DenialsUnlogged, Params: codes.Params{codes.Int(codes.ParamCount, n)}}
		f.Gaps, f.Lacks = append(f.Gaps, g), append(f.Lacks, g)
	}
}

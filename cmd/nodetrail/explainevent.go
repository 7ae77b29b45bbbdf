package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/explain"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/pipeline/file"
	"github.com/nodetrail/nodetrail/report"
)

// event explains the request of an audit event. The logs are gone through as analyze does, so that the verdict is the one that analyze
// gives; the evidence is of the state at their end, which knows what came later, too.
func (x *explaining) event(ctx context.Context, logs []string) (*explain.Explanation, error) {
	found, state, err := x.find(ctx, logs, []string{x.auditID})
	if err != nil {
		return nil, err
	}
	if found == nil {
		return nil, fmt.Errorf("no event with the audit ID %s in %s", report.Visible(x.auditID), strings.Join(logs, ", "))
	}
	return x.judged(found, state), nil
}

// judged explains a judged event, and says where the state has learned better since it was judged.
func (x *explaining) judged(j *pipeline.Judgement, state *cluster.State) *explain.Explanation {
	ex := x.explainer(state).Event(j)
	if now := nodeauthz.NewAuthorizer(state.Graph, x.features, x.skew).Decide(j.Attrs, j.Time); j.IsNode && now.Verdict != j.Answer.Verdict {
		ex.Notes = append(ex.Notes, fmt.Sprintf("The log tells of a change later than it was waited for: by its end the verdict would be %s.", now.Verdict))
	}
	if x.unread != nil {
		ex.Notes = append(ex.Notes, report.Visible(fmt.Sprintf("The log was not read to its end: %v.", x.unread)))
	}
	return ex
}

// find returns the judgement of the first event, in the order of ids, that has one of the audit IDs; nil if there is none.
func (x *explaining) find(ctx context.Context, logs, ids []string) (*pipeline.Judgement, *cluster.State, error) {
	f := analyzeFlags{
		authzFlags: x.authzFlags, state: x.state, fromAudit: true, mode: x.mode, output: "text", maxEventBytes: audit.DefaultMaxEventBytes,
	}
	a, err := f.prepare(logs, x.std)
	if err != nil {
		return nil, nil, err
	}
	a.features, a.am = x.features, x.am
	if err := a.find(logs); err != nil {
		return nil, nil, err
	}
	rank := map[string]int{}
	for i, id := range ids {
		rank[id] = i
	}
	var found *pipeline.Judgement
	var state *cluster.State
	best := len(ids)
	p := &replay{analysis: a, flags: &replayFlags{}}
	_, res, err := p.run(ctx, func(s *cluster.State) { state = s }, func(j *pipeline.Judgement) error {
		if r, ok := rank[j.Event.AuditID]; ok && r < best {
			found, best = x.keep(j), r
		}
		return nil
	})
	if found != nil && res != nil {
		x.unread = err // what was not read may hold what came later
		return found, state, nil
	}
	if err == nil {
		found, err = x.findSkipped(a.inputs, rank, state)
	}
	return found, state, err
}

// keep copies a judgement, which lives no longer than the call it is given to.
func (x *explaining) keep(j *pipeline.Judgement) *pipeline.Judgement {
	c := *j
	c.Event = j.Event.Clone()
	c.Attrs = new(audit.Attributes).Of(c.Event, x.features.AuthorizeWithSelectors)
	c.Node, c.Findings = strings.Clone(j.Node), nil
	c.Observed.Decision, c.Observed.Reason = c.Event.Decision, c.Event.Reason
	return &c
}

// findSkipped looks for events that are passed over otherwise, since no node made them. It knows no shippers' envelopes.
func (x *explaining) findSkipped(inputs []file.Input, ids map[string]int, state *cluster.State) (*pipeline.Judgement, error) {
	for i := range inputs {
		if inputs[i].Path == "-" {
			continue // it was read already
		}
		ev, err := findEvent(inputs[i].Path, ids)
		if err != nil {
			return nil, err
		}
		if ev == nil {
			continue
		}
		judge := &pipeline.Judge{Node: nodeauthz.NewAuthorizer(state.Graph, x.features, x.skew), RBAC: state.RBAC, Mode: x.am}
		return x.keep(judge.Judge(ev)), nil
	}
	return nil, nil
}

// findEvent reads a log line by line for an event with one of the audit IDs.
func findEvent(path string, ids map[string]int) (*audit.Event, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read %w", pathless(path, err))
	}
	defer func() { _ = f.Close() }() // only read
	plain, err := unpacked(f)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	defer plain.Close()
	var d audit.Decoder
	var found *audit.Event
	lines := bufio.NewScanner(plain)
	lines.Buffer(make([]byte, 0, 1<<20), 8*audit.DefaultMaxEventBytes)
	for (found == nil || found.Stage == audit.StageRequestReceived) && lines.Scan() {
		for id := range ids {
			if !bytes.Contains(lines.Bytes(), []byte(id)) {
				continue
			}
			d.Split(lines.Bytes(), func(ev *audit.Event, _ []byte) {
				if _, ok := ids[ev.AuditID]; ok && (found == nil || found.Stage == audit.StageRequestReceived) {
					found = ev.Clone()
				}
			}, func(audit.Malformed, []byte) {})
			break
		}
	}
	if err := lines.Err(); err != nil && !errors.Is(err, bufio.ErrTooLong) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return found, nil
}

// unpacked reads what is compressed as it is.
func unpacked(f io.Reader) (io.ReadCloser, error) {
	r := bufio.NewReaderSize(f, 1<<16)
	head, err := r.Peek(4)
	switch {
	case len(head) >= 2 && head[0] == 0x1f && head[1] == 0x8b:
		return gzip.NewReader(r)
	case bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(r)
		if err != nil {
			return nil, err
		}
		return z.IOReadCloser(), nil
	case err != nil && !errors.Is(err, io.EOF):
		return nil, err
	}
	return io.NopCloser(r), nil
}

package explain

import (
	"fmt"
	"strings"

	"github.com/nodetrail/nodetrail/nodeadmission"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/wording"
)

// NodeRestriction is what the admission plugin NodeRestriction says of a write of a node.
type NodeRestriction struct {
	// Verdict is allow, deny, unknown, or none where only the API server's own plugin said something.
	Verdict string `json:"verdict"`
	// Code and Message are those of a refusal, as the API server sends them.
	Code    int32  `json:"code"`
	Message string `json:"message"`
	// Missing is the code of what an unknown answer lacks.
	Missing string `json:"missing"`
	// Race is true when the answer would be another one within the skew of the instant.
	Race bool `json:"race"`
	// Observed is what the API server's plugin said, as far as the response tells: allow, deny, other, or none.
	Observed string `json:"observed"`
	// Outcome is the code of how both compare; empty for a request that was only asked about.
	Outcome rules.Outcome `json:"outcome"`
	// Words say it in sentences.
	Words []string `json:"words"`
}

// restriction is nil where the plugin is not asked. Of a request that nobody made the body is not known.
func (x *Explainer) restriction(j *pipeline.Judgement, made bool) *NodeRestriction {
	w := j.Admission
	if !made && x.o.Admission != nil && j.IsNode && j.Attrs.ResourceRequest && nodeadmission.Admits(j.Attrs.Verb) {
		w.Answer = x.o.Admission.Decide(&nodeadmission.Request{Attributes: j.Attrs, Node: j.Node, IsNode: true, Name: j.Attrs.Name}, j.Time)
	}
	if !w.Asked() {
		return nil
	}
	out := &NodeRestriction{
		Verdict: w.Verdict.String(), Code: w.Code, Message: strings.Clone(w.Message), Missing: string(w.Missing), Race: w.Race, Observed: w.Observed.String(), Words: []string{},
	}
	add := func(format string, args ...any) { out.Words = append(out.Words, visible(fmt.Sprintf(format, args...))) }
	switch {
	case w.Verdict == nodeadmission.Allow:
		add("NodeRestriction allows it.")
	case w.Verdict == nodeadmission.Deny:
		add("NodeRestriction refuses it with %d: %s.", w.Code, w.Message)
	case w.Missing == nodeadmission.MissingBody && !made:
		add("What NodeRestriction says depends on the request body.")
	case w.Verdict == nodeadmission.Unknown:
		add("What NodeRestriction says is not known: %s.", wording.AdmissionMissing(string(w.Missing)))
	}
	if w.Race {
		add("It is a race: within the skew the answer of NodeRestriction is another one.")
	}
	if !made {
		return out
	}
	switch out.Outcome = w.Outcome(j.Event.Code, j.Event.StatusMessage); out.Outcome {
	case rules.OutcomePredicted:
		add("The API server refused it with the same message.")
	case rules.OutcomeBypassed:
		add("The API server let it pass: NodeRestriction is not in force there.")
	case rules.OutcomeSurprised:
		add("The API server refused it: %s.", j.Event.StatusMessage)
	}
	return out
}

package coverage

import (
	"slices"

	internal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Writes reports whether an API server with this policy writes an event of the request at the stage, which is spelled as in audit.k8s.io/v1, and the line
// of the rule that decides; 0 where no rule matches, and where the line is not known. The user of the request is the one who authenticated.
func (p *Policy) Writes(a *authorizer.AttributesRecord, stage string) (line int, writes bool) {
	rule, _ := p.decided(a)
	if rule >= 0 {
		line = p.lines[rule]
	}
	got := p.levels.EvaluatePolicyRule(a)
	return line, got.Level != internal.LevelNone && !slices.Contains(got.OmitStages, internal.Stage(stage))
}

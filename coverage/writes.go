package coverage

import (
	"slices"

	internal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Writes reports whether an API server of any version with this policy writes an event of the request at the stage, which is spelled as in audit.k8s.io/v1, and
// the line of the rule that decides; 0 where no rule matches, and where the line is not known. The user of the request is the one who authenticated.
func (p *Policy) Writes(a *authorizer.AttributesRecord, stage string) (line int, writes bool) {
	for _, by := range p.versions() {
		rule, _ := p.decidedBy(by, a)
		if rule < 0 {
			continue
		}
		if line == 0 {
			line = p.lines[rule]
		}
		if r := &p.rules[rule]; r.Level != internal.LevelNone && !slices.Contains(r.OmitStages, internal.Stage(stage)) {
			return line, true
		}
	}
	return line, false
}

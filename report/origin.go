package report

import "github.com/nodetrail/nodetrail/wording"

// Outcome says what became of the requests of a finding.
func (f *Finding) Outcome() string {
	switch {
	case f.Allowed:
		return "succeeded"
	case f.Authorized:
		return "allowed, then failed"
	}
	return "refused"
}

// Origin says in lines of text who made the requests of a finding, from where, how the API server answered, and by which audit IDs to find them. What is
// not known has no line.
func (f *Finding) Origin() []string {
	var out []string
	join := func(a, between, b string) {
		switch {
		case a == "":
			a = b
		case b != "":
			a += between + b
		}
		if a != "" {
			out = append(out, a)
		}
	}
	lead := func(with, s string) string {
		if s == "" {
			return ""
		}
		return with + s
	}
	join(lead("by ", wording.Who(&f.Origins)), ", ", lead("from ", wording.From(&f.Origins)))
	join(lead(f.Outcome()+": ", wording.Answered(&f.Origins)), "; ", lead("audit IDs ", wording.Some(f.AuditIDs, 0, len(f.AuditIDs))))
	return out
}

// originCells are for tables: who, from where, what the API server answered, and the audit IDs.
func (f *Finding) originCells() []string {
	answered := wording.Answered(&f.Origins)
	if answered != "" {
		answered = ": " + answered
	}
	return []string{wording.Who(&f.Origins), wording.From(&f.Origins), f.Outcome() + answered, wording.Some(f.AuditIDs, 0, len(f.AuditIDs))}
}

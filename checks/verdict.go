package checks

import "slices"

// Answer is the answer to a question, as JSON has it.
type Answer string

// The answers.
const (
	AnswerReady           Answer = "ready"
	AnswerReadyWaived     Answer = "ready with waivers"
	AnswerNotReady        Answer = "not ready"
	AnswerConfined        Answer = "confined"
	AnswerConfinedWaived  Answer = "confined with waivers"
	AnswerNotConfined     Answer = "not confined"
	AnswerNotEnough       Answer = "not enough evidence"
	answerOfNoQuestionYet Answer = ""
)

// Answers returns the answers that the question can have; nil for what is not one question.
func (q Question) Answers() []Answer {
	switch q {
	case Ready:
		return []Answer{AnswerReady, AnswerReadyWaived, AnswerNotReady, AnswerNotEnough}
	case Confined:
		return []Answer{AnswerConfined, AnswerConfinedWaived, AnswerNotConfined, AnswerNotEnough}
	}
	return nil
}

// Verdict is the answer to one question, and how its checks came out.
type Verdict struct {
	Question Question
	Answer   Answer
	// Passed, Failed, Unproven and Waived name the checks, in the order of All.
	Passed, Failed, Unproven, Waived []string
	// Waivers is how many waivers the answer rests on.
	Waivers int
}

// Good reports whether the answer is yes: without a waiver, or, if they are accepted, with some.
func (v *Verdict) Good(acceptWaivers bool) bool {
	switch v.Answer {
	case AnswerReady, AnswerConfined:
		return true
	case AnswerReadyWaived, AnswerConfinedWaived:
		return acceptWaivers
	}
	return false
}

// State is the state of a check of the question; Unproven of any other.
func (v *Verdict) State(name string) State {
	switch {
	case slices.Contains(v.Passed, name):
		return Passed
	case slices.Contains(v.Failed, name):
		return Failed
	case slices.Contains(v.Waived, name):
		return Waived
	}
	return Unproven
}

// Conclude answers one question. Each check of the question counts, whether it has a result or not; of several results of one check the worst counts,
// and no result is better than its items. A failed check outranks an unproven one.
func Conclude(q Question, results []Result, applied []Applied) Verdict {
	v := Verdict{Question: q}
	for _, c := range Of(q) {
		switch StateIn(results, c.Name) {
		case Passed:
			v.Passed = append(v.Passed, c.Name)
		case Waived:
			v.Waived = append(v.Waived, c.Name)
		case Failed:
			v.Failed = append(v.Failed, c.Name)
		default:
			v.Unproven = append(v.Unproven, c.Name)
		}
	}
	for _, a := range applied {
		for _, name := range v.Waived {
			if a.Waiver.Check == name && len(a.Covers) > 0 {
				v.Waivers++
			}
		}
	}
	v.Answer = v.answer()
	return v
}

// StateIn is the state of a check by all its results; without one it is unproven.
func StateIn(results []Result, name string) State {
	s, found := Passed, false
	for i := range results {
		if r := &results[i]; r.Check == name {
			s, found = worse(s, worse(r.State, stateOf(r.Evidence))), true
		}
	}
	if !found {
		return Unproven
	}
	return s
}

func (v *Verdict) answer() Answer {
	yes, waived, no := AnswerReady, AnswerReadyWaived, AnswerNotReady
	switch v.Question {
	case Ready:
	case Confined:
		yes, waived, no = AnswerConfined, AnswerConfinedWaived, AnswerNotConfined
	default:
		return answerOfNoQuestionYet
	}
	switch {
	case len(v.Failed) > 0:
		return no
	case len(v.Unproven) > 0 || len(v.Passed)+len(v.Waived) == 0:
		return AnswerNotEnough
	case len(v.Waived) > 0:
		return waived
	}
	return yes
}

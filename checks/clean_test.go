package checks

import "testing"

func TestCleanLogPassesEverything(t *testing.T) {
	in := clean()
	results := Run(in)
	for _, r := range results {
		if r.State != Passed || r.Expected <= 0 || r.Seen <= 0 || r.Next.Code != "" {
			t.Errorf("%s: %s, %d of %d, next %q: %+v", r.Check, r.State, r.Seen, r.Expected, r.Next.Code, r.Evidence)
		}
	}
	for q, want := range map[Question]Answer{Ready: AnswerReady, Confined: AnswerConfined} {
		if v := Conclude(q, results, nil); v.Answer != want || !v.Good(false) {
			t.Errorf("%+v, want %s", v, want)
		}
	}
	if in.MinWindow != asked3 || in.MaxLoss != 0 {
		t.Error("Run changed its input")
	}
}

// Nothing is proven by nothing.
func TestEmptyInputProvesNothing(t *testing.T) {
	for _, r := range Run(&Input{}) {
		if r.State != Unproven {
			t.Errorf("%s: %s: %+v", r.Check, r.State, r.Evidence)
		}
		if r.Next.Code == "" {
			t.Errorf("%s: no next step", r.Check)
		}
	}
}

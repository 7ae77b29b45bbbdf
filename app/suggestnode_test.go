package app

import "testing"

// TestSuggestImpersonatesByVersion suggests impersonation only where all API servers are known to have it.
func TestSuggestImpersonatesByVersion(t *testing.T) {
	f := func(capture, version string, want bool) {
		t.Helper()
		in := captureOptions(capture)
		o := SuggestOptions{ChangeOptions: ChangeOptions{Authorization: in.Authorization, Input: in.Input}}
		o.KubernetesVersion = version
		res, err := Suggest(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if len(res.Suggestion.Clients) == 0 {
			t.Fatalf("%s: nothing is suggested", capture)
		}
		impersonates := false
		for i := range res.Suggestion.Clients {
			impersonates = impersonates || res.Suggestion.Clients[i].Impersonates
		}
		if impersonates != want {
			t.Errorf("%s as %q: impersonates %v", capture, version, impersonates)
		}
	}
	f("capture", "", true)
	f("capture", "1.36", true)
	f("capture", "1.35", false)
	f("capture-1.37", "", true)
}

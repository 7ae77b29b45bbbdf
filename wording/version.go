package wording

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nodetrail/nodetrail/codes"
)

// Version says which Kubernetes version decided the verdicts and why, such as "Kubernetes 1.36 (kube-controller-manager/v1.36.3, 2,310 requests)", and
// what contradicts it.
func Version(v *codes.Version) string {
	b := "Kubernetes " + v.Name
	for _, name := range slices.Sorted(maps.Keys(v.FeatureGates)) {
		b += fmt.Sprintf(", %s=%t", name, v.FeatureGates[name])
	}
	b += " (" + basis(v) + ")"
	if v.Also != "" {
		b += fmt.Sprintf("; API servers of %s also wrote these hours: requests on which the two versions differ count as races", v.Also)
	}
	if v.Beyond != "" {
		b += fmt.Sprintf("; the API server is %s, which is not supported: %s is the nearest, and requests on which %s and %s differ are unknown", v.Beyond, v.Name, v.Name, v.Next)
	}
	if v.Against == 0 {
		return b
	}
	b += fmt.Sprintf("; %s, for example %s", PluralOf(Thousands(v.Against), v.Against, "request")+contradict(v.Against), strings.Join(v.Examples, ", "))
	fits := slices.DeleteFunc(slices.Clone(v.Fits), func(name string) bool { return name == v.Name })
	switch {
	case v.Basis == "given" && len(fits) > 0:
		return b + fmt.Sprintf("; the log fits %s: remove --kubernetes-version and --feature-gates", fits[0])
	case v.Basis == "given":
		return b + "; no supported version fits better: check --authorization-mode and --feature-gates"
	}
	return b + "; no supported version fits: set --kubernetes-version and --feature-gates, and check --authorization-mode"
}

func contradict(n int64) string {
	if n == 1 {
		return " contradicts it"
	}
	return " contradict it"
}

// basis says what a version rests on.
func basis(v *codes.Version) string {
	requests := PluralOf(Thousands(v.Requests), v.Requests, "request")
	switch v.Basis {
	case "decisions":
		if v.Program != "" {
			return fmt.Sprintf("decisions of %s; %s", requests, agent(v))
		}
		return "decisions and reasons of " + requests
	case "user-agent":
		return agent(v)
	case "asked":
		return "reported by the API server"
	case "given":
		return "set by --kubernetes-version"
	case "contradicted":
		return "the closest match"
	case "preference":
		if fits := slices.DeleteFunc(slices.Clone(v.Fits), func(name string) bool { return name == v.Name }); len(fits) > 0 {
			return fmt.Sprintf("assumed; the log also fits %s", strings.Join(fits, ", "))
		}
	}
	return "assumed: the log does not show the version"
}

func agent(v *codes.Version) string {
	return fmt.Sprintf("%s/%s, %s", v.Program, v.Release, PluralOf(Thousands(v.Said), v.Said, "request"))
}

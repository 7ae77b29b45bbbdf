package coverage

import (
	"slices"
	"strings"

	internal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/codes"
)

// longVerb is the verb of the requests that may last, and longSubresources are the subresources whose requests may, whatever the verb: of these alone, and of
// some paths, an API server writes ResponseStarted. It is the check for long-running requests that kube-apiserver is built with. The verb proxy is of an API
// that is gone.
const longVerb = "watch"

var longSubresources = []string{"attach", "exec", "log", "portforward", "proxy"}

// isLong reports whether an API server takes the request for one that may last.
func isLong(a *authorizer.AttributesRecord) bool {
	if !a.ResourceRequest {
		return a.Verb == longVerb || strings.HasPrefix(a.Path, "/debug/pprof/")
	}
	return a.Verb == longVerb || slices.Contains(longSubresources, a.Subresource)
}

// loses returns what the log does not have of a request, logged at level Metadata or more, of which those stages are left out: PolicyLacks, nothing of it;
// PolicyLacksDecision, its decision; PolicyLacksStart, all of it while it lasts, and its client says for how long; PolicyLacksPanic, all of it if the API
// server panics. It returns "" if each end that the request can take leaves an event.
func loses(omits []internal.Stage, long bool) codes.Code {
	no := func(s internal.Stage) bool { return slices.Contains(omits, s) }
	switch {
	case no(internal.StageResponseComplete) && !(long && !no(internal.StageResponseStarted)):
		if no(internal.StageRequestReceived) {
			return codes.PolicyLacks
		}
		return codes.PolicyLacksDecision
	case long && no(internal.StageResponseStarted):
		return codes.PolicyLacksStart
	case !long && no(internal.StagePanic) && no(internal.StageRequestReceived):
		return codes.PolicyLacksPanic // a request that may last and panics before it starts has served nothing
	}
	return ""
}

// losesSome is whether a rule keeps requests, their decisions or their ends out of the log.
func losesSome(r *internal.PolicyRule) bool {
	return r.Level.Less(internal.LevelMetadata) || loses(r.OmitStages, false) != "" || loses(r.OmitStages, true) != ""
}

// always reports whether a request is kept out of the log however it ends, or its decision is.
func always(lost codes.Code) bool {
	return lost == codes.PolicyLacks || lost == codes.PolicyLacksDecision
}

// rare are the kinds of request of one rule that are kept out of the log if they last, or panic: all of one loss are listed as one.
type rare struct{ all []HiddenRequest }

// add notes a request that the rule keeps out of the log.
func (r *rare) add(h HiddenRequest) {
	i := slices.IndexFunc(r.all, func(o HiddenRequest) bool { return o.Rule == h.Rule && o.Lost == h.Lost })
	if i < 0 {
		h.Namespace, h.Name = "", ""
		r.all = append(r.all, h)
		return
	}
	o := &r.all[i]
	if o.Verb != h.Verb {
		o.Verb = AnyOther
	}
	if o.APIGroup != h.APIGroup || o.Resource != h.Resource || o.Path != h.Path {
		o.APIGroup, o.Resource, o.Path = "", AnyOther, ""
	}
	if o.Subresource != h.Subresource {
		o.Subresource = ""
	}
}

package codes

import "time"

// Version is the Kubernetes version that decided the verdicts of some hours, and the evidence for it. Its JSON form is stored: do not change it.
type Version struct {
	// From and To are whole hours, as [From, To).
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Name is such as "1.36", or "1.37 emulating 1.36"; FeatureGates are those that are not at their default.
	Name         string          `json:"name"`
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
	// Also is the version of other API servers in the same hours. Beyond is the API server's version if it is not supported: then Name is the nearest
	// supported one, and Next the second nearest.
	Also   string `json:"also,omitempty"`
	Beyond string `json:"beyond,omitempty"`
	Next   string `json:"next,omitempty"`
	// Basis is what says so, one of the codes of package version.
	Basis string `json:"basis"`
	// Program and Release are for example kube-controller-manager and v1.36.3, whose user agent confirms the version in Said requests; empty for none.
	Program string `json:"program,omitempty"`
	Release string `json:"release,omitempty"`
	Said    int64  `json:"said,omitempty"`
	// Requests counts the requests whose annotations imply the Node authorizer's verdict, Open those whose annotations do not.
	Requests int64 `json:"requests"`
	Open     int64 `json:"open,omitempty"`
	// Moved says that no version and gates fit all hours between two starts of API servers. Doubts counts requests that fit only another version.
	Moved  bool  `json:"moved,omitempty"`
	Doubts int64 `json:"doubts,omitempty"`
	// AnyPod says that nodes may read the pods of all nodes by a gate that API servers of this version have on.
	AnyPod bool `json:"anyPod,omitempty"`
	// AnyAudience says that nodes may get tokens for any audience, of the service accounts of their pods.
	AnyAudience bool `json:"anyAudience,omitempty"`
	// Fits are other versions, with their gates, that the log does not contradict: the most likely first, not necessarily all.
	Fits []string `json:"fits,omitempty"`
	// Against counts the compared requests that contradict the version; Examples are some of their audit IDs.
	Against  int64    `json:"against,omitempty"`
	Examples []string `json:"examples,omitempty"`
	// Known is whether the evidence suffices for the check version-known.
	Known bool `json:"known"`
}

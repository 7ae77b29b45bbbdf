package conformance

import (
	"encoding/json"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// History is a scenario: what happened, and what is asked after each step. As JSON it is what testdata/regressions keeps.
type History struct {
	// Why says in a sentence what the scenario shows.
	Why string `json:"why,omitempty"`
	// Bug names the reference's bug that shows in it, if one does.
	Bug Bug `json:"bug,omitempty"`
	// From is the first minor in which that bug shows; 0 is all.
	From int `json:"from,omitempty"`
	// Gates are feature gates other than at their defaults. Those that a minor does not have or has locked are left out there.
	Gates    map[string]bool `json:"gates,omitempty"`
	Steps    []Step          `json:"steps"`
	Requests []Request       `json:"requests"`
}

// Op is what a step does to its object.
type Op string

// The operations. A set is an addition when the object is not there and an update when it is; a deletion of what is not there is
// nothing, so that any subset of a history's steps is a history.
const (
	OpSet       Op = "set"
	OpDelete    Op = "delete"
	OpTombstone Op = "tombstone" // deleted while the watch was down: the handlers get a cache.DeletedFinalStateUnknown
)

// Step is one event. Exactly one of the objects is there; of one to be deleted only the names count.
type Step struct {
	Op Op `json:"op"`
	// Copies makes of a pod that many, with their number behind name and UID. Only files have it.
	Copies     int                      `json:"copies,omitempty"`
	Pod        *corev1.Pod              `json:"pod,omitempty"`
	Volume     *corev1.PersistentVolume `json:"persistentVolume,omitempty"`
	Attachment *OnNode                  `json:"volumeAttachment,omitempty"`
	Slice      *OnNode                  `json:"resourceSlice,omitempty"`
	PodRequest *OnNode                  `json:"podCertificateRequest,omitempty"`
}

// OnNode is an object of which only the node matters.
type OnNode struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
	Node      string `json:"nodeName,omitempty"`
}

// Request is what is asked.
type Request struct {
	User        string   `json:"user"`
	Groups      []string `json:"groups,omitempty"`
	Verb        string   `json:"verb"`
	APIGroup    string   `json:"apiGroup,omitempty"`
	Resource    string   `json:"resource,omitempty"`
	Subresource string   `json:"subresource,omitempty"`
	Namespace   string   `json:"namespace,omitempty"`
	Name        string   `json:"name,omitempty"`
	// Path makes it a request for no resource.
	Path     string     `json:"path,omitempty"`
	Selector []Selector `json:"fieldSelector,omitempty"`
}

// Selector is one requirement of a field selector.
type Selector struct {
	Field    string `json:"field"`
	Operator string `json:"operator"`
	Value    string `json:"value"`
}

// Attributes returns the request as both sides see it.
func (r *Request) Attributes() *authorizer.AttributesRecord {
	a := &authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: r.User, Groups: r.Groups},
		Verb: r.Verb, APIGroup: r.APIGroup, APIVersion: "v1", Resource: r.Resource, Subresource: r.Subresource,
		Namespace: r.Namespace, Name: r.Name, ResourceRequest: r.Path == "", Path: r.Path,
	}
	setSelector(a, r.Selector)
	return a
}

// String returns the request in one line.
func (r *Request) String() string {
	b, err := json.Marshal(r)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// String returns the step in one line.
func (s *Step) String() string {
	b, err := json.Marshal(s)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// ParseHistory reads a scenario file.
func ParseHistory(data []byte) (*History, error) {
	var h History
	if err := json.Unmarshal(data, &h); err != nil { // not strictly: older minors lack some of a pod's fields
		return nil, fmt.Errorf("reading a scenario: %w", err)
	}
	var steps []Step
	for i := range h.Steps {
		s := &h.Steps[i]
		n := 0
		for _, there := range []bool{s.Pod != nil, s.Volume != nil, s.Attachment != nil, s.Slice != nil, s.PodRequest != nil} {
			if there {
				n++
			}
		}
		if n != 1 || (s.Op != OpSet && s.Op != OpDelete && s.Op != OpTombstone) || s.Copies != 0 && s.Pod == nil {
			return nil, fmt.Errorf("step %d needs one object and an op of set, delete or tombstone", i)
		}
		steps = append(steps, s.copies()...)
	}
	h.Steps = steps
	return &h, nil
}

func (s *Step) copies() (out []Step) {
	if s.Copies == 0 {
		return []Step{*s}
	}
	for i := range s.Copies {
		p := s.Pod.DeepCopy()
		p.Name += strconv.Itoa(i)
		p.UID += types.UID(strconv.Itoa(i))
		out = append(out, Step{Op: s.Op, Pod: p})
	}
	return out
}

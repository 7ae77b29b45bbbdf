package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/codes"
)

// What makes an enumeration. A pod that has just gone, or a static pod that names secrets, makes a node ask for one, two or three objects
// that are not its own; five within ten minutes are a search. Ten within a day are one that is slow: at one an hour it is found after nine
// hours.
const (
	enumerationFast       = 5
	enumerationFastWindow = 10 * time.Minute
	enumerationSlow       = 10
	enumerationSlowWindow = 24 * time.Hour
	// Reads of collections count as more than one object if they were let through: that of a namespace as three, that of the cluster as
	// five. If they were refused they showed the caller nothing, but one that tries is not looking for one object either.
	enumerationNamespace = 3
	enumerationCluster   = 5
	enumerationRefused   = 2
	// enumerationAgain is how often one that continues without anything new is found.
	enumerationAgain = 10 * time.Minute
	// enumerationObjects is how many objects of a node are distinguished: those that were let through before the others, and then the latest.
	enumerationObjects = 64
	// enumerationMany is how many nodes reach for objects in the same minute, by the API server's word alone, for that to be a fault of the
	// API server (its graph is empty after a restart) rather than of the nodes.
	enumerationMany = 3
)

// The reasons of the rule secret-enumeration.
const (
	ManyWithinMinutes Reason = "many-within-minutes"
	ManyWithinDay     Reason = "many-within-day"
)

func secretEnumeration() *Rule {
	rule := &Rule{
		Name:     "secret-enumeration",
		Severity: Critical,
		Reasons: []ReasonDoc{
			{Reason: ManyWithinMinutes, Doc: "the node reached for at least 5 different objects within 10 minutes"},
			{Reason: ManyWithinDay, Doc: "the node reached for at least 10 different objects within 24 hours"},
		},
		Doc: `A node asks for many secrets that no pod on it uses

## What
One node got, listed or watched different secrets and configmaps, or created tokens of different service accounts, and no pod on the node
used any of them (as in the rule out-of-scope-secret-read). There were at least 5 such objects
within 10 minutes, or at least 10 within 24 hours. It does not matter whether the requests were refused. A read of a whole collection counts
as several objects: as 3 for a namespace and as 5 for the cluster if it was let through, and as 2 if it was refused. The finding is made
again in each minute in which the node asks for something new, and every 10 minutes while the node continues with the same objects.

These requests do not count:

- races;
- denials after which the same node was allowed the same object within 10 to 20 seconds;
- requests for objects that the given state had long allowed;
- a kubelet's watches and requests for tokens that were refused, of objects that its node could reach within the ten minutes before, or
  within the ten minutes before the node was cut off. This happens if a node comes back after its pods were deleted by force.

If the state does not show whether a pod uses the object, only the API server's denial is known. Then objects do not count in a minute in
which three or more nodes ask for such objects: after a restart or a restore, the API server denies all nodes what is theirs.

Requests of a kubelet's user agent for pods, persistent volumes, claims and volume attachments by their names are counted separately, with
the same limits and severity medium. They count if they were refused, if the node had no pod that used the volume, the claim or the
attachment within ten minutes, and if the pod was not on the node in the day before. They count only if the state shows all pods. A get of a
single pod that is on another node is in node-credential-misuse.

## Why
A kubelet asks for what its pods name and for nothing else. This rule finds somebody who has the kubelet's credential and looks for more.
The window of a day finds those who do it slowly.

## What to do
Find out by user agent and address what used the node's credential. Unless it is a program of yours, isolate the node, and rotate each
object that was read. Remove the RBAC binding that allowed the reads (see rbac-excess-access).

A client certificate cannot be revoked, and a new certificate does not end the old one. Until the old one expires, its holder can read what
the pods of the node use. Cordon and drain the node, delete its Node, block the address, and replace the CA if you cannot wait.

## False positives
An agent that runs on the node with the kubelet's credential and reads secrets, such as an ingress controller, looks the same. Give it a
service account. If the state lacks persistent volumes or pods, the secrets that they use are flagged as well.

## How to silence it
Run with '--disable secret-enumeration', or add the rule to 'rules.disable' in the configuration.`,
	}
	rule.NewDetector = func(o DetectorOptions) Detector {
		e := &enumeration{kubeletNames: kubeletNames{o.Kubelets}, rule: rule}
		for i := range e.of {
			e.of[i] = enumerationOf{nodes: map[string]*enumerationNode{}, changed: map[string]struct{}{}}
		}
		return e
	}
	return rule
}

// enumeration counts the different objects that each node reaches for.
type enumeration struct {
	kubeletNames
	rule  *Rule
	of    [searches]enumerationOf
	swept time.Time
}

// What is searched for is counted each by itself: no number of refused pods takes the room of a secret.
const (
	ofSecrets = iota
	ofObjects
	searches
)

// SearchOfObjects tells a search for pods, volumes and claims apart from one for secrets.
const SearchOfObjects = "objects"

// enumerationOf is what is known of one kind of search.
type enumerationOf struct {
	nodes   map[string]*enumerationNode
	changed map[string]struct{}
}

type enumerationNode struct {
	Objects  []reached        `json:"o"` // by the time of the last request, the latest last
	FoundAt  time.Time        `json:"f,omitzero"`
	Examples []reachedExample `json:"e,omitempty"` // of those that were new, what passed kept longest, the latest last
}

// reached is an object that a node reached for.
type reached struct {
	ID     uint64 `json:"i"`
	Last   int64  `json:"t"` // the time of the last request, in nanoseconds since 1970
	Weight int8   `json:"w"`
	Passed bool   `json:"p,omitzero"`
}

type reachedExample struct {
	Name    string `json:"n"`
	AuditID string `json:"a,omitzero"`
	Product string `json:"u,omitzero"`
	Passed  bool   `json:"p,omitzero"`
}

// oldest is the index of what makes room: the oldest that was refused, or else the oldest.
func oldest[E any](all []E, passed func(*E) bool) int {
	for i := range all {
		if !passed(&all[i]) {
			return i
		}
	}
	return 0
}

// maxReachedExamples is how many are kept; three are reported, and the auditIDs of all.
const maxReachedExamples = 5

// search returns which kind of search the denial is part of, and how much it counts there, 0 if it is part of none.
func (d *denial) search(kubelets []string) (kind, weight int) {
	if weight := d.reach(); weight > 0 {
		return ofSecrets, weight
	}
	o := d.Object
	if d.Wide || d.Lagged > 0 || d.Allowed || !d.Known || o.Verb != "get" || o.Name == "" || o.Subresource != "" || !IsKubelet(d.Product, kubelets) {
		return 0, 0
	}
	switch o.Resource {
	case "pods", "persistentvolumes", "persistentvolumeclaims":
		if o.APIGroup == "" {
			return ofObjects, 1
		}
	case "volumeattachments":
		if o.APIGroup == "storage.k8s.io" {
			return ofObjects, 1
		}
	}
	return 0, 0
}

// had reports whether a kubelet may ask for a pod, a volume or a claim because its node had it, or had a pod that used it, or whether the state does not tell.
func (d *denial) had(s State) bool {
	o := d.Object
	if s == nil || !s.PodsWatched(d.First) || !s.PodsWatched(d.First.Add(-asksAfter)) {
		return true
	}
	if o.Resource == "pods" {
		return hadPod(s, o.Namespace, o.Name, d.Node, d.First)
	}
	return s.Had(&authorizer.AttributesRecord{
		Verb: o.Verb, APIGroup: o.APIGroup, APIVersion: "v1", Resource: o.Resource, Namespace: o.Namespace, Name: o.Name, ResourceRequest: true,
	}, d.Node, d.First)
}

// reach returns how much the denial counts, 0 if it is none of a secret or the like.
func (d *denial) reach() int {
	o := d.Object
	if d.Wide || d.Lagged > 0 || o.APIGroup != "" {
		return 0
	}
	read := o.Subresource == "" && reads(o.Verb)
	switch {
	case (o.Resource == "secrets" || o.Resource == "configmaps") && read:
	case o.Resource == "serviceaccounts" && o.Subresource == "token" && o.Verb == "create":
	default:
		return 0
	}
	switch {
	case o.Name != "" || o.Verb == "get" || o.Verb == "create":
		return 1
	case !d.Allowed:
		return enumerationRefused
	case o.Namespace != "":
		return enumerationNamespace
	}
	return enumerationCluster
}

// Advance implements Detector.
func (e *enumeration) Advance(t time.Time, _ State, _ func(*Detection)) {
	t = t.Add(-flushBy) // the minutes before it were given
	if hour := t.Truncate(time.Hour); hour.After(e.swept) {
		e.swept = hour
		for i := range e.of {
			of := &e.of[i]
			for name, n := range of.nodes {
				if n.forget(t) {
					of.changed[name] = struct{}{}
				}
				if len(n.Objects) == 0 {
					delete(of.nodes, name)
				}
			}
		}
	}
}

// forget drops what the slow window no longer holds.
func (n *enumerationNode) forget(t time.Time) bool {
	old := 0
	for old < len(n.Objects) && t.UnixNano()-n.Objects[old].Last > int64(enumerationSlowWindow) {
		old++
	}
	n.Objects = slices.Delete(n.Objects, 0, old)
	return old > 0
}

func (e *enumeration) minute(m *denialMinute, s State, found func(*Detection)) {
	unsure, seen := 0, make([]bool, len(m.nodes)) // nodes that only the API server says reach for anything
	for _, step := range m.steps {
		for _, d := range step.denied {
			if !d.Known && !seen[d.nth] && d.reach() > 0 {
				unsure, seen[d.nth] = unsure+1, true
			}
		}
	}
	type reaching struct {
		node *enumerationNode
		anew bool // it reached for something new
	}
	nodes := make([][searches]reaching, len(m.nodes))
	for _, step := range m.steps {
		for _, d := range step.denied {
			kind, weight := d.search(e.kubelets)
			if weight == 0 || !d.Known && unsure >= enumerationMany {
				continue
			}
			at := &nodes[d.nth][kind]
			if at.node == nil {
				if at.node = e.of[kind].node(d.Node); at.node == nil {
					continue
				}
			}
			if at.node.knows(d.ID) || kind == ofSecrets && !d.lost(s, e.kubelets) || kind == ofObjects && !d.had(s) {
				at.anew = at.node.reach(d, weight) || at.anew
			}
		}
	}
	for _, nth := range m.byName() {
		for kind := range nodes[nth] {
			at := &nodes[nth][kind]
			e.judge(kind, m.nodes[nth], at.node, at.anew, found)
		}
	}
}

// judge looks at what a node reached for, when it reached for something in the minute.
func (e *enumeration) judge(kind int, name string, n *enumerationNode, anew bool, found func(*Detection)) {
	if n == nil || len(n.Objects) == 0 {
		return
	}
	e.of[kind].changed[name] = struct{}{}
	last := time.Unix(0, n.Objects[len(n.Objects)-1].Last).UTC()
	if !anew && last.Sub(n.FoundAt) < enumerationAgain {
		return
	}
	if f := e.detect(name, n, last); f != nil {
		if kind == ofObjects {
			f.Severity, f.Apart = Medium, SearchOfObjects
		}
		n.FoundAt = last
		found(f)
	}
}

// node is what is known of a node, nil if there are too many.
func (e *enumerationOf) node(name string) *enumerationNode {
	n := e.nodes[name]
	if n == nil && len(e.nodes) < MaxNodes {
		n = &enumerationNode{}
		e.nodes[strings.Clone(name)] = n
	}
	return n
}

// knows reports whether the node has reached for the object before.
func (n *enumerationNode) knows(id uint64) bool {
	return slices.ContainsFunc(n.Objects, func(o reached) bool { return o.ID == id })
}

// reach takes in a denial and reports whether its object is new.
func (n *enumerationNode) reach(d *denial, weight int) bool {
	n.forget(d.Last)
	now := reached{ID: d.ID, Last: d.Last.UnixNano()}
	i := slices.IndexFunc(n.Objects, func(o reached) bool { return o.ID == d.ID })
	if i >= 0 {
		now = n.Objects[i]
		n.Objects = slices.Delete(n.Objects, i, i+1)
	} else {
		if len(n.Objects) >= enumerationObjects {
			at := oldest(n.Objects, func(o *reached) bool { return o.Passed })
			n.Objects = slices.Delete(n.Objects, at, at+1)
		}
		if len(n.Examples) >= maxReachedExamples {
			at := oldest(n.Examples, func(x *reachedExample) bool { return x.Passed })
			n.Examples = slices.Delete(n.Examples, at, at+1)
		}
		n.Examples = append(n.Examples, reachedExample{bounded(d.Object.String(), maxDeniedText), strings.Clone(d.AuditID), d.Product, d.Allowed})
	}
	now.Last, now.Weight, now.Passed = max(now.Last, d.Last.UnixNano()), max(now.Weight, int8(weight)), now.Passed || d.Allowed
	at := len(n.Objects)
	for at > 0 && now.Last < n.Objects[at-1].Last {
		at--
	}
	n.Objects = slices.Insert(n.Objects, at, now)
	return i < 0
}

// detect holds what was reached for by the given time against both windows.
func (e *enumeration) detect(name string, n *enumerationNode, at time.Time) *Detection {
	fast, slow, begin := 0, 0, 0
	for i := range n.Objects {
		o := &n.Objects[i]
		slow += int(o.Weight)
		if at.UnixNano()-o.Last <= int64(enumerationFastWindow) {
			if fast == 0 {
				begin = i
			}
			fast += int(o.Weight)
		}
	}
	in, reason := n.Objects, ManyWithinDay
	switch {
	case fast >= enumerationFast:
		in, reason = n.Objects[begin:], ManyWithinMinutes
	case slow >= enumerationSlow:
	default:
		return nil
	}
	f := &Detection{
		Finding: Finding{Rule: e.rule.Name, Reason: reason, Severity: e.rule.Severity, Subject: name}, Time: at, First: time.Unix(0, in[0].Last).UTC(), Last: at,
		Count: int64(len(in)),
	}
	var examples, products []string
	passed := 0
	for i := range in {
		if in[i].Passed {
			passed++
		}
	}
	shown := slices.Clone(n.Examples)
	slices.Reverse(shown)
	slices.SortStableFunc(shown, func(a, b reachedExample) int { // what was let through first
		switch {
		case a.Passed == b.Passed:
			return 0
		case a.Passed:
			return -1
		}
		return 1
	})
	for i := range shown {
		x := &shown[i]
		if x.AuditID != "" {
			f.AuditIDs = append(f.AuditIDs, x.AuditID)
		}
		if len(examples) < 3 {
			examples = append(examples, x.Name)
		}
		if len(products) < 3 && !slices.Contains(products, x.Product) {
			products = append(products, x.Product)
		}
	}
	f.Allowed = passed > 0
	f.Params = codes.Params{codes.Int(ParamObjects, len(in)), codes.Int(ParamAllowed, passed)}
	if len(in) == enumerationObjects {
		f.Params = append(f.Params, codes.Int(ParamAtLeast, enumerationObjects))
	}
	f.Params = append(f.Params, codes.List(ParamObject, examples)...)
	// The products are no part of what tells findings apart: one that searches may change it.
	f.Params = append(f.Params, codes.List(ParamClient, products)...)
	return f
}

// rememberedEnumerations are the kinds of what is stored, one of each search.
var rememberedEnumerations = [searches]string{"enumeration", "enumeration-objects"}

// appendJSON appends the form that encoding/json makes. It takes a fifth of the time, which counts in an attack.
func (n *enumerationNode) appendJSON(b []byte) ([]byte, error) {
	m := membersOf(slices.Grow(b, 64+64*len(n.Objects)+256*len(n.Examples)))
	m.name(`"o":`)
	if n.Objects == nil {
		m.b = append(m.b, "null"...)
	} else {
		appendAll(&m, n.Objects, func(o reached, m *members) {
			m.name(`"i":`)
			m.b = strconv.AppendUint(m.b, o.ID, 10)
			m.number(`"t":`, o.Last)
			m.number(`"w":`, int64(o.Weight))
			m.flag(`"p":`, o.Passed)
		})
	}
	if !n.FoundAt.IsZero() {
		m.value(`"f":`, n.FoundAt)
	}
	if len(n.Examples) > 0 {
		m.name(`"e":`)
		appendAll(&m, n.Examples, func(x reachedExample, m *members) {
			m.name(`"n":`)
			m.b = appendText(m.b, x.Name)
			m.text(`"a":`, x.AuditID)
			m.text(`"u":`, x.Product)
			m.flag(`"p":`, x.Passed)
		})
	}
	return m.end()
}

// Changes implements Detector.
func (e *enumeration) Changes() []Remembered {
	var out []Remembered
	for i := range e.of {
		of := &e.of[i]
		for _, name := range slices.Sorted(maps.Keys(of.changed)) {
			n := of.nodes[name]
			if n == nil {
				n = &enumerationNode{}
			}
			out = remember(out, rememberedEnumerations[i], name, n)
		}
		clear(of.changed)
	}
	return out
}

// Restore implements Detector.
func (e *enumeration) Restore(r *Remembered) (own bool, err error) {
	kind := slices.Index(rememberedEnumerations[:], r.Kind)
	if kind < 0 {
		return false, nil
	}
	of := &e.of[kind]
	if of.nodes[r.Key] != nil || len(of.nodes) >= MaxNodes {
		return true, nil
	}
	n := &enumerationNode{}
	if err := json.Unmarshal(r.Value, n); err != nil {
		return true, err
	}
	if len(n.Objects) > enumerationObjects || len(n.Examples) > maxReachedExamples {
		return true, fmt.Errorf("%d objects", len(n.Objects))
	}
	for i := range n.Objects {
		if o := &n.Objects[i]; o.Weight < 0 || o.Weight > enumerationCluster || i > 0 && o.Last < n.Objects[i-1].Last {
			return true, errors.New("an object that cannot be")
		}
	}
	if len(n.Objects) > 0 {
		of.nodes[strings.Clone(r.Key)] = n
	}
	return true, nil
}

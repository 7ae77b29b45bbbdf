package days

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nodetrail/nodetrail/internal/demo"
)

// Entry is a watch event of the journal. Entries are shared between a day and its mutations: change a copy.
type Entry struct {
	At        time.Time
	Type      string // ADDED, MODIFIED or DELETED
	Kind      string
	Namespace string
	Name      string
	// Object is the object without its resourceVersion, which its place in the journal gives. The members of metadata are in meta.
	Object map[string]any
	raw    []byte // the object as JSON instead, with the resource version 1

	rendered rendering[Entry]
}

// object makes the map of an object.
func object(apiVersion, kind, namespace, name, uid string, created time.Time, more map[string]any) map[string]any {
	meta := map[string]any{"name": name, "uid": uid, "creationTimestamp": created.UTC().Format(time.RFC3339)}
	if namespace != "" {
		meta["namespace"] = namespace
	}
	o := map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": meta}
	for k, v := range more {
		if k == "labels" || k == "annotations" || k == "deletionTimestamp" || k == "deletionGracePeriodSeconds" || k == "ownerReferences" {
			meta[k] = v
		} else {
			o[k] = v
		}
	}
	return o
}

// entry is the watch event of an object.
func entry(at time.Time, kind string, o map[string]any) *Entry {
	meta := o["metadata"].(map[string]any)
	namespace, _ := meta["namespace"].(string)
	return &Entry{At: at, Type: kind, Kind: o["kind"].(string), Namespace: namespace, Name: meta["name"].(string), Object: o}
}

// appendLine appends the entry with its newline; rv is the object's resourceVersion.
func (e *Entry) appendLine(b []byte, rv string) []byte {
	r := &e.rendered
	if r.of != e {
		return e.render(b, rv)
	}
	b = append(b, r.before...)
	if len(r.after) == 0 {
		return b
	}
	b = append(b, rv...)
	return append(b, r.after...)
}

// render renders the entry with its newline.
func (e *Entry) render(b []byte, rv string) []byte {
	b = append(b, `{"observedAt":"`...)
	b = e.At.UTC().AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","type":"`...)
	b = append(b, e.Type...)
	b = append(b, `","object":`...)
	if e.raw != nil {
		b = append(b, e.raw...)
		return append(b, "}\n"...)
	}
	meta := e.Object["metadata"].(map[string]any)
	withVersion := make(map[string]any, len(meta)+1)
	for k, v := range meta {
		withVersion[k] = v
	}
	withVersion["resourceVersion"] = rv
	o := make(map[string]any, len(e.Object))
	for k, v := range e.Object {
		o[k] = v
	}
	o["metadata"] = withVersion
	text, err := json.Marshal(o)
	if err != nil {
		panic(fmt.Sprintf("%s %s: %v", e.Kind, e.Name, err)) // objects are made of what marshals
	}
	return append(append(b, text...), "}\n"...)
}

// bootstrapRBAC are the roles and bindings that kube-apiserver itself makes, as a real one made them: those of internal/demo's capture.
var bootstrapRBAC = sync.OnceValues(func() ([]*Entry, error) {
	zr, err := gzip.NewReader(bytes.NewReader(demo.Journal()))
	if err != nil {
		return nil, err
	}
	var out []*Entry
	lines := bufio.NewScanner(zr)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if !bytes.Contains(lines.Bytes(), []byte("rbac.authorization.k8s.io/v1")) {
			continue
		}
		var line struct {
			Type   string         `json:"type"`
			Object map[string]any `json:"object"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return nil, err
		}
		meta, _ := line.Object["metadata"].(map[string]any)
		if labels, _ := meta["labels"].(map[string]any); line.Type != "ADDED" || labels["kubernetes.io/bootstrapping"] == nil {
			continue
		}
		delete(meta, "managedFields")
		meta["resourceVersion"] = "1"
		e := entry(time.Time{}, "ADDED", line.Object)
		if e.raw, err = json.Marshal(line.Object); err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, lines.Err()
})

// subject is one of a binding's.
func subject(kind, namespace, name string) map[string]any {
	if kind == "ServiceAccount" {
		return map[string]any{"kind": kind, "namespace": namespace, "name": name}
	}
	return map[string]any{"apiGroup": rbacGroup, "kind": kind, "name": name}
}

const rbacGroup = "rbac.authorization.k8s.io"

// binding is a ClusterRoleBinding of a ClusterRole, or in a namespace a RoleBinding of a Role.
func binding(r *rand.Rand, namespace, name, role string, created time.Time, subjects ...map[string]any) map[string]any {
	kind, roleKind := "ClusterRoleBinding", "ClusterRole"
	if namespace != "" {
		kind, roleKind = "RoleBinding", "Role"
	}
	return object(rbacGroup+"/v1", kind, namespace, name, uuid(r), created, map[string]any{
		"roleRef": map[string]any{"apiGroup": rbacGroup, "kind": roleKind, "name": role}, "subjects": subjects,
	})
}

// role is a ClusterRole, or in a namespace a Role, with one rule for each element of rules.
func role(r *rand.Rand, namespace, name string, created time.Time, rules ...map[string]any) map[string]any {
	kind := "ClusterRole"
	if namespace != "" {
		kind = "Role"
	}
	return object(rbacGroup+"/v1", kind, namespace, name, uuid(r), created, map[string]any{"rules": rules})
}

// rule is a rule of a role; each argument is a list with commas.
func rule(verbs, groups, resources string, names ...string) map[string]any {
	out := map[string]any{"verbs": strings.Split(verbs, ","), "apiGroups": strings.Split(groups, ","), "resources": strings.Split(resources, ",")}
	if len(names) > 0 {
		out["resourceNames"] = names
	}
	return out
}

// urls is a rule about paths that are no resource's.
func urls(verb, path string) map[string]any {
	return map[string]any{"verbs": []string{verb}, "nonResourceURLs": []string{path}}
}

// sortState puts entries in the order in which they were observed.
func sortState(entries []*Entry) {
	slices.SortStableFunc(entries, func(a, b *Entry) int { return a.At.Compare(b.At) })
}

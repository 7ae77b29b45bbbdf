package cluster

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
)

func TestCapture(t *testing.T) {
	s := NewState()
	if err := s.Load([]string{"testdata/capture.jsonl.gz"}, nil); err != nil {
		t.Fatal(err)
	}
	sum := s.Summary()
	want := map[string]int{
		"Pod": 127, "PersistentVolume": 20, "VolumeAttachment": 6, "ResourceSlice": 6, "PodCertificateRequest": 0, "Node": 6, "ClusterRole": 70,
		"ClusterRoleBinding": 52, "Role": 7, "RoleBinding": 7, "PersistentVolumeClaim": 20, "CSIDriver": 0, "ServiceAccount": 0,
	}
	if d := cmp.Diff(want, sum.Objects); d != "" {
		t.Error(d)
	}
	if sum.Malformed != 0 || len(sum.Skipped) != 0 {
		t.Errorf("malformed %d %q, skipped %v", sum.Malformed, sum.Places, sum.Skipped)
	}
	if got := said(s.Gaps(sum.From, sum.To)); len(got) != 0 {
		t.Errorf("warnings: %q", got)
	}
	if exists, covered := s.Nodes.Known("worker-3", sum.To); !exists || !covered {
		t.Error("worker-3 is not known")
	}
	if from, ok := s.Graph.CoveredFrom(); !ok || !from.Equal(sum.From) {
		t.Errorf("covered from %v, %v", from, ok)
	}
	node, ok := s.Graph.PodNode("shop", "pod-1", sum.From.Add(3*time.Second))
	if node != "worker-3" || !ok {
		t.Errorf("shop/pod-1 is on %q", node)
	}
}

func pack(t *testing.T, how, text string) string {
	t.Helper()
	var b bytes.Buffer
	switch how {
	case "gz":
		w := gzip.NewWriter(&b)
		_, _ = w.Write([]byte(text))
		_ = w.Close()
	case "zst":
		w, err := zstd.NewWriter(&b)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = w.Write([]byte(text))
		_ = w.Close()
	default:
		return text
	}
	return b.String()
}

// TestForms gives the same two objects in every form in which a state may come.
func TestForms(t *testing.T) {
	pod := podJSON(t, "web-1", "u1", "w1", "1m", "1m", "")
	node := `{"kind":"Node","apiVersion":"v1","metadata":{"name":"w1","uid":"n1","creationTimestamp":"2026-11-21T06:00:00Z"}}`
	bare := strings.Replace(pod, `"kind":"Pod","apiVersion":"v1",`, "", 1)
	yamlDocs := `# as kubectl writes it
apiVersion: v1
kind: Pod
metadata: {name: web-1, namespace: shop, uid: u1, creationTimestamp: "2026-11-21T06:01:00Z"}
spec: {nodeName: w1}
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: w1, uid: n1, creationTimestamp: "2026-11-21T06:00:00Z"}}
---
`
	pretty := strings.NewReplacer(`"object":`, "\n  \"object\":\n  ", `"spec"`, "\n   \"spec\"").Replace(event(t, "", "ADDED", pod) + event(t, "", "ADDED", node))
	f := func(name, text string) {
		t.Helper()
		for _, how := range []string{"", "gz", "zst"} {
			s := NewState()
			if err := s.Load([]string{"-"}, strings.NewReader(pack(t, how, text))); err != nil {
				t.Errorf("%s %s: %v", name, how, err)
				continue
			}
			sum := s.Summary()
			if sum.Objects["Pod"] != 1 || sum.Objects["Node"] != 1 || sum.Malformed != 0 {
				t.Errorf("%s %s: %+v", name, how, sum)
			}
			if got := timeline(t, s.Graph, "shop", "web-1", "59s", "1m2s", "2h"); !cmp.Equal(got, []string{"-", "w1", "w1"}) {
				t.Errorf("%s %s: %q", name, how, got)
			}
		}
	}
	f("journal", event(t, "0s", "ADDED", node)+event(t, "1m0.2s", "ADDED", pod))
	f("journal with CRLF and a byte-order mark", "\ufeff"+strings.ReplaceAll(event(t, "0s", "ADDED", node)+event(t, "1m0.2s", "ADDED", pod), "\n", "\r\n"))
	f("journal without observedAt", event(t, "", "ADDED", node)+event(t, "", "ADDED", pod))
	f("pretty-printed stream", pretty)
	f("list", `{"apiVersion":"v1","items":[`+pod+",\n"+node+`],"kind":"List","metadata":{"resourceVersion":""}}`)
	f("list on lines", "{\"apiVersion\":\"v1\",\n\"items\":[\n"+pod+",\n"+node+"\n],\n\"kind\":\"List\"}\n")
	f("typed list", `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[`+bare+`]}`+node)
	f("typed list, kind last", `{"metadata":{},"items":[`+bare+`],"apiVersion":"v1","kind":"PodList"}`+"\n"+node)
	pods, nodes := `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[`+bare+`]}`, `{"items":[`+node+`],"kind":"NodeList","apiVersion":"v1"}`
	f("list with an empty continue", `{"kind":"PodList","apiVersion":"v1","metadata":{"continue":"","resourceVersion":"7"},"items":[`+bare+`]}`+node)
	f("list of lists", `{"kind":"List","apiVersion":"v1","items":[`+pods+",\n"+nodes+`]}`)
	f("list of a list and an object", `{"apiVersion":"v1","items":[`+node+",\n"+pods+`],"kind":"List"}`)
	f("list of an object without kind and a list", `{"items":[`+bare+",\n"+nodes+`],"kind":"PodList","apiVersion":"v1"}`)
	f("list of lists of lists", `{"kind":"List","apiVersion":"v1","items":[{"kind":"List","apiVersion":"v1","items":[`+pods+`]},{"kind":"List","metadata":null,"items":null},`+node+`]}`)
	f("array of lists", "["+pods+",\n"+nodes+"]")
	f("YAML, a list of lists", "kind: List\napiVersion: v1\nitems:\n- "+pods+"\n- "+nodes+"\n")
	f("a kind of others that is named like a list", `{"kind":"List","apiVersion":"v1","items":[{"kind":"BlockList","apiVersion":"x.y/v1","metadata":{"name":"a"},"items":["10.0.0.1"]},`+pods+`,`+node+`]}`)
	f("single objects", pod+"\n"+node)
	f("array", "["+node+",\n"+pod+"]")
	f("YAML", yamlDocs)
	flow := strings.NewReplacer(`"kind":`, `kind: `, `"apiVersion":`, "'apiVersion': ", `"metadata":{"`, "metadata:\n  {\"", `,"spec":`, ",\n spec: ")
	f("YAML in the flow style", flow.Replace(pod)+"\n---\n"+flow.Replace(node))
	f("YAML in the flow style, a list", "\n[ "+flow.Replace(pod)+",\n"+flow.Replace(node)+"]\n")
	f("JSON behind white space", "\n\n  "+pod+node)
}

func TestMalformed(t *testing.T) {
	good := event(t, "1s", "ADDED", podJSON(t, "web-1", "u1", "w1", "0s", "0s", ""))
	last := event(t, "9s", "ADDED", podJSON(t, "web-9", "u9", "w1", "0s", "0s", ""))
	f := func(bad, where string) {
		t.Helper()
		path := write(t, "j.jsonl", good+bad+last)
		s := NewState()
		if err := s.Load([]string{path}, nil); err != nil {
			t.Errorf("%.60q: %v", bad, err)
			return
		}
		sum := s.Summary()
		if sum.Objects["Pod"] != 2 || sum.Malformed != 1 || len(sum.Places) != 1 {
			t.Errorf("%.60q: %+v", bad, sum)
			return
		}
		if want := path + where; !strings.HasPrefix(sum.Places[0], want) {
			t.Errorf("%.60q: %q, want %q", bad, sum.Places[0], want)
		}
	}
	f("{\"type\":\"ADDED\",\"object\":{\"kind\":\"Po\n", ":2: no JSON: a line break inside a string")
	f("{\"type\":\"ADDED\",\"object\":{\"kind\":\n", ":2: the input ends in the middle of a value")
	f("{\"type\":\"ADDED\",\"object\":{\"kind\":\"Pod\",\n", ":2: no JSON: unexpected '{'")
	f("\n\ngarbage\n", ":4: ")
	f("\x00\x00\x01\x00\n", ":2: ")
	f(event(t, "2s", "RENAMED", "{}"), `:2: unknown type of watch event "RENAMED"`)
	f(event(t, "2s", "ADDED", `{"kind":"Pod","apiVersion":"v1","metadata":{}}`), ":2: the object has no metadata.name")
	f(event(t, "2s", "ADDED", `{"kind":"Pod","apiVersion":"v1","metadata":{"name":5}}`), ":2: decoding a Pod: value is not a string")
	f(`{"observedAt":"yesterday","type":"ADDED","object":{}}`+"\n", ":2: observedAt: a time that is not in RFC 3339")
	f("{\"a\":[1,\n", ":2: ")
	f("5 6\n", ":2: no JSON: unexpected '5' where an object was expected")
	f("{\"hello\":\"world\"}\n", ":2: not a Kubernetes object: it has no kind")

	s := load(t, good+strings.TrimSuffix(last, "}\n"))
	if sum := s.Summary(); sum.Malformed != 1 || sum.Objects["Pod"] != 1 {
		t.Errorf("a journal that was cut off: %+v", sum)
	}
}

// TestListsInLists sees what is said of entries of lists that are items of lists.
func TestListsInLists(t *testing.T) {
	deep := func(n int) string {
		return strings.Repeat(`{"kind":"List","items":[`, n) + podJSON(t, "web-1", "u1", "w1", "0s", "0s", "") + strings.Repeat(`]}`, n)
	}
	s := NewState()
	path := write(t, "s.json", deep(maxListDepth+1))
	if err := s.Load([]string{path}, nil); err != nil || s.Summary().Objects["Pod"] != 1 || s.Summary().Malformed != 0 {
		t.Errorf("%v, %+v", err, s.Summary())
	}
	s = NewState()
	path = write(t, "s.json", "{\"kind\":\"List\",\"items\":[\n{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\n\"items\":[\n{\"metadata\":{}}\n]},\n"+
		deep(maxListDepth+1)+",\n{\"kind\":\"Node\",\"apiVersion\":\"v1\",\"metadata\":{}}]}")
	if err := s.Load([]string{path}, nil); err != nil {
		t.Fatal(err)
	}
	want := []string{path + ":4: the object has no metadata.name", path + ":6: lists are nested more than 8 deep", path + ":7: the object has no metadata.name"}
	if diff := cmp.Diff(want, s.Summary().Places); diff != "" {
		t.Error(diff)
	}
}

func TestUnusableInput(t *testing.T) {
	pod := podJSON(t, "web-1", "u1", "w1", "0s", "0s", "")
	packed := pack(t, "gz", strings.Repeat(event(t, "1s", "ADDED", pod), 1000))
	f := func(content, want string) {
		t.Helper()
		path := write(t, "x", content)
		err := NewState().Load([]string{path}, nil)
		var in *InputError
		if !errors.As(err, &in) {
			t.Errorf("%.40q: %v", content, err)
			return
		}
		if got := strings.TrimPrefix(err.Error(), path); !strings.HasPrefix(got, want) || strings.Contains(got, "\n") {
			t.Errorf("%.40q: %q, want %q", content, got, want)
		}
	}
	f("", ": the file is empty")
	f(" \n\n", ": the file is empty")
	f("\x7fELF\x00\x01\x02", ": neither JSON nor YAML")
	f("{kind: Pod, metadata: {", ":1: document 1 is no YAML: ")
	f("{kind of a journal\n", ": no Kubernetes object or watch event in it; first: ")
	f("hello\nworld\n", ": no Kubernetes object or watch event in it; first: ")
	f("a: b: c\n", ":1: document 1 is no YAML: mapping values are not allowed in this context")
	f("a: b\n---\nkind: Foo\nmetadata:\n  name: a\nkind: ClusterRoleBinding\n", `:6: document 2 is no YAML: key "kind" already set in map`)
	f("kind: Pod\nmetadata:\n  name: a\n  name: b\nkind: Node\n", `:4: document 1 is no YAML: key "name" already set in map`)
	f(`{"kind":"FooList","apiVersion":"v1","items":[{"metadata":{"name":"w"}}],"kind":"NodeList"}`, ":1: no JSON: a list has a member twice")
	f(`{"metadata":{"continue":"x"},"items":[],"metadata":{},"kind":"PodList","apiVersion":"v1"}`, ":1: no JSON: a list has a member twice")
	f("a: b\n---\nkind: [\n", ":3: document 2 is no YAML: did not find expected node content")
	f("a: b\n---\nkind: Pod\nmetadata:\n  a: b: c\n", ":5: document 2 is no YAML: mapping values are not allowed in this context")
	f(packed[:len(packed)/2], ":418: the compressed data is cut off: unexpected EOF")
	f(packed[:4], ": the compressed data is cut off")
	f("{\"items\":[1,2", ":1: the input ends in the middle of a list")
	f("{\"kind\":\"List\",\"apiVersion\":\"v1\",\"items\":["+pod+",\n{", ":2: the input ends in the middle of a list")
	f("{\"kind\":\"List\",\"apiVersion\":\"v1\",\"items\":["+pod+"]\n", ":2: the input ends in the middle of a list")
	f("{\"kind\":\"List\",\"apiVersion\":\"v1\",\"items\":["+pod+"\n;]}", ":2: no JSON: unexpected ';' between the elements of a list")
	f(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata"}`, ":1: an audit log, not cluster state")
	f(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7","continue":"x","remainingItemCount":3},"items":[`+pod+`]}`, ":1: only a page of a list")
	f("{\"items\":[\n"+pod+`],"metadata":{"continue":"x"},"apiVersion":"v1","kind":"PodList"}`, ":2: only a page of a list")
	f(`{"kind":"List","items":[{"kind":"PodList","apiVersion":"v1","metadata":{"continue":"x"},"items":[`+pod+`]}]}`, ":1: only a page of a list")
	f(`{"x":`, ": no Kubernetes object")
	f("{}", ": no Kubernetes object")
	f("5", ": no Kubernetes object")

	err := NewState().Load([]string{filepath.Join(t.TempDir(), "none.json")}, nil)
	if err == nil || !strings.HasSuffix(err.Error(), "none.json: no such file or directory") {
		t.Errorf("a file that is not there: %v", err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := NewState().Load([]string{dir}, nil); err == nil || !strings.Contains(err.Error(), "no state files in this folder") {
		t.Errorf("a folder without state: %v", err)
	}
}

// A list in YAML that was cut off between two lines is refused, although the rest can be read.
func TestCutOffYAMLList(t *testing.T) {
	const begin, item, subjects = "apiVersion: v1\nitems:\n", "- apiVersion: rbac.authorization.k8s.io/v1\n  kind: ClusterRoleBinding\n  metadata:\n    name: a\n" +
		"  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: r}\n", "  subjects:\n  - kind: Group\n    name: system:nodes\n"
	const end = "kind: List\nmetadata:\n  resourceVersion: \"\"\n"
	for name, x := range map[string]struct {
		text string
		line int // of the list that is refused
	}{
		"whole":                         {begin + item + subjects + item + subjects + end, 0},
		"cut between two items":         {begin + item + subjects, 1},
		"cut inside an item":            {begin + item + subjects + item, 1},
		"cut before the name of kind":   {begin + item + subjects + "kind:", 1},
		"items and nothing else":        {"items:\n" + item, 1},
		"cut in the second document":    {begin + item + subjects + end + "---\n" + begin + item, 15},
		"cut in a list of a list":       {begin + "- apiVersion: v1\n  items:\n  " + strings.ReplaceAll(item+subjects, "\n", "\n  "), 1},
		"kind first":                    {"kind: List\n" + begin + item, 0},
		"JSON without kind, not cut":    {`{"items":[{"kind":"Node","apiVersion":"v1","metadata":{"name":"w"}}]}` + podJSON(t, "p", "u", "w", "0s", "0s", ""), 0},
		"several documents":             {begin + item + end + "---\n" + begin + item + end, 0},
		"cut within the items, typed":   {"apiVersion: v1\nitems:\n- metadata: {name: w}\n", 1},
		"a typed list, kind at the end": {"apiVersion: v1\nitems:\n- metadata: {name: w}\nkind: NodeList\n", 0},
	} {
		path, want := write(t, "list.yaml", x.text), ""
		if x.line > 0 {
			want = fmt.Sprintf("%s:%d: the input ends in the middle of a list, or the list has no kind; a list in YAML needs one, such as kind: List", path, x.line)
		}
		s, got := NewState(), ""
		if err := s.Load([]string{path}, nil); err != nil {
			got = err.Error()
		}
		if got != want || s.Summary().Malformed != 0 {
			t.Errorf("%s: %q, want %q; %q", name, got, want, s.Summary().Places)
		}
	}
}

// An object whose type is not clear is an entry that cannot be read. Nothing takes it for an object of a kind that does not matter.
func TestUnclearType(t *testing.T) {
	const end = `,"metadata":{"name":"a"},"roleRef":{"kind":"ClusterRole","name":"r"},"subjects":[{"kind":"Group","name":"system:nodes"}]`
	const binding, version = `"kind":"ClusterRoleBinding"`, `"apiVersion":"rbac.authorization.k8s.io/v1"`
	two, none := "more than one kind or apiVersion", "the object has no apiVersion"
	for _, x := range []struct{ object, want string }{
		{binding + "," + version + end, ""},
		{binding + "," + version + "," + binding + "," + version + end, ""},
		{`"kind":"Foo",` + binding + "," + version + end, two},
		{`"kind":"Foo",` + version + end + "," + binding, two},
		{binding + "," + version + end + `,"kind":"Foo"`, two},
		{binding + `,"apiVersion":"v1",` + version + end, two},
		{binding + "," + version + end + `,"apiVersion":"v1"`, two},
		{`"kind":"FooList",` + version + end + "," + binding, two},
		{`"kind":"Pod","apiVersion":"v1"` + end + `,"\u006bind":"Node"`, two},
		{binding + end, none},
		{binding + `,"apiVersion":null` + end, none},
		{`"kind":"Foo"` + end, ""},
	} {
		for where, text := range map[string]string{
			"journal": event(t, "1s", "ADDED", "{"+x.object+"}"), "list": `{"kind":"List","apiVersion":"v1","items":[{` + x.object + "}]}", "objects": "{" + x.object + "}",
		} {
			sum := load(t, text+"\n"+podJSON(t, "web-1", "u1", "w1", "1m", "1m", "")).Summary()
			if got := strings.Join(sum.Places, "\n"); (got == "") != (x.want == "") || !strings.Contains(got, x.want) || sum.Objects["ClusterRoleBinding"]+sum.Skipped["Foo"]+sum.Malformed != 1 {
				t.Errorf("%s %s: %q, %v, skipped %v", where, x.object, got, sum.Objects, sum.Skipped)
			}
		}
	}
	s := load(t, `{"kind":"ClusterRoleBindingList","items":[{"metadata":{"name":"a"}}]}`+podJSON(t, "web-1", "u1", "w1", "1m", "1m", ""))
	if got := strings.Join(s.Summary().Places, "\n"); !strings.HasSuffix(got, none) {
		t.Errorf("a list without an apiVersion: %q", got)
	}
}

func TestUnknownKinds(t *testing.T) {
	s := load(t, event(t, "1s", "ADDED", `{"kind":"Gadget","apiVersion":"example.com/v1","metadata":{"name":"g"}}`)+
		event(t, "2s", "ADDED", `{"kind":"Pod","apiVersion":"example.com/v1","metadata":{"name":"g"}}`)+
		event(t, "3s", "BOOKMARK", `{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"5"}}`)+
		event(t, "4s", "ERROR", `{"kind":"Status","apiVersion":"v1","code":410}`))
	sum := s.Summary()
	if d := cmp.Diff(map[string]int{"Gadget": 1, "Pod": 1}, sum.Skipped); d != "" {
		t.Error(d)
	}
	if got := said(s.Gaps(time.Time{}, time.Time{})); len(got) != 5 || !strings.Contains(got[4], "1 ERROR") {
		t.Errorf("%q", got)
	}
	if _, covered := s.Graph.CoveredFrom(); covered {
		t.Error("a journal without pods covers pods")
	}
}

func TestFolder(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"a/pods.json":    `{"kind":"PodList","apiVersion":"v1","items":[` + podJSON(t, "web-1", "u1", "w1", "0s", "0s", "") + `]}`,
		"b/pods.json.gz": pack(t, "gz", `{"kind":"List","apiVersion":"v1","items":[`+podJSON(t, "web-2", "u2", "w1", "0s", "0s", "")+`]}`),
		"package.json":   `{"name":"x"}`,
		"audit.log":      "{}",
		".hidden/x.json": "}",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := NewState()
	if err := s.Load([]string{dir}, nil); err != nil {
		t.Fatal(err)
	}
	if n := s.Summary().Objects["Pod"]; n != 2 {
		t.Errorf("%d pods", n)
	}
	if got := strings.Join(said(s.Gaps(time.Time{}, time.Time{})), "\n"); !strings.Contains(got, "package.json holds nothing of use") {
		t.Errorf("%s", got)
	}
}

// TestManyFiles has more journals than are kept open, each of a different minute and given in the wrong order.
func TestManyFiles(t *testing.T) {
	var texts []string
	for i := range maxOpen + 20 {
		minute := fmt.Sprintf("%dm", i)
		texts = append([]string{event(t, minute, "ADDED", podJSON(t, "web-1", fmt.Sprint("u", i), fmt.Sprint("w", i), minute, minute, "")) + "bad\n" +
			event(t, minute+"30s", "DELETED", podJSON(t, "web-1", fmt.Sprint("u", i), fmt.Sprint("w", i), minute, minute, ""))}, texts...)
	}
	s := load(t, texts...)
	if sum := s.Summary(); sum.Objects["Pod"] != len(texts) || sum.Malformed != len(texts) || len(sum.Places) != maxPlaces {
		t.Errorf("%d pods, %d malformed, %d places", sum.Objects["Pod"], sum.Malformed, len(sum.Places))
	}
	if d := cmp.Diff([]string{"w0", "-", "w83"}, timeline(t, s.Graph, "shop", "web-1", "10s", "40s", "83m10s")); d != "" {
		t.Error(d)
	}
}

// FuzzLoad gives anything at all to the loader: it makes a state or an error of it, and nothing else.
func FuzzLoad(f *testing.F) {
	for _, text := range []string{
		`{"observedAt":"2026-11-21T06:00:00.5Z","type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","uid":"u"},"spec":{"nodeName":"w"}}}` + "\n" +
			`{"observedAt":"2026-11-21T06:00:01.5Z","notBefore":"2026-11-21T06:00:00.5Z","type":"DELETED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","uid":"u"}}}`,
		`{"type":"ADDED","object":{"kind":"ClusterRole","apiVersion":"rbac.authorization.k8s.io/v1","metadata":{"name":"r","managedFields":[{"time":"2026-11-21T06:00:00Z"}]},"rules":[{"verbs":["get"]}]}}`,
		`{"items":[{"metadata":{"name":"p"}}],"kind":"PodList","apiVersion":"v1"}`,
		`[{"kind":"PersistentVolume","apiVersion":"v1","metadata":{"name":"v"},"spec":{"claimRef":{"name":"c","namespace":"n"}}}]`,
		"kind: Node\napiVersion: v1\nmetadata: {name: w}\n---\nkind: List\nitems: []\n",
		"{\"a\":[\n{\"a\":[\n{", "{\"items\":[],\"items\":[]}", "[[[{}]]]", "\x1f\x8b\x08",
		`{"type":"BOOKMARK","observedAt":"2026-11-21T06:00:00Z","object":{"kind":"Pod","apiVersion":"v1","metadata":{"annotations":{"k8s.io/initial-events-end":"true"}}}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := NewState()
		if err := s.Load([]string{"-"}, bytes.NewReader(data)); err != nil {
			var in *InputError
			if !errors.As(err, &in) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("%T: %v", err, err)
			}
		}
		s.Summary()
		s.Gaps(base, base)
	})
}

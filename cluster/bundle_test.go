package cluster

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/nodetrail/nodetrail/internal/test/effort"
)

// one is an object as it stood at some time.
type one struct {
	Kind, APIVersion string
	Metadata         struct{ Namespace, Name string }
	raw              json.RawMessage
}

// inJournal are the objects that the capture's journal has alive after so many lines.
func inJournal(t *testing.T, lines int) (all []one) {
	t.Helper()
	in, err := openInput("testdata/capture.jsonl.gz", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer in.close()
	alive := map[string]one{}
	for d := json.NewDecoder(in); lines > 0 && d.More(); lines-- {
		var e struct {
			Type   string
			Object json.RawMessage
		}
		if err := d.Decode(&e); err != nil {
			t.Fatal(err)
		}
		o := one{raw: e.Object}
		if err := json.Unmarshal(e.Object, &o); err != nil || o.Metadata.Name == "" || e.Type == "BOOKMARK" {
			continue
		}
		key := o.Kind + " " + o.Metadata.Namespace + "/" + o.Metadata.Name
		if alive[key] = o; e.Type == "DELETED" {
			delete(alive, key)
		}
	}
	for _, o := range alive {
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b one) int { return strings.Compare(string(a.raw), string(b.raw)) })
	return all
}

// backup is an archive of the objects, laid out as Velero does: https://velero.io/docs/v1.17/output-file-format/.
func backup(t *testing.T, all []one) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	add := func(name string, data []byte) {
		t.Helper()
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(data)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	add("metadata/version", []byte("1.1.0\n"))
	add("resources/secrets/namespaces/shop/db.json", []byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"shop","name":"db"},"data":{"password":"aHVudGVyMg=="}}`))
	for _, o := range all {
		where := "cluster"
		if o.Metadata.Namespace != "" {
			where = "namespaces/" + o.Metadata.Namespace
		}
		for _, version := range []string{"", "v1-preferredversion/"} { // Velero writes both
			add(fmt.Sprintf("resources/%ss/%s%s/%s.json", strings.ToLower(o.Kind), version, where, strings.ReplaceAll(o.Metadata.Name, "/", "_")), o.raw)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// gathered is a folder of the objects, laid out as `oc adm must-gather` and `oc adm inspect` do: a list for each kind of a namespace, and a file for each object
// that is in none.
func gathered(t *testing.T, all []one) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "must-gather.local.1", "quay-io-1")
	files := map[string][]byte{}
	lists := map[string][]string{}
	for _, o := range all {
		group := groupOf(o.APIVersion)
		if group == "" {
			group = "core"
		}
		resource := strings.ToLower(o.Kind) + "s"
		if o.Metadata.Namespace == "" {
			doc, err := yaml.JSONToYAML(o.raw)
			if err != nil {
				t.Fatal(err)
			}
			files[filepath.Join("cluster-scoped-resources", group, resource, strings.ReplaceAll(o.Metadata.Name, ":", "-")+".yaml")] = append([]byte("---\n"), doc...)
			continue
		}
		path := filepath.Join("namespaces", o.Metadata.Namespace, group, resource+".yaml")
		if lists[path] == nil {
			lists[path] = []string{fmt.Sprintf("apiVersion: %s\nkind: %sList\nitems:\n", o.APIVersion, o.Kind)}
		}
		lists[path] = append(lists[path], "- "+string(o.raw)+"\n")
	}
	for path, parts := range lists {
		files[path] = []byte(strings.Join(parts, ""))
	}
	files["etcd_info/endpoint_health.json"] = []byte(`[{"endpoint":"https://10.0.0.1:2379","health":true}]`)
	for path, data := range files {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, path), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Dir(root)
}

// facts are what a state knows to be there, and whether it says of anything that it is not.
func facts(s *State, at time.Time) (there []string, complete bool) {
	for ref := range s.tracked[kindPod] {
		node, ok := s.Graph.PodNode(ref.Namespace, ref.Name, at)
		there = append(there, fmt.Sprint("Pod ", ref, " ", node, ok))
	}
	for b := range s.RBAC.Bindings(at) {
		there = append(there, fmt.Sprint(b))
	}
	for _, name := range s.Nodes.Names(at) {
		there = append(there, "Node "+name)
	}
	slices.Sort(there)
	_, pods := s.Graph.CoveredFrom()
	_, nodes := s.Nodes.Known("nobody", at)
	return there, pods || nodes || s.RBAC.Covers(at)
}

// A backup or a must-gather shows what was there, the same as a list of all does, and says of nothing that it was not: nobody knows what it leaves out.
func TestBundles(t *testing.T) {
	total := len(inJournal(t, 1<<30))
	if total < 100 {
		t.Fatalf("%d objects", total)
	}
	r := rand.New(rand.NewPCG(7, 0))
	for range effort.Of(4, 1) {
		all := inJournal(t, 300+r.IntN(2000))
		items := make([]string, len(all))
		for i, o := range all {
			items[i] = string(o.raw)
		}
		list := load(t, `{"kind":"List","apiVersion":"v1","items":[`+strings.Join(items, ",")+`]}`)
		at := list.Summary().To.Add(time.Minute)
		want, complete := facts(list, at)
		if !complete || len(want) < 50 {
			t.Fatalf("the list of %d objects: %d, complete %v", len(all), len(want), complete)
		}
		tarball := string(backup(t, all))
		folder := gathered(t, all)
		var packed bytes.Buffer
		w := tar.NewWriter(&packed)
		if err := errors.Join(w.AddFS(os.DirFS(folder)), w.Close()); err != nil {
			t.Fatal(err)
		}
		alone := t.TempDir()
		for i, o := range items {
			if err := os.WriteFile(filepath.Join(alone, fmt.Sprintf("%d.json", i)), []byte(o), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for name, path := range map[string]string{
			"backup": write(t, "backup.tar", tarball), "packed backup": write(t, "backup.tar.gz", pack(t, "gz", tarball)), "must-gather": folder,
			"packed must-gather": write(t, "gathered.tar.gz", pack(t, "gz", packed.String())), "files of one object": alone, "objects one after the other": write(t, "all.json", strings.Join(items, "\n")),
		} {
			s := NewState()
			if err := s.Load([]string{path}, nil); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got, complete := facts(s, at)
			if d := cmp.Diff(want, got); d != "" || complete {
				t.Errorf("%s, complete %v (-want +got):\n%s", name, complete, d)
			}
			if n := s.Summary().Malformed; n > 0 {
				t.Errorf("%s: %d malformed: %s", name, n, s.Summary().Places)
			}
		}
	}
}

// What cannot be read of a bundle is named with its file.
func TestBundleTrouble(t *testing.T) {
	all := inJournal(t, 1500)
	good := backup(t, all)
	of := func(files ...[2]string) string {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, f := range files {
			if err := w.WriteHeader(&tar.Header{Name: f[0], Mode: 0o600, Size: int64(len(f[1])), Typeflag: tar.TypeReg}); err != nil {
				t.Fatal(err)
			}
			_, _ = w.Write([]byte(f[1]))
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	bad := func(name, text string) string {
		return of([2]string{"resources/pods/a.json", podJSON(t, "web-1", "u1", "w1", "1m", "1m", "")}, [2]string{name, text})
	}
	for _, x := range []struct{ name, text, want, gap string }{
		{"cut off", string(good[:len(good)/2+100]), "the archive is cut off or damaged: unexpected EOF", ""},
		{"packed and cut off", pack(t, "gz", string(good))[:20_000], "the compressed data is cut off", ""},
		{"damaged header", string(good[:512]) + strings.Repeat("x", 2048), "the archive is cut off or damaged", ""},
		{"nothing in it", of([2]string{"x/y.txt", "text"}, [2]string{".hidden.json", "{}"}, [2]string{"a.json.gz", "packed"}), "no Kubernetes object or watch event in it", ""},
		{"an audit log in it", bad("audit.json", `{"kind":"Event","apiVersion":"audit.k8s.io/v1","auditID":"a"}`), "bundle: audit.json:1: an audit log", ""},
		{"no YAML", bad("x.yaml", "a: [b"), "bundle: x.yaml:1: document 1 is no YAML", ""},
		{"no JSON", bad("x.json", `{"kind":"Pod",,}`), "", "bundle: x.json:1: no JSON"},
		{"an object that cannot be read", bad("x.json", `{"kind":"Pod","apiVersion":"v1","metadata":{"name":7}}`), "", "bundle: x.json:1: "},
		{"binary", bad("x.json", "\x00\x01"), "bundle: x.json: neither JSON nor YAML", ""},
		{"empty", bad("x.json", ""), "", ""},
		{"a byte-order mark", of([2]string{"a.json", "\xef\xbb\xbf" + podJSON(t, "web-1", "u1", "w1", "1m", "1m", "")}), "", ""},
	} {
		s := NewState()
		err := s.Load([]string{write(t, "bundle", x.text)}, nil)
		var in *InputError
		switch {
		case x.want == "" && err != nil, x.want != "" && (!errors.As(err, &in) || !strings.Contains(err.Error(), x.want) || strings.Contains(err.Error(), "\n")):
			t.Errorf("%s: %v, want %q", x.name, err, x.want)
		case x.gap != "" && !strings.Contains(strings.Join(deciding(s.Gaps(time.Time{}, time.Time{})), "\n"), x.gap):
			t.Errorf("%s: %q, want %q", x.name, deciding(s.Gaps(time.Time{}, time.Time{})), x.gap)
		}
	}
}

// A file of a folder whose only object cannot be read is as bad as such an object in a list.
func TestUnreadableFileOfFolder(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.json": podJSON(t, "web-1", "u1", "w1", "1m", "1m", ""), "b.json": `{"kind":"Node","apiVersion":"v1","metadata":{"name":7}}`, "c.json": `{"a":1}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := NewState()
	if err := s.Load([]string{dir}, nil); err != nil {
		t.Fatal(err)
	}
	gaps := strings.Join(deciding(s.Gaps(time.Time{}, time.Time{})), "\n")
	if !strings.Contains(gaps, "b.json: no Kubernetes object in it can be read; first: ") || strings.Contains(gaps, "c.json") {
		t.Errorf("%s", gaps)
	}
	if err := NewState().Load([]string{filepath.Join(dir, "b.json")}, nil); !errors.Is(err, errNoneRead) {
		t.Errorf("%v", err)
	}
}

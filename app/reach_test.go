package app

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/explain"
	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
)

// journalNames are the objects of a journal, and every string in them by namespace: more names than any object has.
func journalNames(t *testing.T) map[string]map[string]bool {
	t.Helper()
	f, err := os.Open(capture + "/journal.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string]bool{}
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var line struct {
			Object struct {
				Kind     string
				Metadata struct{ Namespace, Name string }
				Spec     any
			}
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		o := &line.Object
		switch o.Kind {
		case "Pod", "PersistentVolume", "VolumeAttachment", "ResourceSlice":
		default:
			continue
		}
		var walk func(namespace string, v any)
		walk = func(namespace string, v any) {
			switch v := v.(type) {
			case string:
				if out[namespace] == nil {
					out[namespace] = map[string]bool{}
				}
				out[namespace][v] = true
			case []any:
				for _, x := range v {
					walk(namespace, x)
				}
			case map[string]any:
				if ns, ok := v["namespace"].(string); ok {
					namespace = ns // of a reference
				}
				for _, x := range v {
					walk(namespace, x)
				}
			}
		}
		walk(o.Metadata.Namespace, o.Metadata.Name)
		walk(o.Metadata.Namespace, o.Spec)
		if o.Kind == "PersistentVolume" { // its secrets may be in the namespace of its claim
			for namespace := range out {
				walk(namespace, o.Spec)
			}
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestReachIsDecide holds what Reach prints of every node at ten instants against the authorizer's answer for each object of the capture, in versions
// that have other kinds.
func TestReachIsDecide(t *testing.T) {
	names := journalNames(t)
	in := Input{Logs: []string{capture + "/audit.log.gz"}, Loaded: cluster.NewState()}
	if err := in.Loaded.Load([]string{capture + "/journal.jsonl.gz"}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := Analyze(t.Context(), AnalyzeOptions{Authorization: Authorization{Skew: DefaultSkew}, Input: in}); err != nil {
		t.Fatal(err)
	}
	in.Logs = nil
	from, to := time.Date(2026, 11, 21, 6, 4, 12, 0, time.UTC), in.Loaded.Summary().To
	instants := effort.Of(10, 3)
	for version, kinds := range map[string]int{"1.33": 7, "1.36": 8} {
		features, err := nodeauthz.FeaturesFor(version)
		if err != nil {
			t.Fatal(err)
		}
		auth := nodeauthz.NewAuthorizer(in.Loaded.Graph, features, DefaultSkew)
		seen, refused := map[string]int{}, 0
		for _, node := range nodeNames(in.Loaded) {
			for i := range instants {
				at := from.Add(to.Sub(from) * time.Duration(i) / time.Duration(instants-1))
				res, err := Reach(t.Context(), ReachOptions{Authorization: Authorization{KubernetesVersion: version, Skew: DefaultSkew}, Input: in, Node: node, At: at})
				if err != nil {
					t.Fatal(err)
				}
				got, want := map[string][]string{}, map[string][]string{}
				for _, o := range res.Reach.Objects {
					got[o.Object.String()] = o.Access
					seen[o.Object.Kind]++
				}
				for kind := nodeauthz.KindConfigMap; kind <= nodeauthz.KindPodCertificateRequest; kind++ {
					for namespace, list := range names {
						for name := range list {
							access := allowedTo(auth, node, kind, namespace, name, at)
							if len(access) == 0 {
								refused++
								continue
							}
							want[explain.Step{Kind: kind.String(), Namespace: namespace, Name: name}.String()] = access
						}
					}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("%s, %s at %s (-authorizer +reach):\n%s", version, node, at, diff)
				}
				if !res.Reach.Known {
					t.Errorf("%s, %s at %s: %v", version, node, at, res.Reach.Notes)
				}
			}
		}
		if len(seen) != kinds || seen["secret"] < 30*instants || refused < 10_000*instants {
			t.Errorf("%s: %v allowed, %d refused", version, seen, refused)
		}
	}
}

// allowedTo is what the authorizer lets a node do with an object.
func allowedTo(auth *nodeauthz.Authorizer, node string, kind nodeauthz.Kind, namespace, name string, at time.Time) (access []string) {
	group, resource := nodeauthz.ResourceOfKind(kind)
	r := explain.Request{Node: node, Verb: "get", APIGroup: group, Resource: resource, Namespace: namespace, Name: name}
	if auth.Decide(r.Attributes(), at).Verdict == nodeauthz.Allow {
		access = append(access, "get")
	}
	if r.Verb, r.Subresource = "create", "token"; auth.Decide(r.Attributes(), at).Verdict == nodeauthz.Allow && kind == nodeauthz.KindServiceAccount {
		access = append(access, "create token")
	}
	return access
}

// TestReachBeyond holds what Reach says that credentials did beyond their pods against the judgements of Analyze.
func TestReachBeyond(t *testing.T) {
	in := Input{Logs: []string{capture + "/audit.log.gz"}, State: []string{capture + "/journal.jsonl.gz"}}
	authorization := Authorization{Skew: 150 * time.Millisecond}
	want, ids, secrets := map[string]int64{}, map[string]map[string]bool{}, map[string]map[string]bool{}
	a, err := Analyze(t.Context(), AnalyzeOptions{Authorization: authorization, Input: in, Each: func(j *pipeline.Judgement) error {
		if j.IsNode && j.NodeDenies() && j.Observed.Decision == "allow" && j.Event.Code < 300 {
			node := string([]byte(j.Node))
			if want[node]++; ids[node] == nil {
				ids[node], secrets[node] = map[string]bool{}, map[string]bool{}
			}
			ids[node][string([]byte(j.Event.AuditID))] = true
			if j.Attrs.Resource == "secrets" && (j.Attrs.Verb == "get" || j.Attrs.Verb == "watch" || j.Attrs.Verb == "list") {
				secrets[node][j.Attrs.Namespace+"/"+j.Attrs.Name] = true
			}
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	total := int64(0)
	for node, n := range want {
		res, err := Reach(t.Context(), ReachOptions{Authorization: authorization, Input: in, Node: node})
		if err != nil {
			t.Fatal(err)
		}
		got := int64(0)
		for _, u := range res.Reach.Beyond.Uses {
			got += u.Count
			if u.Verdict != "deny" || u.Grant == nil || len(u.UserAgents) == 0 || len(u.SourceIPs) == 0 || len(u.AuditIDs) == 0 {
				t.Errorf("%s: %+v", node, u)
			}
			for _, id := range u.AuditIDs {
				if !ids[node][id] {
					t.Errorf("%s: %s is not among what analyze says", node, id)
				}
			}
		}
		if got != n {
			t.Errorf("%s: %d requests, want %d", node, got, n)
		}
		total += got
		rotated := map[string]bool{}
		for _, r := range res.Reach.Rotate {
			switch r.Kind {
			case "secret":
				rotated[r.Namespace+"/"+r.Name] = true
			case "secrets":
				rotated[r.Namespace+"/"] = true
			}
		}
		for s := range secrets[node] {
			if !rotated[s] {
				t.Errorf("%s read %s, which is not to be rotated", node, s)
			}
		}
	}
	if total < 150 || a.Counts.Judged < total {
		t.Errorf("only %d requests of %v", total, slices.Sorted(maps.Keys(want)))
	}
}

// TestReachUnknownNode holds that a slip is an error with the names that there are.
func TestReachUnknownNode(t *testing.T) {
	o := ReachOptions{Input: Input{State: []string{capture + "/journal.jsonl.gz"}}, Node: "worker-33"}
	_, err := Reach(t.Context(), o)
	var unknown *UnknownError
	if !errors.As(err, &unknown) || unknown.Name != "worker-33" || !slices.Contains(unknown.Known, "worker-3") {
		t.Errorf("%v", err)
	}
	o.Node = ""
	if err := o.Validate(); err == nil {
		t.Error("no node is asked about, and that is no error")
	}
	o.Node, o.At, o.Since = "worker-3", time.Now(), Limit{Back: time.Hour, FromEnd: true}
	if err := o.Validate(); err == nil {
		t.Error("an instant and a span, and that is no error")
	}
}

// BenchmarkReach asks about a node of 5,000, with 30 pods each and as many that are gone.
func BenchmarkReach(b *testing.B) {
	const nodes, pods = 5000, 30
	state := cluster.NewState()
	begin := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	state.Graph.CoverFrom(begin)
	for i := range nodes * pods * 2 {
		at := nodeauthz.Stamp{Time: begin.Add(time.Duration(i) * 100 * time.Millisecond), Source: nodeauthz.SourceWatch}
		p := &nodeauthz.Pod{
			Namespace: fmt.Sprintf("team-%d", i%200), Name: fmt.Sprintf("pod-%d", i), UID: fmt.Sprint(i), NodeName: fmt.Sprintf("node-%d", i%nodes),
			ServiceAccountName: fmt.Sprintf("sa-%d", i%7), Secrets: []string{fmt.Sprintf("secret-%d", i%50)}, ConfigMaps: []string{"kube-root-ca.crt"},
		}
		state.Graph.SetPod(p, at)
		if i < nodes*pods {
			state.Graph.DeletePod(p.Namespace, p.Name, p.UID, nodeauthz.Stamp{Time: at.Time.Add(time.Hour), Source: nodeauthz.SourceWatch})
		}
	}
	o := ReachOptions{Authorization: Authorization{Skew: DefaultSkew}, Input: Input{Loaded: state}, Node: "node-17"}
	for b.Loop() {
		res, err := Reach(b.Context(), o)
		if err != nil || len(res.Reach.Objects) < 60 {
			b.Fatal(err, len(res.Reach.Objects))
		}
	}
}

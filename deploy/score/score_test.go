package score_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zegl/kube-score/config"
	"github.com/zegl/kube-score/domain"
	"github.com/zegl/kube-score/parser"
	"github.com/zegl/kube-score/score"
	"github.com/zegl/kube-score/scorecard"
)

// named is a manifest with its name.
type named struct {
	*strings.Reader
	name string
}

func (n named) Name() string { return n.name }

// scored are the findings of kube-score on a manifest, each as "kind: check".
func scored(t *testing.T, name, manifest string) (out []string) {
	t.Helper()
	p, err := parser.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := p.ParseFiles([]domain.NamedReader{named{strings.NewReader(manifest), name}})
	if err != nil {
		t.Fatal(err)
	}
	run := &config.RunConfiguration{KubernetesVersion: config.Semver{Major: 1, Minor: 32}, MinReplicasDeployment: 2, MinReplicasHPA: 2}
	card, err := score.Score(objects, score.RegisterAllChecks(objects, nil, run), run)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range *card {
		for _, c := range o.Checks {
			if !c.Skipped && c.Grade < scorecard.GradeAllOK {
				out = append(out, o.TypeMeta.Kind+": "+c.Check.ID)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// What kube-score finds in the manifests is what docs/install.md gives reasons for.
func TestScore(t *testing.T) {
	const pull, storage, resources, headless = "container-image-pull-policy", "container-ephemeral-storage-request-and-limit", "container-resources", "statefulset-has-servicename"
	of := func(kind string, ids ...string) (out []string) {
		for _, id := range ids {
			out = append(out, kind+": "+id)
		}
		return out
	}
	page, err := os.ReadFile("../../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"nodetrail.yaml": of("StatefulSet", storage, pull, resources, headless),
		"fleet.yaml":     of("Deployment", storage, pull, resources, "deployment-replicas"),
		"scale-out.yaml": append(of("Deployment", storage, pull, resources), of("StatefulSet", storage, pull, resources)...),
	} {
		manifest, err := os.ReadFile("../" + name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, scored(t, name, string(manifest))); diff != "" {
			t.Errorf("%s (-explained +found):\n%s", name, diff)
		}
		for _, finding := range want {
			if _, id, _ := strings.Cut(finding, ": "); !strings.Contains(string(page), "`"+id+"`") {
				t.Errorf("docs/install.md gives no reason for %s", id)
			}
		}
		// It finds what is wrong.
		defect := strings.Replace(string(manifest), "runAsNonRoot: true", "runAsNonRoot: false", 1)
		defect = strings.Replace(defect, "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", 1)
		if got := scored(t, name, defect); slices.Equal(got, want) {
			t.Errorf("%s: nothing is found in a container that writes to its root filesystem", name)
		}
	}
}

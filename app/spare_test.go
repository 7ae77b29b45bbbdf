package app

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/internal/test/days"
	"github.com/nodetrail/nodetrail/rbac"
)

// keeping has a configuration keep a list of bindings.
func keeping(list string) func(config []byte) []byte {
	return func(config []byte) []byte {
		return bytes.Replace(config, []byte("readiness: {"), []byte("readiness: {keep: "+list+", "), 1)
	}
}

// A service names the kept binding while it is kept. After that, the same counts speak against deleting it; and what was named before it was kept needs the other.
func TestStoreKeepsBindings(t *testing.T) {
	m, _ := days.Named("keep-node", 1)
	d, ok := m.Apply(threeHours(t, 12, days.Options{}))
	if !ok {
		t.Fatal("it does not apply")
	}
	plain := func(config []byte) []byte { return config }
	kept := keeping("[clusterrolebinding/" + days.Kept + "]")
	for _, c := range []struct {
		name          string
		first, second func([]byte) []byte
		want          [2]string
	}{
		{"kept until then", kept, plain, [2]string{"passed", "failed"}},
		{"kept later", plain, kept, [2]string{"failed", "failed"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rerun := rerunOf(t, d)
			if got := [2]string{stateOf(rerun(d, c.first), "nothing-depends"), stateOf(rerun(d, c.second), "nothing-depends")}; got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

// A configuration that changes reaches those who judge and those who note what needs a binding.
func TestReloadKeepsBindings(t *testing.T) {
	t.Parallel()
	d := threeHours(t, 12, days.Options{})
	write, config := serviceOf(t, t.TempDir(), d)
	plain, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newService(RunOptions{StoreOptions: StoreOptions{Config: config}, Logs: []string{write("audit.log", d.Log())}, Log: LogTo{W: io.Discard}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	if err := s.open(ctx, s.reloader.Current()); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx) }()
	want := []rbac.BindingRef{{Kind: rbac.KindClusterRoleBinding, Name: days.Kept}}
	for _, c := range []struct {
		list string
		want []rbac.BindingRef
	}{{"[clusterrolebinding/" + days.Kept + "]", want}, {"[]", nil}} {
		write("nodetrail.yaml", keeping(c.list)(slices.Clone(plain)))
		if err := s.reloader.Reload(); err != nil {
			t.Fatal(err)
		}
		var judge, bound []rbac.BindingRef
		if err := s.court.Do(t.Context(), func() { judge, bound = s.court.setup.Judge.Kept, s.court.bound.kept }); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(judge, c.want) || !slices.Equal(bound, c.want) {
			t.Errorf("keep %s: the judge keeps %v, the book of bindings %v", c.list, judge, bound)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
}

// A binding that is made while the log is read is there.
func TestUnknownKeep(t *testing.T) {
	store, now := rbac.NewStore(), time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	kept := []rbac.BindingRef{{Kind: rbac.KindClusterRoleBinding, Name: days.Kept}}
	var missing *UnknownError
	if err := unknown(kept, store); !errors.As(err, &missing) || missing.Name != "clusterrolebinding/"+days.Kept {
		t.Errorf("nothing is there: %v", err)
	}
	store.SetClusterRoleBinding(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: days.Kept}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: nodeRole},
	}, now)
	if err := unknown(kept, store); err != nil {
		t.Errorf("it is there: %v", err)
	}
	if err := unknown(nil, store); err != nil {
		t.Errorf("nothing is kept: %v", err)
	}
}

// A service judges a request before the role of what allows it gives less. Then it says by the state that only a binding that goes is left.
func TestStoreSeesWhatIsTrimmedLater(t *testing.T) {
	for _, c := range []struct {
		mutation string
		keep     string
		want     string
	}{
		{"spare-trimmed-early", "[]", string(checks.CodeBindingGrown)},
		{"keep-trimmed", "[clusterrolebinding/" + days.Kept + "]", string(checks.CodeBindingGrown)},
		{"keep-node", "[clusterrolebinding/" + days.Kept + "]", ""},
	} {
		t.Run(c.mutation, func(t *testing.T) {
			t.Parallel()
			m, _ := days.Named(c.mutation, 1)
			d, ok := m.Apply(threeHours(t, 12, days.Options{}))
			if !ok {
				t.Fatal("it does not apply")
			}
			first, cut := *d, d.From.Add(time.Hour)
			first.State = d.State[:slices.IndexFunc(d.State, func(e *days.Entry) bool { return e.At.After(cut) })]
			first.Events = d.Events[:slices.IndexFunc(d.Events, func(e *days.Event) bool { return e.Staged.After(cut.Add(-time.Minute)) })]
			kept := keeping(c.keep)
			rerun := rerunOf(t, d)
			rerun(&first, kept)
			r := rerun(d, kept)
			var codes []string
			for _, x := range r.Readiness.Checks {
				for _, e := range x.Evidence {
					if e.State != string(checks.Passed) {
						codes = append(codes, e.Code)
					}
				}
			}
			if r.Readiness.Ready != (c.want == "") || c.want != "" && !slices.Contains(codes, c.want) {
				t.Errorf("%s, %v, want %q", r.Readiness.Verdict, codes, c.want)
			}
		})
	}
}

// Those who say how many API servers there are get the same answer if all of them are there.
func TestReadyWithAsManyServersAsConfigured(t *testing.T) {
	d := threeHours(t, 12, days.Options{Servers: 3})
	for _, n := range []int{1, 2, 3} {
		if got := open(provenDay(t, d, func(o *AnalyzeOptions) { o.APIServers = n })); len(got) > 0 {
			t.Errorf("%d of 3: %v", n, got)
		}
	}
}

// A client can do without a binding that goes if one that is kept gives the same, and still gives it in the end.
func TestReadyKeepsBindings(t *testing.T) {
	want := map[string]string{
		"keep-node": "", "keep-account": "", "keep-ended": string(checks.CodeNeedsBinding), "keep-trimmed": string(checks.CodeOtherEnded),
		"keep-gives": string(checks.CodeGivesRights), "keep-node-gives": string(checks.CodeGivesRights), "keep-acts-trimmed": string(checks.CodeOtherEnded),
		"keep-acts-edited": string(checks.CodeNeedsBinding),
	}
	for _, m := range days.Mutations(1) {
		if !strings.HasPrefix(m.Name, "keep-") {
			continue
		}
		code, ok := want[m.Name]
		if delete(want, m.Name); !ok {
			t.Fatalf("there is no expectation for %s", m.Name)
		}
		t.Run(m.Name, func(t *testing.T) {
			d, ok := m.Apply(threeHours(t, 12, days.Options{}))
			if !ok {
				t.Fatal("it does not apply")
			}
			keep := func(name string) func(o *AnalyzeOptions) {
				return func(o *AnalyzeOptions) { o.MinWindow, o.Keep = d.Options.Span-2*time.Minute, []string{name} }
			}
			got := open(provenDay(t, d, keep("ClusterRoleBinding/"+days.Kept)))
			if code == "" && got["nothing-depends"] != nil || code != "" && !slices.Contains(got["nothing-depends"], code) {
				t.Errorf("kept: %v, want %q", got, code)
			}
			// The owner cannot keep what the question is about.
			legacy := "legacy:system:node"
			if got := open(provenDay(t, d, keep("clusterrolebinding/"+legacy))); got["nothing-depends"] == nil {
				t.Errorf("%s kept: %v", legacy, got)
			}
			both := func(o *AnalyzeOptions) {
				keep("ClusterRoleBinding/" + days.Kept)(o)
				o.Keep = append(o.Keep, "clusterrolebinding/"+legacy)
			}
			if got := open(provenDay(t, d, both)); (got["nothing-depends"] == nil) != (code == "") {
				t.Errorf("kept with %s: %v, want %q", legacy, got, code)
			}
			o := dayOptions(t, d)
			keep("rolebinding/kube-system/kepd")(&o)
			var unknown *UnknownError
			if _, err := Analyze(t.Context(), o); !errors.As(err, &unknown) || !slices.Contains(unknown.Known, "clusterrolebinding/"+days.Kept) {
				t.Errorf("a binding that was never there: %v", err)
			}
		})
	}
	if len(want) > 0 {
		t.Errorf("there are no mutations %v", want)
	}
}

// A client can do without a binding that goes only if it can in the end, too, however long before it asked.
func TestReadyNeedsSpareRightsInTheEnd(t *testing.T) {
	for _, m := range days.Mutations(1) {
		if !strings.HasPrefix(m.Name, "spare-") {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			d, ok := m.Apply(threeHours(t, 12, days.Options{}))
			if !ok {
				t.Fatal("it does not apply")
			}
			for _, window := range []time.Duration{d.Options.Span - 2*time.Minute, 130 * time.Minute} { // the early one ended before the latter
				got := open(provenDay(t, d, func(o *AnalyzeOptions) { o.MinWindow = window }))
				if m.Effect == days.Harmless {
					if len(got) > 0 {
						t.Errorf("%s: %v", window, got)
					}
				} else if !slices.Equal(got["nothing-depends"], []string{string(checks.CodeOtherEnded)}) {
					t.Errorf("%s: %v, want %s", window, got, checks.CodeOtherEnded)
				}
			}
		})
	}
}

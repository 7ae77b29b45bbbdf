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

// kept are the codes that a report has about the days on which a binding is kept.
func kept() map[string]checks.Code {
	return map[string]checks.Code{
		"keep-node": "", "keep-account": "", "keep-ended": checks.CodeNeedsBinding, "keep-trimmed": checks.CodeOtherEnded, "keep-gives": checks.CodeGivesRights,
		"keep-node-gives": checks.CodeGivesRights, "keep-acts-trimmed": checks.CodeOtherEnded, "keep-acts-edited": checks.CodeNeedsBinding,
	}
}

// A service judges a request before what allows it ends, gives less, or is for a group that the client leaves. Then it says by the state, and by what it has stored of
// the client, that only a binding that goes is left.
func TestStoreSeesWhatEndsLater(t *testing.T) {
	base := threeHours(t, 12, days.Options{})
	for _, m := range days.Mutations(1) {
		ofKept := strings.HasPrefix(m.Name, "keep-")
		if !ofKept && !strings.HasPrefix(m.Name, "spare-") {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			d, ok := m.Apply(base)
			if !ok {
				t.Fatal("it does not apply")
			}
			first, cut := *d, d.From.Add(time.Hour)
			before := map[string]bool{}
			for _, e := range base.State {
				before[e.Type+" "+e.At.String()] = true
			}
			for _, e := range d.State { // what the mutation adds
				if e.At.After(cut) && !before[e.Type+" "+e.At.String()] {
					cut = e.At.Add(-2 * time.Minute)
				}
			}
			first.State = d.State[:slices.IndexFunc(d.State, func(e *days.Entry) bool { return e.At.After(cut) })]
			n := slices.IndexFunc(d.Events, func(e *days.Event) bool { return e.Staged.After(cut.Add(-time.Minute)) })
			for i, e := range d.Events {
				if m.Name == "spare-group-left" && e.User != nil && slices.ContainsFunc(e.User.Groups, func(g string) bool { return strings.HasPrefix(g, "example:") }) {
					n = i + 1 // so that the service that judges the request does not see that the client has left
				}
			}
			first.Events = d.Events[:n]
			list := "[]"
			if ofKept {
				list = "[clusterrolebinding/" + days.Kept + "]"
			}
			rerun := rerunOf(t, d)
			rerun(&first, keeping(list))
			r := rerun(d, keeping(list))
			others := strings.Contains(m.Name, "account") || strings.Contains(m.Name, "member") // whose requests a service does not judge
			ready := (m.Effect == days.Harmless || ofKept && kept()[m.Name] == "") && !others
			if r.Readiness.Ready != ready {
				t.Errorf("%s, want ready: %t", r.Readiness.Verdict, ready)
			}
		})
	}
}

// Those who say how many API servers there are get the same answer if all of them are there.
func TestReadyWithAsManyServersAsConfigured(t *testing.T) {
	d := threeHours(t, 12, days.Options{Servers: 3})
	for _, n := range []int{1, 2, 3} {
		if got := open(provenDay(t, d, func(o *AnalyzeOptions) { o.ApiserverCount = n })); len(got) > 0 {
			t.Errorf("%d of 3: %v", n, got)
		}
	}
}

// A client can do without a binding that goes if one that is kept gives the same, and still gives it in the end.
func TestReadyKeepsBindings(t *testing.T) {
	want := kept()
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
			if code == "" && got["nothing-depends"] != nil || code != "" && !slices.Contains(got["nothing-depends"], string(code)) {
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
			both(&o)
			switch a, err := Analyze(t.Context(), o); {
			case err != nil:
				t.Error(err)
			case len(a.Unkept) != 1 || !strings.HasSuffix(a.Unkept[0], legacy) || !strings.Contains(strings.Join(a.Notices(), "\n"), legacy+" has no effect"):
				t.Errorf("not kept: %q, %q", a.Unkept, a.Notices())
			}
			o = dayOptions(t, d)
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
					continue
				}
				want := []string{string(checks.CodeOtherEnded)}
				if strings.HasPrefix(m.Name, "spare-trimmed") {
					want = []string{string(checks.CodeGaveMore), string(checks.CodeOtherEnded)}
				}
				if !slices.Equal(slices.Sorted(slices.Values(got["nothing-depends"])), want) {
					t.Errorf("%s: %v, want %s", window, got, want)
				}
			}
		})
	}
}

package report

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/wording"
)

// TestDeletionIsOfWhatWasSeen gives the commands to a shell, whatever is in the names: kubectl is called once for each binding, deletes that
// one, and with the UID and the resource version where both are known.
func TestDeletionIsOfWhatWasSeen(t *testing.T) {
	parts := []string{"system", ":", "node", "legacy", " ", "'", `"`, "$(x)", "`x`", ";", "&", "|", "\\", "%2F", "%", "-", "é", "*", "~", "#", "?", "{}", "\n", "."}
	ids := []string{"", "0b8e4d9f-1f3a-4f3e-9d0c-0a6a4c2b7a11", "42", `","x":"`, "$(x)", "-rf", "'", "\u202e"}
	r := rand.New(rand.NewPCG(1, 9))
	word := func() string {
		s := ""
		for range 1 + r.IntN(5) {
			s += parts[r.IntN(len(parts))]
		}
		return "n" + s
	}
	var known []NodeBinding
	var script strings.Builder
	script.WriteString("kubectl() { printf 'called\\0'; printf '%s\\0' \"$@\"; [ \"$5\" = - ] && cat; printf '\\1'; }\n")
	for i := range 200 {
		b := NodeBinding{Binding: Binding{Kind: "ClusterRoleBinding", Name: fmt.Sprint(word(), i)}, UID: ids[r.IntN(len(ids))], ResourceVersion: ids[r.IntN(len(ids))]}
		if r.IntN(2) == 0 {
			b.Kind, b.Namespace = "RoleBinding", "ns-"+fmt.Sprint(i)
		}
		known = append(known, b)
	}
	for i := range known {
		command, _ := deletionOf(known[i].Binding, known)
		script.WriteString(command + "\n")
	}
	out, err := exec.CommandContext(t.Context(), "sh", "-c", script.String()).Output()
	if err != nil {
		t.Fatal(err)
	}
	calls := strings.Split(string(out), "\x01")
	if calls = calls[:len(calls)-1]; len(calls) != len(known) {
		t.Fatalf("%d calls for %d bindings:\n%s", len(calls), len(known), script.String())
	}
	checked := 0
	for i, call := range calls {
		b, args := &known[i], strings.Split(call, "\x00")
		if command, precondition := deletionOf(b.Binding, known); !precondition {
			if strings.Contains(command, "--raw") || args[1] != "delete" || args[2] != strings.ToLower(b.Kind) {
				t.Errorf("%+v: %s", b, command)
			}
			continue
		}
		checked++
		want := "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/"
		if b.Namespace != "" {
			want = "/apis/rbac.authorization.k8s.io/v1/namespaces/" + b.Namespace + "/rolebindings/"
		}
		u, err := url.ParseRequestURI(args[3])
		if err != nil || u.Path != want+b.Name || u.RawQuery != "" {
			t.Errorf("%+v: deletes %q, %v", b, args[3], err)
		}
		var options metav1.DeleteOptions
		if err := json.Unmarshal([]byte(args[len(args)-1]), &options); err != nil || options.Preconditions == nil {
			t.Fatalf("%+v: %q: %v", b, args[len(args)-1], err)
		}
		if p := options.Preconditions; string(*p.UID) != b.UID || *p.ResourceVersion != b.ResourceVersion || b.UID == "" || b.ResourceVersion == "" {
			t.Errorf("%+v: deleted if it is %s in version %s", b, *p.UID, *p.ResourceVersion)
		}
	}
	if checked < 5 || checked == len(known) {
		t.Errorf("%d of %d have preconditions", checked, len(known))
	}
}

// TestPlanKeepsACopyOfAll holds that what is deleted is kept before, and can be applied again, one by one.
func TestPlanKeepsACopyOfAll(t *testing.T) {
	for _, n := range []int{1, 3, planNames, planNames + 4} {
		var going []Binding
		var known []NodeBinding
		for i := range n {
			going = append(going, Binding{Kind: "ClusterRoleBinding", Name: fmt.Sprint("b", i)})
			known = append(known, NodeBinding{Binding: going[i], UID: "u", ResourceVersion: fmt.Sprint(i + 1)})
		}
		s := &steps{words: wording.English{}}
		s.deletion(going, known, "")
		text := map[codes.Code]string{}
		for _, step := range s.all {
			text[step.Code] = strings.Join(step.Commands, "\n")
		}
		for i := range min(n, planNames) {
			file := fmt.Sprintf("binding-%d.yaml", i+1)
			if !strings.Contains(text[codes.PreviewDeletion], fmt.Sprintf("kubectl get clusterrolebinding b%d -o yaml > %s", i, file)) ||
				!strings.Contains(text[codes.DeleteBindings], fmt.Sprintf("/clusterrolebindings/b%d -f -", i)) ||
				!strings.Contains(text[codes.WatchDenials]+"\n", "kubectl apply -f "+file+"\n") {
				t.Errorf("%d of %d: %v", i, n, text)
			}
		}
	}
}

// Of a binding with other subjects only the nodes are removed, from the last to the first, and each only if it is still in its place.
func TestPlanRemovesOnlyNodes(t *testing.T) {
	mixed := Binding{"RoleBinding", "shop", "it's"}
	known := []NodeBinding{{Binding: mixed, Role: "view", Fate: "goes", UID: "u-1", ResourceVersion: "7", NodeSubjects: []NodeSubject{
		{Place: 0, Kind: "Group", Name: "system:nodes"}, {Place: 2, Kind: "User", Name: `system:node:"b'`},
	}}}
	got, precondition := deletionOf(mixed, known)
	const want = `kubectl patch rolebinding 'it'\''s' -n shop --type=json -p '[` +
		`{"op":"test","path":"/subjects/2/kind","value":"User"},{"op":"test","path":"/subjects/2/name","value":"system:node:\"b'\''"},{"op":"remove","path":"/subjects/2"},` +
		`{"op":"test","path":"/subjects/0/kind","value":"Group"},{"op":"test","path":"/subjects/0/name","value":"system:nodes"},{"op":"remove","path":"/subjects/0"}]'`
	if got != want || precondition {
		t.Errorf("%t:\n%s\nwant\n%s", precondition, got, want)
	}
}

// The commands of a binding's page delete it as the plan does: only while it is the object that was looked at, where that is known.
func TestBindingCommands(t *testing.T) {
	known := []NodeBinding{
		{Binding: Binding{"ClusterRoleBinding", "", "legacy"}, Role: "system:node", Fate: "goes", UID: "u-1", ResourceVersion: "7"},
		{Binding: Binding{"RoleBinding", "shop", "$(reboot)"}, UID: "u-2", ResourceVersion: "8"},
		{Binding: Binding{"ClusterRoleBinding", "", "odd"}, UID: `"}; reboot`, ResourceVersion: "9"},
	}
	for _, b := range append([]NodeBinding{{Binding: Binding{"RoleBinding", "other", "legacy"}}}, known...) {
		p := &steps{words: wording.English{}}
		p.deletion([]Binding{b.Binding}, known, "")
		i := slices.IndexFunc(p.all, func(s Step) bool { return s.Code == codes.DeleteBindings })
		got := BindingCommands(b.Binding, "binding.yaml", known)
		if want := p.all[i].Commands[0]; got[2] != want {
			t.Errorf("%s is deleted by %s, in the plan by %s", b.Binding.Name, got[2], want)
		}
		if checked := strings.Contains(got[2], `"preconditions":{"uid":"u-`); checked != strings.HasPrefix(b.UID, "u-") {
			t.Errorf("%s is deleted with a precondition: %t: %s", b.Binding.Name, checked, got[2])
		}
	}
}

package app

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/internal/test/days"
)

// Pods that are deleted without time to end in are gone before their kubelets can delete them; those of a DaemonSet with a grace period of 0 go one after the
// other. If they had time, and the log lacks that kubelets deleted them, reads-logged is unproven.
func TestPodsDeletedAtOnce(t *testing.T) {
	for _, c := range []struct {
		name   string
		states []any // deletionGracePeriodSeconds of the states before the last one
		want   checks.State
	}{
		{"at once", nil, checks.Passed},
		{"with a state without time", []any{0}, checks.Passed},
		{"with time", []any{30}, checks.Unproven},
		{"with time that kubelets take away", []any{30, 0}, checks.Unproven},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := threeHours(t, 1, days.Options{})
			quiet := d.From.Add(145 * time.Minute) // kubelets delete no pod in that hour
			for i, node := range d.NodeNames {
				name := fmt.Sprint("agent-", i)
				put := func(at time.Time, verb string, grace any) {
					meta := map[string]any{"namespace": "kube-system", "name": name, "uid": "u-" + name, "creationTimestamp": "2020-01-01T00:00:00Z"}
					if grace != nil {
						meta["deletionTimestamp"], meta["deletionGracePeriodSeconds"] = at.Format(time.RFC3339), grace
					}
					d.State = append(d.State, &days.Entry{At: at, Type: verb, Kind: "Pod", Namespace: "kube-system", Name: name, Object: map[string]any{
						"apiVersion": "v1", "kind": "Pod", "metadata": meta, "status": map[string]any{"phase": "Running"},
						"spec": map[string]any{"nodeName": node, "serviceAccountName": "default", "containers": []map[string]any{{"name": "c", "image": "x"}}},
					}})
				}
				put(d.From.Add(-80*time.Minute), "ADDED", nil)
				at := quiet.Add(time.Duration(i) * 20 * time.Second)
				for j, grace := range c.states {
					put(at.Add(time.Duration(j-len(c.states))*time.Second), "MODIFIED", grace)
				}
				put(at, "DELETED", 0)
			}
			slices.SortStableFunc(d.State, func(a, b *days.Entry) int { return a.At.Compare(b.At) })
			if s, codes := codesOf(provenDay(t, d), "reads-logged"); s != c.want {
				t.Errorf("%s, %q, want %s", s, codes, c.want)
			}
		})
	}
}

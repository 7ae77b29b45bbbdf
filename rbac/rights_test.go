package rbac_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/rbac"
)

// TestRightsDuring has a binding that comes and goes, and a role that changes meanwhile.
func TestRightsDuring(t *testing.T) {
	s := rbac.NewStore()
	put(s, at(0), clusterRole("reader", rule("get secrets")))
	put(s, at(10), clusterBinding("b", "ClusterRole/reader", "Group/g"))
	put(s, at(12), clusterBinding("b", "ClusterRole/reader", "Group/g"), clusterRole("reader", rule("get secrets"))) // listed anew
	put(s, at(20), clusterRole("reader", rule("list secrets")))
	drop(s, at(30), clusterBinding("b", "ClusterRole/reader"))
	put(s, at(40), clusterBinding("b", "ClusterRole/reader", "Group/h"))
	put(s, at(5), clusterBinding("without", "ClusterRole/none", "Group/g"))
	get, list := "get to g from 10 to 20", "list to g from 20 to 30"
	again := "list to h from 40 to "
	for _, c := range []struct {
		from, to time.Time
		want     []string
	}{
		{time.Time{}, time.Time{}, []string{get, list, again}},
		{at(0), at(9), nil}, {at(0), at(10), []string{get}}, {at(19), at(19), []string{get}}, {at(20), at(20), []string{list}},
		{at(15), at(35), []string{get, list}}, {at(30), at(39), nil}, {at(41), time.Time{}, []string{again}},
	} {
		var got []string
		for r := range s.RightsDuring(c.from, c.to) {
			got = append(got, fmt.Sprintf("%s to %s from %s to %s", r.Rules[0].Verbs[0], r.Subjects[0].Name, seconds(r.From), seconds(r.To)))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("from %v to %v (-want +got):\n%s", c.from, c.to, diff)
		}
	}
}

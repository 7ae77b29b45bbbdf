package cluster

import (
	"slices"
	"time"
)

// What a kubelet writes, the status of its Node and of its pods, has the time of its machine's clock; whoever has its credential can write any time there. An
// input that has no clock of its own is dated by such times, and one clock that is ahead would date all that follows too late. So the kubelets' clocks are held
// against each other: each kubelet reports its Node's status every five minutes (nodeStatusReportFrequency), give or take a half, also where nothing changes.

// aheadBy is how far ahead of the others' reports the time of a right clock may be: as long as a kubelet reports nothing, and some.
const aheadBy = 10 * int64(time.Minute)

// nodeClocks finds the clocks that are ahead of most others by more than aheadBy.
type nodeClocks struct {
	latest  map[string]int64               // by node, of what its kubelet wrote
	reports map[string]int64               // of its Node alone
	accused map[string]map[string]struct{} // the nodes that wrote an earlier time thereafter
	most    int64                          // of latest
	ahead   map[string]int64               // those that are wrong, and by how much
}

// findAhead compares the clocks in the changes of an input, of which the first are a list.
func findAhead(all []change, list int) map[string]int64 {
	k := &nodeClocks{latest: map[string]int64{}, reports: map[string]int64{}, accused: map[string]map[string]struct{}{}, ahead: map[string]int64{}}
	for i := range all[:list] {
		k.note(&all[i])
	}
	k.listed(all[:list])
	for i := range all[list:] {
		c := &all[list+i]
		was := k.reports[c.ref.Name]
		if k.note(c); was != 0 && k.reports[c.ref.Name] > was { // else it may have stood there for long
			k.accuse(c.ref.Name, k.reports[c.ref.Name])
		}
	}
	return k.ahead
}

// kubelet is the node whose kubelet wrote times into the object, "" if none did.
func (c *change) kubelet() string {
	switch {
	case c.kind == kindNode:
		return c.ref.Name
	case c.pod != nil:
		return c.pod.NodeName
	}
	return ""
}

// note takes in what is written in an object.
func (k *nodeClocks) note(c *change) {
	node := c.kubelet()
	if node == "" || k.ahead[node] != 0 {
		return
	}
	k.latest[node] = max(k.latest[node], c.latest)
	k.most = max(k.most, c.latest)
	if c.kind == kindNode && c.reported != 0 {
		k.reports[node] = max(k.reports[node], c.reported)
	}
}

// listed compares what stands in one list. Only of a node that is ready is it known that its report is no older than reports are apart. A clock is ahead by how
// much later it is than all reports of clocks that are not.
func (k *nodeClocks) listed(list []change) {
	var ready []int64
	own := map[string]int64{}
	for i := range list {
		if c := &list[i]; c.kind == kindNode && c.ready.ready && c.reported != 0 {
			ready = append(ready, c.reported)
			own[c.ref.Name] = c.reported
		}
	}
	slices.Sort(ready)
	var ahead []string
	for node, t := range k.latest {
		earlier, _ := slices.BinarySearch(ready, t-aheadBy)
		others := len(ready)
		if r, is := own[node]; is {
			if others--; r < t-aheadBy { // its own report
				earlier--
			}
		}
		if 2*earlier > others {
			ahead = append(ahead, node)
		}
	}
	if len(ahead) == 0 {
		return
	}
	right := ready[0]
	for node, r := range own {
		if !slices.Contains(ahead, node) {
			right = max(right, r)
		}
	}
	for _, node := range ahead {
		k.ahead[node] = k.latest[node] - right
	}
	k.drop()
}

// accuse says that a node reported t after everything that was noted before.
func (k *nodeClocks) accuse(by string, t int64) {
	if k.most <= t+aheadBy {
		return
	}
	for node, other := range k.latest {
		if node == by || other <= t+aheadBy {
			continue
		}
		if k.accused[node] == nil {
			k.accused[node] = map[string]struct{}{}
		}
		k.accused[node][by] = struct{}{}
		others := len(k.reports)
		if k.reports[node] != 0 { // its own report
			others--
		}
		if 2*len(k.accused[node]) > others {
			k.ahead[node] = other - t
		}
	}
	k.drop()
}

// drop forgets the clocks that are wrong.
func (k *nodeClocks) drop() {
	for node := range k.ahead {
		delete(k.latest, node)
	}
	k.most = 0
	for _, t := range k.latest {
		k.most = max(k.most, t)
	}
}

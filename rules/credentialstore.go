package rules

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
)

// Changes implements Detector.
func (d *credentialDetector) Changes() []Remembered {
	var out []Remembered
	for _, name := range slices.Sorted(maps.Keys(d.dirty)) {
		delete(d.dirty, name)
		n := d.nodes[name]
		if n == nil || !n.worthStoring() {
			continue
		}
		for _, list := range n.used {
			for _, h := range list {
				h.stored = h.Last
			}
		}
		n.fresh = false
		out = remember(out, rememberedCredentials, name, &n.used)
	}
	recent := map[string]*[useKinds][]*habit{}
	for name, n := range d.nodes {
		if n.fresh {
			recent[name] = &n.used
		}
	}
	out = remember(out, rememberedCredentialsNow, "", recent)
	out = d.takings(out)
	for _, key := range slices.Sorted(maps.Keys(d.told)) {
		delete(d.told, key)
		if o := d.owners.get(key); o != nil {
			out = remember(out, rememberedOwner, key, o)
		}
	}
	return out
}

// worthStoring reports whether what is stored of the node is old. Where only one address and one certificate are used that is reported once an hour.
func (n *credentials) worthStoring() bool {
	for _, list := range n.used {
		every := time.Hour
		if len(list) > 1 {
			every = time.Minute
		}
		for _, h := range list {
			if h.Last.Sub(h.stored) >= every {
				return true
			}
		}
	}
	return false
}

// restore puts a node back in place of what is known of it.
func (d *credentialDetector) restore(n *credentials) {
	if d.nodes[n.name] == nil && len(d.nodes) >= MaxNodes {
		return
	}
	for k, list := range n.used {
		n.used[k] = slices.DeleteFunc(list, func(h *habit) bool { return h == nil })
		for _, h := range n.used[k] {
			h.stored = h.Last
			if h.Came != 0 {
				d.came[n.name] = struct{}{}
			}
		}
	}
	d.nodes[n.name] = n
}

// Restore implements Detector.
func (d *credentialDetector) Restore(r *Remembered) (own bool, err error) {
	switch r.Kind {
	case rememberedCredentials:
		n := &credentials{name: strings.Clone(r.Key)}
		if err := json.Unmarshal(r.Value, &n.used); err != nil {
			return true, err
		}
		if d.nodes[n.name] == nil {
			d.restore(n)
		}
		return true, nil
	case rememberedCredentialsNow:
		var all map[string]*[useKinds][]*habit
		if err := json.Unmarshal(r.Value, &all); err != nil {
			return true, err
		}
		for name, used := range all {
			if used != nil && len(name) <= maxRemembered {
				d.restore(&credentials{name: name, used: *used, fresh: true})
			}
		}
		return true, nil
	case rememberedTakings:
		return true, d.restoreTakings(r.Value)
	case rememberedOwner:
		var o owner
		if err := json.Unmarshal(r.Value, &o); err != nil {
			return true, err
		}
		if o.Nodes = o.Nodes[:min(len(o.Nodes), mostOwners)]; len(o.Nodes) > 0 && d.owners.get(r.Key) == nil {
			d.owners.add(r.Key, &o)
		}
		return true, nil
	}
	return false, nil
}

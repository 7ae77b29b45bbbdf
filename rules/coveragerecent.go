package rules

// recentTracks are nodes by name, as they are stored together. What is known of most nodes changes every minute, and so they have a short form.
type recentTracks map[string]recentTrack

// recentTrack is a nodeTrack: its numbers, and the pod and the secret of fresh.
type recentTrack struct {
	Numbers [9]int64 `json:"n"`
	Told    bool     `json:"t,omitzero"`
	Group   bool     `json:"g,omitzero"`
	Pod     string   `json:"p,omitzero"`
	Secret  string   `json:"s,omitzero"`
}

func (n *nodeTrack) recent() recentTrack {
	out := recentTrack{
		Numbers: [9]int64{int64(n.minutes), n.first, n.last, n.secrets, n.unread, n.tested, n.late, n.stored, 0}, Told: n.told, Group: n.group,
	}
	if f := n.fresh; f != nil {
		out.Numbers[8], out.Pod, out.Secret = f.bound, f.pod, f.secret
	}
	return out
}

func (r *recentTrack) track(name string) *nodeTrack {
	of := &r.Numbers
	n := &nodeTrack{
		name: name, minutes: uint64(of[0]) & hourBits, first: of[1], last: of[2], secrets: of[3], unread: of[4], tested: of[5], late: of[6], stored: of[7],
		told: r.Told, group: r.Group,
	}
	if of[8] != 0 {
		n.fresh = &freshSecret{bound: of[8], pod: r.Pod, secret: r.Secret}
	}
	return n
}

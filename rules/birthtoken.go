package rules

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/codes"
)

// tokenDetector counts for how many nodes each bootstrap token asks for certificates.
type tokenDetector struct {
	opt     Bootstrap
	tokens  map[string]*bootstrapToken // by ID, maxTokens at most
	pending []tokenAsk
	dirty   map[string]struct{}
}

// bootstrapToken is what is known of one token: its ID is no secret.
type bootstrapToken struct {
	// Nodes are those that it asked for within a day, with the latest time of that.
	Nodes map[string]time.Time `json:"n"`
}

// tokenAsk is a certificate request with a bootstrap token.
type tokenAsk struct {
	at                                   time.Time
	token, node, audit, address, product string
}

const (
	rememberedToken = "bootstrap-token"
	maxTokens       = 1024
	maxTokenNodes   = 5000
	tokenDay        = 24 * time.Hour
)

func newTokenDetector(o DetectorOptions) Detector {
	return &tokenDetector{opt: o.Bootstrap, tokens: map[string]*bootstrapToken{}, dirty: map[string]struct{}{}}
}

func (d *tokenDetector) configure(o DetectorOptions) { d.opt = o.Bootstrap }

// bear implements birthReader.
func (d *tokenDetector) bear(r *Request, _ int64) {
	id, is := strings.CutPrefix(r.Event.Effective().Username, audit.BootstrapUserPrefix)
	if !is || len(id) > maxRemembered || !audit.Signs(r.Event) || r.Event.Verb != "create" || !r.Succeeded() || DryRun(r.Event) || len(d.pending) >= maxFirstUses {
		return
	}
	if s, whole := r.Signing(); whole && s.Node() != "" && len(s.Node()) <= maxRemembered {
		d.pending = append(d.pending, tokenAsk{
			r.Time, strings.Clone(id), s.Node(), strings.Clone(r.Event.AuditID), strings.Clone(lastAddress(r)), strings.Clone(r.Client()),
		})
	}
}

// Advance implements Detector.
func (d *tokenDetector) Advance(t time.Time, _ State, found func(*Detection)) {
	var due []tokenAsk
	d.pending = slices.DeleteFunc(d.pending, func(a tokenAsk) bool {
		is := a.at.Before(t)
		if is {
			due = append(due, a)
		}
		return is
	})
	slices.SortFunc(due, func(a, b tokenAsk) int { return cmp.Or(a.at.Compare(b.at), strings.Compare(a.audit, b.audit)) })
	for _, a := range due {
		d.ask(&a, found)
	}
}

func (d *tokenDetector) ask(a *tokenAsk, found func(*Detection)) {
	k := d.tokens[a.token]
	if k == nil {
		if len(d.tokens) >= maxTokens {
			maps.DeleteFunc(d.tokens, func(_ string, k *bootstrapToken) bool { return k.over(a.at) == 0 })
		}
		if len(d.tokens) >= maxTokens {
			return
		}
		k = &bootstrapToken{Nodes: map[string]time.Time{}}
		d.tokens[a.token] = k
	}
	k.over(a.at)
	_, again := k.Nodes[a.node]
	if again || len(k.Nodes) < maxTokenNodes {
		k.Nodes[a.node] = a.at
	}
	d.dirty[a.token] = struct{}{}
	if n := len(k.Nodes); n > d.opt.maxNodes() && !again {
		f := Finding{
			Rule: BootstrapTokenMisuse, Reason: ManyNames, Severity: Medium, Subject: audit.BootstrapUserPrefix + a.token, Allowed: true,
			Params: codes.Params{codes.Int(ParamNodes, n), codes.Text(ParamNode, a.node)},
		}
		if d.opt.SingleUse {
			f.Severity = High
		}
		found(&Detection{
			Finding: f, Time: a.at, First: a.at, Last: a.at, Count: 1, AuditIDs: idsOf(a.audit), Product: a.product,
			Verb: "create", APIGroup: "certificates.k8s.io", Resource: "certificatesigningrequests",
		})
	}
}

// over drops the nodes of more than a day before, and returns how many are left.
func (k *bootstrapToken) over(t time.Time) int {
	maps.DeleteFunc(k.Nodes, func(_ string, at time.Time) bool { return t.Sub(at) > tokenDay })
	return len(k.Nodes)
}

// Changes implements Detector.
func (d *tokenDetector) Changes() []Remembered {
	var out []Remembered
	for _, id := range slices.Sorted(maps.Keys(d.dirty)) {
		if k := d.tokens[id]; k != nil {
			out = remember(out, rememberedToken, id, k)
		}
	}
	clear(d.dirty)
	return out
}

// Restore implements Detector.
func (d *tokenDetector) Restore(r *Remembered) (own bool, err error) {
	if r.Kind != rememberedToken {
		return false, nil
	}
	k := &bootstrapToken{}
	if err := json.Unmarshal(r.Value, k); err != nil {
		return true, err
	}
	if k.Nodes == nil {
		k.Nodes = map[string]time.Time{}
	}
	if d.tokens[r.Key] == nil && len(d.tokens) < maxTokens && len(k.Nodes) <= maxTokenNodes {
		d.tokens[strings.Clone(r.Key)] = k
	}
	return true, nil
}

package explain

import (
	"fmt"
	"io"
	"strings"
)

// What the text lists of a node's reach; JSON has more.
const (
	maxTextObjects = 200
	maxTextRights  = 20
	maxTextUses    = 100
)

// WriteJSON writes the answer as one indented JSON object. All keys are always there, and no list is null.
func (r *NodeReach) WriteJSON(w io.Writer) error { return writeJSON(w, r) }

// headline is what was asked.
func (r *NodeReach) headline() string {
	when := ""
	switch {
	case r.From != nil && r.To != nil && r.From.Equal(*r.To):
		when = " at " + clock(*r.From)
	case r.From != nil && r.To != nil:
		when = fmt.Sprintf(" from %s to %s", clock(*r.From), clock(*r.To))
	case r.From != nil:
		when = " since " + clock(*r.From)
	case r.To != nil:
		when = " until " + clock(*r.To)
	}
	return "What the credential of node " + r.Node + " could reach" + when
}

// Summary counts the objects by kind, in a sentence.
func (r *NodeReach) Summary() string {
	var kinds []string
	counts := map[string]int{}
	for i := range r.Objects {
		kind := r.Objects[i].Object.Kind
		if counts[kind] == 0 {
			kinds = append(kinds, kind)
		}
		counts[kind]++
	}
	if len(kinds) == 0 {
		return "No pod or volume on the node used any object."
	}
	for i, kind := range kinds {
		kinds[i] = plural(counts[kind], kind)
	}
	return strings.Join(kinds, ", ") + "."
}

// WriteText writes the answer for a person.
func (r *NodeReach) WriteText(w io.Writer) error {
	l := &lines{}
	l.add("%s", r.headline())
	l.add("  %s", r.Summary())
	for _, s := range r.Notes {
		l.add("  %s", s)
	}
	r.textObjects(l)
	r.textAccounts(l)
	r.textBeyond(l)
	l.head("What to rotate")
	for i := range r.Rotate {
		l.add("  %s", r.Rotate[i].Words())
	}
	return l.writeTo(w, "what a node could reach")
}

func (r *NodeReach) textObjects(l *lines) {
	kind, listed := "", 0
	for i := range r.Objects {
		o := &r.Objects[i]
		if o.Object.Kind != kind {
			kind, listed = o.Object.Kind, 0
			l.head(strings.ToUpper(kind[:1]) + kind[1:] + "s")
		}
		if listed++; listed > maxTextObjects {
			if listed == maxTextObjects+1 {
				l.add("  and more (-o json has all)")
			}
			continue
		}
		more := ""
		if n := len(o.Paths) - 1 + o.More; n > 0 {
			more = fmt.Sprintf(", and by %s", plural(n, "further path"))
		}
		p := &o.Paths[0]
		by := ""
		if len(p.Steps) > 2 {
			words := make([]string, 0, len(p.Steps))
			for _, s := range p.Steps[1 : len(p.Steps)-1] {
				words = append(words, s.String())
			}
			by = " by " + strings.Join(words, " -> ")
		}
		l.add("  %s%s, %s%s", nameOf(o.Object), by, lifetime(p.From, p.To), more)
	}
}

func (r *NodeReach) textAccounts(l *lines) {
	if len(r.Accounts) == 0 {
		return
	}
	l.head("What tokens of these service accounts could do by RBAC")
	for i := range r.Accounts {
		a := &r.Accounts[i]
		l.add("  %s", nameOf(Step{Namespace: a.Namespace, Name: a.Name}))
		switch {
		case len(a.Rights) == 0 && r.RightsKnown:
			l.add("    no more than every authenticated user")
		case len(a.Rights) == 0:
			l.add("    not known")
		}
		for k := range a.Rights {
			if k == maxTextRights {
				l.add("    and by %s", plural(len(a.Rights)-k+a.More, "further binding"))
				break
			}
			g := &a.Rights[k]
			where := "in all namespaces"
			if g.Binding.Namespace != "" {
				where = "in namespace " + g.Binding.Namespace
			}
			l.add("    by %s of %s, %s, %s:", g.Binding, g.Role, where, lifetime(g.From, g.To))
			for n := range g.Rules {
				l.add("      %s", g.Rules[n].Words())
			}
		}
	}
}

// Words are the rule in one line.
func (r *Rule) Words() string {
	var what []string
	for _, s := range r.Resources {
		for _, g := range r.APIGroups {
			if g != "" {
				what = append(what, s+"."+g)
			} else {
				what = append(what, s)
			}
		}
	}
	s := strings.Join(r.Verbs, ", ") + " " + strings.Join(append(what, r.NonResourceURLs...), ", ")
	if len(r.ResourceNames) > 0 {
		s += " named " + strings.Join(r.ResourceNames, ", ")
	}
	if c := r.concern(); c != "" {
		s += "  <- " + c
	}
	return s
}

func (r *NodeReach) textBeyond(l *lines) {
	b := r.Beyond
	if b == nil {
		return
	}
	l.head("What it did beyond that")
	switch {
	case b.From == nil:
		l.add("  the log holds no request with this credential")
	default:
		l.add("  %s with this credential from %s to %s", plural(int(b.Requests), "request"), clock(*b.From), clock(*b.To))
	}
	if b.Races > 0 {
		l.add("  %s not counted: a pod or volume on the node used what was asked for at that time, but the API server's graph was behind", plural(int(b.Races), "request"))
	}
	if len(b.Uses) == 0 && b.From != nil {
		l.add("  nothing that succeeded")
	}
	for i := range b.Uses {
		if i == maxTextUses {
			l.add("  and %s more (-o json has all)", plural(len(b.Uses)-i, "kind"))
			break
		}
		l.add("  %s", b.Uses[i].words())
	}
	if b.More > 0 {
		l.add("  and %s of still other kinds, not listed", plural(int(b.More), "request"))
	}
}

// Words are the rotation in one line.
func (r *Rotation) Words() string {
	name := nameOf(Step{Namespace: r.Namespace, Name: r.Name})
	switch r.Kind {
	case rotateCredential:
		return "the credential of node " + r.Name + ": " + r.Why
	case rotateSecrets:
		if r.Namespace == "" {
			return "all secrets in all namespaces: " + r.Why
		}
		return "all secrets in namespace " + r.Namespace + ": " + r.Why
	case rotateTokens:
		return "tokens of service account " + name + ": " + r.Why
	}
	if r.Namespace == "" {
		return "secrets named " + r.Name + " in all namespaces: " + r.Why
	}
	return "secret " + name + ": " + r.Why
}

// maxDrawnObjects bounds the drawing of a node's reach.
const maxDrawnObjects = 60

// WriteDOT writes the drawing for Graphviz, as in: dot -Tpdf. It has the objects by their longest paths, and what the credential did beyond.
func (r *NodeReach) WriteDOT(w io.Writer) error {
	d := newDrawer(r.headline(), r.Summary())
	node := d.box("node", box{kind: nodeKind, name: r.Node, class: "asks"}, 0)
	for i := range r.Objects {
		if i == maxDrawnObjects {
			d.notes = append(d.notes, fmt.Sprintf("and %s more", plural(len(r.Objects)-i, "object")))
			break
		}
		o := &r.Objects[i]
		before := d.box(o.Object.String(), box{kind: o.Object.Kind, name: nameOf(o.Object), class: "object"}, i)
		class := classAlive
		if to := o.Paths[0].To; to != nil && (r.To == nil || !to.After(*r.To)) {
			class = classEnded
		}
		for _, s := range o.Paths[0].Steps[1 : len(o.Paths[0].Steps)-1] {
			next := d.box(s.String(), box{kind: s.Kind, name: nameOf(s), class: "step"}, i)
			d.arrow(before, next, class, "")
			before = next
		}
		d.arrow(before, node, class, span(&o.Paths[0]))
	}
	if r.Beyond != nil {
		for i := range r.Beyond.Uses {
			if i == maxDrawnObjects {
				d.notes = append(d.notes, fmt.Sprintf("and %s beyond", plural(len(r.Beyond.Uses)-i, "kind of request")))
				break
			}
			u := &r.Beyond.Uses[i]
			by := "not known"
			if u.Grant != nil {
				by = u.Grant.Binding.String()
			}
			d.arrow(d.box("use "+u.What(), box{kind: "request", name: u.What(), class: "request"}, i), node, classGrant, by)
		}
	}
	for _, s := range r.Notes {
		d.notes = append(d.notes, short(visible(s)))
	}
	return d.dot(w)
}

package scenario

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// expandCluster turns short lines into a journal.
func expandCluster(lines []textLine, day time.Time) ([]byte, *lineError) {
	x := clusterExpander{day: day, known: map[string]*shortObject{}}
	for _, l := range lines {
		if err := x.line(l.text); err != nil {
			return nil, &lineError{l.n, err}
		}
	}
	return x.out.Bytes(), nil
}

type clusterExpander struct {
	day   time.Time
	known map[string]*shortObject
	n     int // entries so far
	out   bytes.Buffer
}

// shortObject is an object as the lines so far have it.
type shortObject struct {
	kind            *shortKind
	namespace, name string
	lives           int // how often it was made
	alive           bool
	created, bound  time.Time
	fields          map[string][]string
}

func (o *shortObject) field(key string) string {
	if v := o.fields[key]; len(v) > 0 {
		return v[0]
	}
	return ""
}

type entry struct {
	ObservedAt string         `json:"observedAt"`
	Type       string         `json:"type"`
	Object     map[string]any `json:"object"`
}

func (x *clusterExpander) line(text string) error {
	words, err := cutWords(text)
	if err != nil {
		return err
	}
	copies, err := repeated(words)
	for i := 0; i < len(copies.lines) && err == nil; i++ {
		if x.n++; x.n > maxLines {
			return errTooMany
		}
		err = x.entry(copies.lines[i])
	}
	return err
}

func (x *clusterExpander) entry(words []word) error {
	if len(words) < 4 {
		return fmt.Errorf("a line of a cluster has a time, one of = + ~ -, a kind and a name")
	}
	at, err := clock(x.day, words[0].value)
	if err != nil {
		return err
	}
	kind := kindNamed(words[2].value)
	if kind == nil {
		return fmt.Errorf("there is no kind %q", words[2].value)
	}
	namespace, name, namespaced := strings.Cut(words[3].value, "/")
	if !namespaced {
		namespace, name = "", namespace
	}
	if namespaced != kind.namespaced || name == "" {
		return fmt.Errorf("%q is not the name of a %s", words[3].value, kind.short)
	}
	key := kind.short + " " + words[3].value
	o := x.known[key]
	if o == nil {
		o = &shortObject{kind: kind, namespace: namespace, name: name}
		x.known[key] = o
	}
	e := entry{ObservedAt: at.Format(time.RFC3339Nano)}
	if e.Type, err = o.happen(words[1].value, at); err != nil {
		return err
	}
	if err := o.set(words[4:], at, words[1].value == "=", x.day); err != nil {
		return err
	}
	if e.Object, err = o.json(); err != nil {
		return err
	}
	if e.Type == "DELETED" {
		meta := e.Object["metadata"].(map[string]any)
		meta["deletionTimestamp"], meta["deletionGracePeriodSeconds"] = at.Format(time.RFC3339), 0
	}
	line, err := json.Marshal(e)
	x.out.Write(append(line, '\n'))
	return err
}

func (o *shortObject) happen(what string, at time.Time) (string, error) {
	switch {
	case what != "=" && what != "+" && what != "~" && what != "-":
		return "", fmt.Errorf("%q is none of = + ~ -", what)
	case (what == "=" || what == "+") == o.alive:
		return "", fmt.Errorf("%q does not fit: %s %s is there: %t", what, o.kind.short, o.name, o.alive)
	}
	switch what {
	case "~":
		return "MODIFIED", nil
	case "-":
		o.alive = false
		return "DELETED", nil
	}
	o.alive, o.fields, o.bound = true, map[string][]string{}, time.Time{}
	o.lives++
	if o.created = at; what == "=" {
		o.created = at.Add(-time.Hour)
	}
	return "ADDED", nil
}

// set takes in the fields of a line.
func (o *shortObject) set(words []word, at time.Time, old bool, day time.Time) error {
	named := map[string]bool{}
	wasOn := o.field("on")
	for _, w := range words {
		var err error
		switch {
		case w.key == "repeat" || w.key == "every":
		case w.key == "created":
			o.created, err = clock(day, w.value)
		case w.key == "bound" && o.kind.short == "pod":
			o.bound, err = clock(day, w.value)
		case !slices.Contains(o.kind.fields, w.key):
			err = fmt.Errorf("a %s has no field %q: %s", o.kind.short, w.key, strings.Join(o.kind.fields, ", "))
		default:
			if !named[w.key] && w.key != "debug" {
				o.fields[w.key] = nil
			}
			if named[w.key] = true; w.value != "" {
				o.fields[w.key] = append(o.fields[w.key], w.value)
			}
		}
		if err != nil {
			return err
		}
	}
	if o.field("on") != wasOn && !named["bound"] && o.bound.IsZero() {
		if o.bound = at; old {
			o.bound = o.created
		}
	}
	return nil
}

// uid is one that all runs agree on.
func (o *shortObject) uid() string {
	h := sha256.Sum256(fmt.Appendf(nil, "%s %s/%s %d", o.kind.short, o.namespace, o.name, o.lives))
	x := hex.EncodeToString(h[:16])
	return x[:8] + "-" + x[8:12] + "-" + x[12:16] + "-" + x[16:20] + "-" + x[20:]
}

func (o *shortObject) json() (map[string]any, error) {
	meta := map[string]any{"name": o.name, "uid": o.uid(), "creationTimestamp": o.created.Truncate(time.Second).Format(time.RFC3339)}
	if o.namespace != "" {
		meta["namespace"] = o.namespace
	}
	out := map[string]any{"apiVersion": o.kind.apiVersion, "kind": o.kind.kind, "metadata": meta}
	if o.kind.fill == nil {
		return out, nil
	}
	return out, o.kind.fill(o, out)
}

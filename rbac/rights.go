package rbac

import (
	"iter"
	"slices"
	"time"
)

// Right is what a binding gave its subjects by one version of its role, with the time in which it did. From is zero when no beginning is known, To when
// it has not ended.
type Right struct {
	BindingInfo
	From, To time.Time
}

// Ended reports whether it had ended by t.
func (r *Right) Ended(t time.Time) bool { return !r.To.IsZero() && !r.To.After(t) }

// RightsDuring returns what bindings gave at some instant from `from` to `to`, both included, in the order of Bindings and then of time: a Right for
// each version of the binding with each version of its role. A zero time bounds nothing. Bindings whose role does not exist give nothing.
func (s *Store) RightsDuring(from, to time.Time) iter.Seq[Right] {
	lo, hi := instantOf(from), instantOf(to)
	if from.IsZero() {
		lo = earliest
	}
	if to.IsZero() {
		hi = latest
	}
	return func(yield func(Right) bool) {
		for _, b := range s.sorted() {
			for _, r := range b.rights(lo, hi) {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// rights are what the binding ever gave, those that were there at some instant from lo to hi.
func (b *binding) rights(lo, hi instant) (out []Right) {
	each(b.load(), func(v *bound, from, to instant) {
		if v.role == nil {
			return
		}
		each(v.role.load(), func(r *rules, began, ended instant) {
			begin, end := max(from, began), min(to, ended)
			if begin >= end || begin > hi || end <= lo {
				return
			}
			out = append(out, Right{From: begin.time(), To: end.time(), BindingInfo: BindingInfo{
				Binding: b.ref, Role: v.ref, Subjects: v.subjects, RoleExists: true, Rules: r.all,
			}})
		})
	})
	return out
}

// each calls f with each value that there was and its time, versions in a row that say the same as one.
func each[T any](all []version[T], f func(value *T, from, to instant)) {
	for i := 0; i < len(all); {
		k := i + 1
		for k < len(all) && all[k].value == all[i].value {
			k++
		}
		end := never
		if k < len(all) {
			end = all[k].from
		}
		if all[i].value != nil {
			f(all[i].value, all[i].from, end)
		}
		i = k
	}
}

// CoversAll reports whether absence is known at every instant from `from` to `to`, see [Store.Covers]. A zero to bounds nothing.
func (s *Store) CoversAll(from, to time.Time) bool {
	lo, hi := instantOf(from), instantOf(to)
	if to.IsZero() {
		hi = latest
	}
	if !s.Covers(from) || s.blind.Load() <= int64(hi) {
		return false
	}
	return !slices.ContainsFunc(s.loadHoles(), func(h hole) bool { return h.from <= hi && h.to >= lo })
}

package rules

import "strconv"

// slotSet are the keys of what a detector has stored of one kind. They are used again, since nothing is ever deleted from what is stored.
type slotSet struct {
	used map[int]bool
	over []int // that became free, of which something is stored
	next int   // all before it are used
}

func newSlotSet() slotSet { return slotSet{used: map[int]bool{}} }

// take returns the lowest that is free, and uses it.
func (s *slotSet) take() int {
	for s.used[s.next] {
		s.next++
	}
	s.used[s.next] = true
	return s.next
}

// drop has one free again. What is stored of it stays until the slot is used again.
func (s *slotSet) drop(n int) {
	delete(s.used, n)
	s.next = min(s.next, n)
}

// empty has one free again, of which nothing must stay stored.
func (s *slotSet) empty(n int) {
	s.drop(n)
	s.over = append(s.over, n)
}

// changes appends that nothing is stored any more of what became empty, and is not used again; nothing is the value of that.
func (s *slotSet) changes(out []Remembered, kind string, nothing any) []Remembered {
	for _, n := range s.over {
		if !s.used[n] {
			out = remember(out, kind, strconv.Itoa(n), nothing)
		}
	}
	s.over = nil
	return out
}

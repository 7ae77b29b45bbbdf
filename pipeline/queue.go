package pipeline

import (
	"container/heap"
	"slices"
)

// queue has the requests that wait, by when they are due; those that are due at the same time in the order in which they came. Most come in
// that order: then adding and removing one costs the same however many wait. Those that do not are kept in a heap.
type queue struct {
	run  []*request // in order, from head on
	head int
	late requestHeap
}

// before is the order in which requests are judged.
func before(a, b *request) bool {
	if !a.due.Equal(b.due) {
		return a.due.Before(b.due)
	}
	return a.seq < b.seq
}

// last is the request of the run that is due last, nil if there is none.
func (q *queue) last() *request {
	if q.head == len(q.run) {
		return nil
	}
	return q.run[len(q.run)-1]
}

func (q *queue) push(r *request) {
	if last := q.last(); last != nil && before(r, last) {
		heap.Push(&q.late, r)
		return
	}
	q.run = append(q.run, r)
}

// first is the request that is due first, nil if none waits.
func (q *queue) first() *request {
	switch {
	case q.head == len(q.run) && len(q.late) == 0:
		return nil
	case q.head == len(q.run) || len(q.late) > 0 && before(q.late[0], q.run[q.head]):
		return q.late[0]
	}
	return q.run[q.head]
}

// pop removes the first.
func (q *queue) pop() {
	if len(q.late) > 0 && q.first() == q.late[0] {
		heap.Pop(&q.late)
		return
	}
	q.run[q.head] = nil
	if q.head++; q.head == len(q.run) {
		q.run, q.head = q.run[:0], 0
	} else if q.head > 4096 && q.head*2 > len(q.run) {
		q.run, q.head = slices.Delete(q.run, 0, q.head), 0
	}
}

// sweep removes all that do not wait any more.
func (q *queue) sweep() {
	gone := func(r *request) bool { return !r.state.isWaiting() }
	q.run, q.head = slices.DeleteFunc(slices.Delete(q.run, 0, q.head), gone), 0
	q.late = slices.DeleteFunc(q.late, gone)
	heap.Init(&q.late)
}

// requestHeap has the request on top that is due first.
type requestHeap []*request

func (h requestHeap) Len() int           { return len(h) }
func (h requestHeap) Less(i, j int) bool { return before(h[i], h[j]) }
func (h requestHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *requestHeap) Push(x any) { *h = append(*h, x.(*request)) }

// Pop implements heap.Interface.
func (h *requestHeap) Pop() any {
	old := *h
	r := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return r
}

// list has requests in the order in which they were added. A request is in one list at most.
type list struct {
	first, last *request
	n           int
}

func (l *list) push(r *request) {
	if r.prev, l.n = l.last, l.n+1; l.last == nil {
		l.first = r
	} else {
		l.last.next = r
	}
	l.last = r
}

func (l *list) remove(r *request) {
	if l.n--; r.prev == nil {
		l.first = r.next
	} else {
		r.prev.next = r.next
	}
	if r.next == nil {
		l.last = r.prev
	} else {
		r.next.prev = r.prev
	}
	r.prev, r.next = nil, nil
}

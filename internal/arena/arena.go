// Package arena keeps very many small values by number, without a pointer to each, which would take memory, and time of the garbage collector. Nothing in it
// is safe for concurrent use by a writer and others.
package arena

const chunk = 1 << 10

// Of hands out records by number. It grows in chunks, so that records stay where they are and growing copies nothing. The zero value is empty.
type Of[T any] struct {
	chunks [][]T
	n      uint32
	free   []uint32
}

// At returns the record of a number that was handed out. It stays where it is.
func (a *Of[T]) At(i uint32) *T { return &a.chunks[i/chunk][i%chunk] }

// Alloc hands out the number of a record: that of the one that was released last, which is as it was left, or else the next one, from 0 on.
func (a *Of[T]) Alloc() uint32 {
	if k := len(a.free); k > 0 {
		i := a.free[k-1]
		a.free = a.free[:k-1]
		return i
	}
	if a.n%chunk == 0 {
		a.chunks = append(a.chunks, make([]T, chunk))
	}
	a.n++
	return a.n - 1
}

// Release takes a number back.
func (a *Of[T]) Release(i uint32) { a.free = append(a.free, i) }

// Len is the number next to the highest that was ever handed out.
func (a *Of[T]) Len() uint32 { return a.n }

// Live is how many numbers are handed out.
func (a *Of[T]) Live() int { return int(a.n) - len(a.free) }

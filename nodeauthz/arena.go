package nodeauthz

const arenaChunk = 1 << 10

// arena hands out records by number. It grows in chunks, so that records stay where they are and growing copies nothing, and holds
// no pointer to each, which the garbage collector would have to follow.
type arena[T any] struct {
	chunks [][]T
	n      uint32
	free   []uint32
}

func (a *arena[T]) at(i uint32) *T { return &a.chunks[i/arenaChunk][i%arenaChunk] }

func (a *arena[T]) alloc() uint32 {
	if k := len(a.free); k > 0 {
		i := a.free[k-1]
		a.free = a.free[:k-1]
		return i
	}
	if a.n%arenaChunk == 0 {
		a.chunks = append(a.chunks, make([]T, arenaChunk))
	}
	a.n++
	return a.n - 1
}

func (a *arena[T]) release(i uint32) { a.free = append(a.free, i) }

func (a *arena[T]) live() int { return int(a.n) - len(a.free) }

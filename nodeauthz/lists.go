package nodeauthz

// listID is the number of a list in lists; 0 is the empty one.
type listID uint32

const (
	listChunk = 1 << 14
	// maxList is the length from which on a list is kept by itself: no pod that there can be names so many objects.
	maxList = 1 << 10
)

// lists keeps lists of vertices that are set once. A list has its length before it, and makes room for others of that length when it is released.
type lists struct {
	chunks [][]vertexID
	free   map[int][]listID // by length
	end    listID           // of what was given out
}

func newLists() lists {
	return lists{chunks: [][]vertexID{make([]vertexID, listChunk)}, free: map[int][]listID{}, end: 1}
}

// put keeps a copy of the list.
func (a *lists) put(list []vertexID) listID {
	n := len(list)
	if n == 0 {
		return 0
	}
	var id listID
	if free := a.free[n]; len(free) > 0 {
		id = free[len(free)-1]
		a.free[n] = free[:len(free)-1]
	} else {
		id = a.alloc(n + 1)
	}
	b := a.chunks[id/listChunk][id%listChunk:]
	b[0] = vertexID(n)
	copy(b[1:], list)
	return id
}

// at returns a list, which is valid until it is released.
func (a *lists) at(id listID) []vertexID {
	if id == 0 {
		return nil
	}
	b := a.chunks[id/listChunk][id%listChunk:]
	return b[1 : 1+b[0] : 1+b[0]]
}

func (a *lists) release(id listID) {
	if n := len(a.at(id)); n > 0 {
		a.free[n] = append(a.free[n], id)
	}
}

func (a *lists) alloc(n int) listID {
	if n > maxList {
		a.chunks = append(a.chunks, make([]vertexID, n))
		return listID((len(a.chunks) - 1) * listChunk)
	}
	if a.end%listChunk == 0 || a.end%listChunk+listID(n) > listChunk {
		a.end = listID(len(a.chunks) * listChunk)
		a.chunks = append(a.chunks, make([]vertexID, listChunk))
	}
	id := a.end
	a.end += listID(n)
	return id
}

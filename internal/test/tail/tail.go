// Package tail keeps the end of what a program says, for tests and what starts programs for them.
//
// What goes in: bytes, as to a file. What comes out: their end, also while more come. It imports none of ours.
package tail

import "sync"

// most is how many bytes are kept at least, once there are so many.
const most = 1 << 20

// Buffer is an io.Writer that keeps the end of what is written, a megabyte at least. The zero value is ready. Its methods may be called concurrently.
type Buffer struct {
	mu sync.Mutex
	b  []byte
}

// Write implements io.Writer; it does not fail.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.b) > 2*most {
		b.b = append(b.b[:0], b.b[len(b.b)-most:]...)
	}
	b.b = append(b.b, p...)
	return len(p), nil
}

// String is all that is kept.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.b)
}

// Last is the last n bytes, or what there is.
func (b *Buffer) Last(n int) string {
	s := b.String()
	return s[max(0, len(s)-n):]
}

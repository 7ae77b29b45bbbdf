package nodeauthz

import (
	"testing"
	"unsafe"
)

// What a decision reads of a record must stand in one cache line.
func TestRecordsFillCacheLines(t *testing.T) {
	if n := unsafe.Sizeof(vertex{}); n != 64 {
		t.Errorf("a vertex has %d bytes", n)
	}
	if n := unsafe.Sizeof(tenure{}); n != 128 {
		t.Errorf("a tenure has %d bytes", n)
	}
	if n := unsafe.Offsetof(tenure{}.node); n+4 > 64 {
		t.Errorf("what a decision reads of a tenure ends at byte %d", n+4)
	}
}

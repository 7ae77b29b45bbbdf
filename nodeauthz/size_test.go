package nodeauthz

import (
	"testing"
	"unsafe"
)

// What a decision reads of a record must stand in one cache line.
func TestRecordsFillCacheLines(t *testing.T) {
	if n := unsafe.Sizeof(vertex{}); n != 32 {
		t.Errorf("a vertex has %d bytes", n)
	}
	if n := unsafe.Sizeof(tenure{}); n != 64 {
		t.Errorf("a tenure has %d bytes", n)
	}
	if n := unsafe.Sizeof(sighting{}); n != 32 {
		t.Errorf("a sighting has %d bytes", n)
	}
}

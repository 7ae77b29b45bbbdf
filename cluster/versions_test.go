package cluster

import (
	"strconv"
	"testing"
)

// TestVersions adds versions up to the bound and beyond: below it none is lost, and none is ever known that was not added.
func TestVersions(t *testing.T) {
	var v versions
	since := 0
	for i := range 2*maxVersions + 1000 {
		uid, version := "u"+strconv.Itoa(i%1000), strconv.Itoa(i)
		if v.has(uid, version) {
			t.Fatalf("version %d is known before it was added", i)
		}
		if v.n == maxVersions {
			since = i
		}
		v.add(uid, version)
		if v.n < maxVersions {
			v.add(uid, version)
		}
		if j := since + i*7919%(i-since+1); !v.has("u"+strconv.Itoa(j%1000), strconv.Itoa(j)) || v.n != i-since+1 {
			t.Fatalf("after version %d: %d are known, version %d is not", i, v.n, j)
		}
	}
	if since != 2*maxVersions {
		t.Errorf("all was forgotten at version %d", since)
	}
	v.add("", "1")
	v.add("u", "")
	if v.has("", "1") || v.has("u", "") {
		t.Error("a version of no object, or none of an object, is known")
	}
}

package nodeauthz

import (
	"encoding/hex"
	"strings"
	"testing"
)

func TestUIDs(t *testing.T) {
	const uuid = "8c8cf2e6-7b56-4b0c-9c2b-0a1b2c3d4e5f"
	g := NewGraph()
	if u := g.uidOf(""); u.known() {
		t.Error("an empty UID is known")
	}
	others := []string{uuid, strings.ToUpper(uuid), strings.Replace(uuid, "8", "9", 1), uuid[:35], uuid + "0", strings.ReplaceAll(uuid, "-", ""),
		strings.ReplaceAll(uuid, "-", "_"), "g" + uuid[1:], uuid[:35] + "g", "-" + uuid[1:], "00000000-0000-0000-0000-000000000000", "x", "\x00",
		strings.Repeat("é", 18), "mirror-hash-of-a-static-pod"}
	seen := map[uid]string{}
	for _, s := range others {
		u := g.uidOf(s)
		if !u.known() || u != g.uidOf(strings.Clone(s)) {
			t.Errorf("%q is %x, and then %x", s, u, g.uidOf(s))
		}
		if before, taken := seen[u]; taken {
			t.Errorf("%q and %q are one", before, s)
		}
		seen[u] = s
	}
}

// FuzzUID: what parses is the UUID that its bytes say and nothing else, and equal UIDs alone are equal.
func FuzzUID(f *testing.F) {
	f.Add("8c8cf2e6-7b56-4b0c-9c2b-0a1b2c3d4e5f", "8c8cf2e6-7b56-4b0c-9c2b-0a1b2c3d4e5F")
	f.Add("", "00000000-0000-0000-0000-000000000000")
	f.Add("a", "b")
	f.Fuzz(func(t *testing.T, a, b string) {
		var u uid
		if parseUUID(a, &u) {
			h := hex.EncodeToString(u[:])
			if back := h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]; back != a {
				t.Fatalf("%q was read as %q", a, back)
			}
		}
		g := NewGraph()
		x, y := g.uidOf(a), g.uidOf(b)
		if (x == y) != (a == b) || x.known() != (a != "") {
			t.Fatalf("%q is %x, %q is %x", a, x, b, y)
		}
	})
}

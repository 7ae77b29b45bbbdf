package nodeauthz

import (
	"fmt"
	"testing"
)

func TestPodSecrets(t *testing.T) {
	g := NewGraph()
	g.CoverFrom(at(0))
	g.SetPod(webPod("n1"), watched(at(1000)))
	g.DeletePod("shop", "web-1", webPod("").UID, watched(at(5000)))
	second := webPod("n2")
	second.UID = "00000000-0000-4000-8000-000000000002"
	second.Secrets = []string{"db", "cert"}
	g.SetPod(second, watched(at(6000)))
	f := func(pod, node string, ms int, want string) {
		t.Helper()
		secrets, since, ok := g.PodSecrets("shop", pod, node, at(ms))
		got := ""
		if ok {
			got = fmt.Sprint(secrets, since.Sub(epoch))
		}
		if got != want || !ok && len(secrets) > 0 {
			t.Errorf("%s on %s at %dms: got %s, want %s", pod, node, ms, got, want)
		}
	}
	const none = ""
	f("web-1", "n1", 2000, "[{shop db}] 1s")
	f("web-1", "n1", 500, none)
	f("web-1", "n1", 5500, none)
	f("web-1", "n2", 2000, none)
	f("web-1", "n2", 7000, "[{shop db} {shop cert}] 6s")
	f("web-1", "n3", 7000, none)
	f("web-2", "n1", 2000, none)
}

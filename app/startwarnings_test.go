package app

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/internal/config"
	"github.com/nodetrail/nodetrail/tally"
)

// A configured version that is not supported is named by everything that reads the configuration.
func TestConfigCheckNamesAssumedVersion(t *testing.T) {
	for version, want := range map[string]string{"1.20": "Kubernetes 1.20 is not supported", "1.99": "Kubernetes 1.99 is not supported", "1.36": ""} {
		path := filepath.Join(t.TempDir(), "nodetrail.yaml")
		if err := os.WriteFile(path, []byte("authorization: {kubernetesVersion: \""+version+"\"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		good, err := ConfigCheck(path)
		if err != nil || !strings.Contains(good, want) || (want == "") == strings.Contains(good, "not supported") {
			t.Errorf("%s: %q, %v", version, good, err)
		}
	}
}

// A service says at its start that its state has entries that it cannot read.
func TestUnreadableStateIsLogged(t *testing.T) {
	journal := unpacked(t, filepath.Join(capture, "journal.jsonl.gz"))
	for _, c := range []struct {
		name    string
		journal []byte
		want    string
	}{{"whole", journal, ""}, {"cut", journal[:len(journal)*2/3], `"entries":1,"places":["`}} {
		path := filepath.Join(t.TempDir(), "journal.jsonl")
		if err := os.WriteFile(path, c.journal, 0o600); err != nil {
			t.Fatal(err)
		}
		out := new(bytes.Buffer)
		if _, err := openStateFeed(&config.Config{State: config.State{Files: []string{path}}}, zerolog.New(out)); err != nil {
			t.Fatal(err)
		}
		if said := out.String(); !strings.Contains(said, c.want) || (c.want == "") != (said == "") {
			t.Errorf("%s: %s", c.name, said)
		}
	}
}

// A folder is the store of one cluster.
func TestSameCluster(t *testing.T) {
	dir := t.TempDir()
	c := config.Default()
	c.Data = dir
	s, err := openStore(t.Context(), c, storeOptions(c, zerolog.Nop()))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	check := func(cluster, want string) {
		t.Helper()
		c.Cluster = cluster
		err := sameCluster(t.Context(), s, c)
		if err == nil && want != "" || err != nil && (want == "" || !strings.HasSuffix(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", cluster, err, want)
		}
	}
	check("b", "")
	facts, err := json.Marshal(storedFacts{Cluster: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), &tally.Commit{Facts: facts, Instance: "x"}); err != nil {
		t.Fatal(err)
	}
	check("a", "")
	check("", "")
	check("b", `is of the cluster "a", and not of "b": set another data folder`)
}

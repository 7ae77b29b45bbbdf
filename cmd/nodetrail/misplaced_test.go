package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// samples are files as people have them, each with what nodetrail calls it.
func samples(t *testing.T, dir string) map[string]string {
	t.Helper()
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	line := `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"a","stage":"ResponseComplete","requestURI":"/api/v1/nodes/worker-1","verb":"get","user":{"username":"system:node:worker-1","groups":["system:nodes"]},"objectRef":{"resource":"nodes","name":"worker-1","apiVersion":"v1"},"responseStatus":{"code":200},"requestReceivedTimestamp":"2026-11-21T06:00:00.000000Z","stageTimestamp":"2026-11-21T06:00:00.001000Z"}` + "\n"
	var archive, packed bytes.Buffer
	w := tar.NewWriter(&archive)
	_ = w.WriteHeader(&tar.Header{Name: "audit.log", Mode: 0o600, Size: int64(len(line))})
	_, _ = w.Write([]byte(line))
	z := gzip.NewWriter(&packed)
	_ = w.Close()
	_, _ = z.Write(archive.Bytes())
	_ = z.Close()
	utf16 := "\xff\xfe"
	for _, c := range []byte(line) {
		utf16 += string([]byte{c, 0})
	}
	var report, verdicts bytes.Buffer
	log := filepath.Join(dir, "sample.log")
	if err := os.WriteFile(log, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	if status := run(t.Context(), []string{"analyze", "-o", "json", log}, nil, &report, os.Stderr); status != 0 {
		t.Fatal(status)
	}
	if status := run(t.Context(), []string{"analyze", "--verdicts", "-", log}, nil, &verdicts, &bytes.Buffer{}); status != 0 {
		t.Fatal(status)
	}
	pod := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"b","uid":"c","resourceVersion":"1"},"spec":{"nodeName":"worker-1"}}`
	return map[string]string{
		"log.json\x00an audit log":                           line,
		"list.json\x00an audit log":                          `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":[` + "\n" + line + "]}",
		"policy.yaml\x00an audit policy":                     read("policy.yaml"),
		"policy.json\x00an audit policy":                     `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}`,
		"comment.yaml\x00an audit policy":                    "# What is logged.\n---\napiVersion: audit.k8s.io/v1 \nkind: 'Policy'\nrules:\n- level: Metadata\n",
		"journal.jsonl\x00cluster state":                     read("journal.jsonl"),
		"list-of-pods.json\x00cluster state":                 "{\n  \"apiVersion\": \"v1\",\n  \"kind\": \"List\",\n  \"items\": [" + pod + "]\n}\n",
		"pod.yaml\x00cluster state":                          "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  namespace: b\n  uid: c\nspec:\n  nodeName: worker-1\n",
		"kubeconfig\x00a kubeconfig":                         "apiVersion: v1\nclusters:\n- name: a\n  cluster: {server: https://10.0.0.1:6443}\ncontexts: []\ncurrent-context: \"\"\nkind: Config\nusers: []\n",
		"kube-apiserver.txt\x00the API server's own log":     "I1121 06:03:57.603813       1 node_authorizer.go:235] \"NODE DENY\" err=\"node 'worker-2' cannot get unknown secret batch/secret-10\"\n",
		"kube-apiserver.json\x00the API server's own log":    `{"ts":1795241037603.8,"caller":"node/node_authorizer.go:235","msg":"NODE DENY","v":2,"err":"node 'worker-2' cannot get unknown secret batch/secret-10"}` + "\n",
		"report.json\x00a report of nodetrail":               report.String(),
		"verdicts.jsonl\x00what --verdicts wrote":            verdicts.String(),
		"waivers.yaml\x00a file of waivers":                  "waivers:\n- check: version-known\n  owner: me\n  reason: because\n  expires: 2099-01-01\n",
		"exceptions.yaml\x00a file of exceptions":            "exceptions:\n- rule: node-identity\n  owner: me\n  reason: because\n  expires: 2099-01-01\n",
		"rules.yaml\x00a file of rules":                      "rules:\n- name: r\n  severity: low\n  message: m\n  match: 'true'\ntests:\n- {name: t, rule: r, finds: true}\n",
		"nodetrail.yaml\x00a configuration of nodetrail run": "sources:\n  files:\n  - paths: [audit.log]\n",
		"etcd.db\x00an etcd snapshot":                        strings.Repeat("\x00", 16) + "\xed\xda\x0c\xed" + strings.Repeat("\x00", 5000),
		"nodetrail.db\x00a SQLite database":                  "SQLite format 3\x00" + strings.Repeat("\x00", 5000),
		"logs.tar\x00an archive":                             archive.String(),
		"logs.tar.gz\x00an archive":                          packed.String(),
		"logs.zip\x00an archive":                             "PK\x03\x04" + strings.Repeat("\x00", 100),
		"login.log\x00a web page":                            "<!DOCTYPE html>\n<html><title>Sign in</title></html>\n",
		"powershell.log\x00text in UTF-16":                   utf16,
		"tls.crt\x00a certificate or key":                    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
		"nothing\x00empty":                                   "",
	}
}

// A file that is given in the wrong place is named, with what it is and what to do, in one sentence: every kind of file in every place.
func TestMisplaced(t *testing.T) {
	dir := t.TempDir()
	writeDay(t, dir)
	good := filepath.Join(dir, "audit.log")
	slots := map[string]struct {
		right []string // what may be given there
		args  []string // with FILE in place of the file
		stdin bool
	}{
		"log":           {[]string{"an audit log"}, []string{"analyze", "FILE"}, false},
		"log and state": {[]string{"an audit log"}, []string{"reach", "--node", "worker-1", "--state", filepath.Join(dir, "journal.jsonl"), "FILE"}, false},
		"second log":    {[]string{"an audit log", "empty"}, []string{"analyze", good, "FILE"}, false},
		"log of stdin":  {[]string{"an audit log"}, []string{"analyze", "-"}, true},
		"audit-log":     {[]string{"an audit log"}, []string{"explain", "--node", "worker-1", "--audit-log", "FILE", "get", "node", "worker-1"}, false},
		"state":         {[]string{"cluster state", "an etcd snapshot", "a SQLite database"}, []string{"analyze", "--state", "FILE", good}, false},
		"audit-policy":  {[]string{"an audit policy"}, []string{"analyze", "--audit-policy", "FILE", good}, false},
		"policy check":  {[]string{"an audit policy"}, []string{"policy", "check", "FILE"}, false},
		"apiserver-log": {[]string{"the API server's own log"}, []string{"analyze", "--apiserver-log", "FILE", good}, false},
		"waive":         {[]string{"a file of waivers", "empty"}, []string{"analyze", "--waive", "FILE", good}, false},
		"exceptions":    {[]string{"a file of exceptions", "empty"}, []string{"analyze", "--exceptions", "FILE", good}, false},
		"rules":         {[]string{"a file of rules"}, []string{"analyze", "--rules", "FILE", good}, false},
		"rules test":    {[]string{"a file of rules"}, []string{"rules", "test", "FILE"}, false},
		"baseline":      {[]string{"a report of nodetrail"}, []string{"analyze", "--baseline", "FILE", good}, false},
	}
	for sample, text := range samples(t, dir) {
		name, what, _ := strings.Cut(sample, "\x00")
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for slot, s := range slots {
			if strings.Contains(strings.Join(s.right, "\n"), what) {
				continue
			}
			args := make([]string, len(s.args))
			for i, a := range s.args {
				args[i] = strings.Replace(a, "FILE", path, 1)
			}
			var out, stderr bytes.Buffer
			status := run(t.Context(), args, strings.NewReader(text), &out, &stderr)
			said, _, _ := strings.Cut(stderr.String(), "See 'nodetrail")
			named := path
			if s.stdin {
				named = "<stdin>"
			}
			if status != 1 || out.Len() > 0 || strings.Count(said, "\n") != 1 || !strings.Contains(said, named) || !strings.Contains(said, what) || !strings.Contains(said, ": ") {
				t.Errorf("%s as %s: status %d, %q", name, slot, status, said)
			}
		}
	}
}

// What is in its place is not refused.
func TestInPlace(t *testing.T) {
	dir := t.TempDir()
	writeDay(t, dir)
	all := map[string]string{}
	for sample, text := range samples(t, dir) {
		name, _, _ := strings.Cut(sample, "\x00")
		all[name] = filepath.Join(dir, name)
		if err := os.WriteFile(all[name], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	good := filepath.Join(dir, "audit.log")
	for _, args := range [][]string{
		{"analyze", all["log.json"]}, {"analyze", all["list.json"]}, {"analyze", "--state", all["journal.jsonl"], good}, {"analyze", "--state", all["list-of-pods.json"], good},
		{"analyze", "--state", all["pod.yaml"], good}, {"analyze", "--audit-policy", all["policy.yaml"], good}, {"analyze", "--audit-policy", all["policy.json"], good},
		{"analyze", "--audit-policy", all["comment.yaml"], good}, {"analyze", "--apiserver-log", all["kube-apiserver.txt"], good}, {"analyze", "--apiserver-log", all["kube-apiserver.json"], good},
		{"analyze", "--waive", all["waivers.yaml"], good}, {"analyze", "--exceptions", all["exceptions.yaml"], good}, {"analyze", "--baseline", all["report.json"], good},
		{"analyze", "--rules", all["rules.yaml"], good}, {"rules", "test", all["rules.yaml"]},
		{"analyze", filepath.Join(dir, "*.log")}, // a web page and others are next to logs
	} {
		var out, stderr bytes.Buffer
		if status := run(t.Context(), args, nil, &out, &stderr); status != 0 {
			t.Errorf("%s: status %d, %s", args, status, stderr.String())
		}
	}
}

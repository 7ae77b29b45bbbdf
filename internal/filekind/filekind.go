// Package filekind tells from the first bytes of a file what it is, for the message to somebody who gave it in the wrong place. It imports
// internal/jscan alone. Its functions are safe for concurrent use.
package filekind

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"github.com/nodetrail/nodetrail/internal/jscan"
)

// Kind is what a file is.
type Kind uint8

// The kinds that Of knows.
const (
	Unknown Kind = iota
	Empty
	AuditLog
	AuditPolicy
	State
	ApiserverLog
	Kubeconfig
	Report
	Verdicts
	Findings
	OwnLog
	Waivers
	Exceptions
	OwnRules
	Configuration
	EtcdSnapshot
	Store
	Archive
	WebPage
	UTF16
	PEM
	Binary
	numKinds
)

// HeadBytes is how many of a file's first bytes Of looks at.
const HeadBytes = 64 << 10

// String says what a file of the kind is, such as "an audit policy"; "" for Unknown.
func (k Kind) String() string { return k.words().what }

// words are what is said of a kind: what it is, and what to do with it.
type words struct{ what, remedy string }

func (k Kind) words() words {
	switch k {
	case Empty:
		return words{"empty", "give a file that has something in it"}
	case AuditLog:
		return words{"an audit log", "analyze takes it as AUDIT_LOG, explain by --audit-log"}
	case AuditPolicy:
		return words{"an audit policy", "give it to nodetrail analyze by --audit-policy, or to nodetrail policy check"}
	case State:
		return words{"cluster state", "give it by --state"}
	case ApiserverLog:
		return words{"the API server's own log", "give it by --apiserver-log"}
	case Kubeconfig:
		return words{"a kubeconfig", "give it to nodetrail record by --kubeconfig"}
	case Report:
		return words{"a report of nodetrail", "give it by --baseline"}
	case Verdicts:
		return words{"what --verdicts wrote", "give the audit log that it was made of"}
	case Findings:
		return words{"findings that nodetrail run wrote", "give the audit log that they were found in"}
	case OwnLog:
		return words{"the log of nodetrail or of another program", "give the audit log of the API server"}
	case Waivers:
		return words{"a file of waivers", "give it by --waive"}
	case Exceptions:
		return words{"a file of exceptions", "give it by --exceptions"}
	case OwnRules:
		return words{"a file of rules", "give it by --rules"}
	case Configuration:
		return words{"a configuration of nodetrail run", "give it to nodetrail run by --config"}
	case EtcdSnapshot:
		return words{"an etcd snapshot", "give it by --state"}
	case Store:
		return words{"a SQLite database", "if nodetrail run made it, ask nodetrail report --data"}
	case Archive:
		return words{"an archive", "unpack it and give the files in it"}
	case WebPage:
		return words{"a web page", "download the file itself; the page may ask you to log in"}
	case UTF16:
		return words{"text in UTF-16, as PowerShell writes it", "convert it (iconv -f UTF-16 -t UTF-8)"}
	case PEM:
		return words{"a certificate or key", "give no credentials here"}
	case Binary:
		return words{"binary data", "give a file of text, plain or compressed by gzip or zstd"}
	}
	return words{}
}

// Misplaced says why a file of kind k is not what was wanted and where it belongs, as one clause; "" if k is unknown or was wanted.
func (k Kind) Misplaced(wanted Kind) string {
	w := k.words()
	switch {
	case k == wanted, w.what == "", wanted == State && (k == EtcdSnapshot || k == Store):
		return ""
	case k == Empty:
		return "the file is empty"
	case wanted.words().what == "":
		return w.what + ": " + w.remedy
	}
	return w.what + ", not " + wanted.words().what + ": " + w.remedy
}

// Of returns the kind of a file by its first bytes, which are decompressed. whole is whether they are all that it holds.
func Of(head []byte, whole bool) Kind {
	head = head[:min(len(head), HeadBytes)]
	if k := byMagic(head); k != Unknown {
		return k
	}
	text := bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), "\x00 \t\r\n")
	switch {
	case len(head) == 0 && whole:
		return Empty
	case len(text) == 0:
		return Unknown
	case text[0] == '{' || text[0] == '[':
		return byMembers(membersOf(text))
	case hasFold(text, "<!doctype html"), hasFold(text, "<html"):
		return WebPage
	case bytes.HasPrefix(text, []byte("-----BEGIN ")):
		return PEM
	case klogLine.Match(text):
		return ApiserverLog
	}
	return byMembers(yamlMembers(text))
}

var klogLine = regexp.MustCompile(`^[IWEF][0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]+ `)

func hasFold(text []byte, prefix string) bool {
	return len(text) >= len(prefix) && strings.EqualFold(string(text[:len(prefix)]), prefix)
}

// byMagic knows a file by its first bytes.
func byMagic(head []byte) Kind {
	const tarMagic, boltMagic = 257, 16
	has := func(at int, magic string) bool {
		return len(head) >= at+len(magic) && string(head[at:at+len(magic)]) == magic
	}
	switch {
	case has(tarMagic, "ustar"), has(0, "PK\x03\x04"), has(0, "7z\xbc\xaf\x27\x1c"), has(0, "\xfd7zXZ\x00"), has(0, "BZh"), has(0, "\x04\x22\x4d\x18"):
		return Archive
	case has(0, "SQLite format 3\x00"):
		return Store
	case has(boltMagic, "\xed\xda\x0c\xed"):
		return EtcdSnapshot
	case has(0, "\xff\xfe"), has(0, "\xfe\xff"):
		return UTF16
	case has(0, "\x7fELF"), has(0, "%PDF-"), has(0, "\x89PNG"):
		return Binary
	}
	return Unknown
}

// members are the keys of an object, with their values where those are short strings.
type members map[string]string

func (m members) has(keys ...string) bool {
	for _, k := range keys {
		if _, ok := m[k]; !ok {
			return false
		}
	}
	return true
}

// byMembers knows an object by its keys.
func byMembers(m members) Kind {
	version := m["apiVersion"]
	switch audit := strings.HasPrefix(version, "audit.k8s.io/"); {
	case m.has("auditID", "verdict") && !m.has("stage"):
		return Verdicts
	case m.has("rule", "severity", "node") && !m.has("stage"):
		return Findings
	case audit && m["kind"] == "Policy":
		return AuditPolicy
	case audit && slices.Contains([]string{"", "Event", "EventList"}, m["kind"]), m.has("auditID"):
		return AuditLog
	case audit: // a kind that is spelled wrong
		return Unknown
	case m["kind"] == "Config" && (m.has("clusters") || m.has("contexts") || m.has("users") || m.has("current-context")):
		return Kubeconfig
	case m.has("type", "object"):
		switch m["type"] {
		case "ADDED", "MODIFIED", "DELETED", "BOOKMARK":
			return State
		}
	case m.has("kind", "apiVersion"):
		return State
	case m.has("cluster", "window", "events"):
		return Report
	case m.has("ts", "caller", "msg"):
		return ApiserverLog
	case m.has("level", "message") && (m.has("time") || m.has("ts")):
		return OwnLog
	case m.has("sources") && !m.has("kind"):
		return Configuration
	case m.has("waivers"):
		return Waivers
	case m.has("exceptions"):
		return Exceptions
	case m.has("rules") && (len(m) == 1 || len(m) == 2 && m.has("tests")):
		return OwnRules
	}
	return Unknown
}

// mostMembers bounds what is kept of an object.
const mostMembers = 64

// membersOf reads the members of a JSON object, or of the first of an array, as far as they are in text.
func membersOf(text []byte) members {
	var s jscan.Scanner
	s.Reset(text)
	if s.Peek() == jscan.Array {
		if s.Array(); !s.More() {
			return nil
		}
	}
	if s.Peek() != jscan.Object {
		return nil
	}
	m := members{}
	var key string
	s.Object()
	for range mostMembers {
		if !s.Key(&key) {
			break
		}
		k := strings.Clone(key)
		m[k] = ""
		if s.Peek() == jscan.String {
			if v := s.String(); s.Err() == nil && len(v) < 100 {
				m[k] = strings.Clone(v)
			}
			continue
		}
		s.Skip()
	}
	return m
}

// yamlMembers reads the keys at the beginning of lines.
func yamlMembers(text []byte) members {
	m := members{}
	for line := range bytes.Lines(text) {
		key, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || len(key) == 0 || len(key) > 60 || !yamlKey.Match(key) {
			continue
		}
		if len(value) < 100 {
			m[string(key)] = strings.Trim(string(bytes.TrimSpace(value)), `"'`)
		} else {
			m[string(key)] = ""
		}
		if len(m) == mostMembers {
			break
		}
	}
	return m
}

var yamlKey = regexp.MustCompile(`^["']?[A-Za-z][A-Za-z-]*["']?$`)

package jsonbench

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/bytedance/sonic"
	"github.com/tidwall/gjson"
	"github.com/valyala/fastjson"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	kjson "sigs.k8s.io/json"

	"github.com/nodetrail/nodetrail/audit"
)

// nodeEvents returns about 4 MB of real events that are nodes' and have no bodies.
func nodeEvents(b *testing.B) [][]byte {
	b.Helper()
	log, err := os.ReadFile("../testdata/capture.log")
	if err != nil {
		b.Fatal(err)
	}
	var lines [][]byte
	for _, line := range bytes.Split(bytes.TrimSpace(log), []byte("\n")) {
		if bytes.Contains(line, []byte(`"level":"Metadata"`)) && bytes.Contains(line, []byte(`"username":"system:node:`)) {
			lines = append(lines, line)
		}
	}
	for size := 0; size < 4<<20; {
		for _, line := range lines[:len(lines):len(lines)] {
			lines = append(lines, bytes.Clone(line))
			size += len(line)
		}
	}
	return lines
}

// used has the fields that nodetrail uses.
type used struct {
	Kind                     string            `json:"kind"`
	APIVersion               string            `json:"apiVersion"`
	Level                    string            `json:"level"`
	AuditID                  string            `json:"auditID"`
	Stage                    string            `json:"stage"`
	RequestURI               string            `json:"requestURI"`
	Verb                     string            `json:"verb"`
	User                     usedUser          `json:"user"`
	ImpersonatedUser         *usedUser         `json:"impersonatedUser"`
	SourceIPs                []string          `json:"sourceIPs"`
	UserAgent                string            `json:"userAgent"`
	ObjectRef                *usedRef          `json:"objectRef"`
	ResponseStatus           *usedStatus       `json:"responseStatus"`
	RequestObject            json.RawMessage   `json:"requestObject"`
	ResponseObject           json.RawMessage   `json:"responseObject"`
	RequestReceivedTimestamp time.Time         `json:"requestReceivedTimestamp"`
	StageTimestamp           time.Time         `json:"stageTimestamp"`
	Annotations              map[string]string `json:"annotations"`
}

type usedUser struct {
	Username string              `json:"username"`
	UID      string              `json:"uid"`
	Groups   []string            `json:"groups"`
	Extra    map[string][]string `json:"extra"`
}

type usedRef struct {
	Resource    string `json:"resource"`
	Namespace   string `json:"namespace"`
	Name        string `json:"name"`
	UID         string `json:"uid"`
	APIGroup    string `json:"apiGroup"`
	APIVersion  string `json:"apiVersion"`
	Subresource string `json:"subresource"`
}

type usedStatus struct {
	Code    int32  `json:"code"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// paths are the scalar fields, for the libraries that find fields in a document rather than fill a struct.
var paths = [][]string{
	{"kind"}, {"apiVersion"}, {"level"}, {"auditID"}, {"stage"}, {"requestURI"}, {"verb"}, {"user", "username"}, {"user", "uid"},
	{"userAgent"}, {"objectRef", "resource"}, {"objectRef", "namespace"}, {"objectRef", "name"}, {"objectRef", "uid"},
	{"objectRef", "apiGroup"}, {"objectRef", "apiVersion"}, {"objectRef", "subresource"}, {"responseStatus", "reason"},
	{"requestReceivedTimestamp"}, {"stageTimestamp"}, {"annotations", "authorization.k8s.io/decision"}, {"annotations", "authorization.k8s.io/reason"},
}

// top are the fields in which gjson then looks for the rest.
var top = []string{
	"kind", "apiVersion", "level", "auditID", "stage", "requestURI", "verb", "user", "impersonatedUser", "sourceIPs", "userAgent",
	"objectRef", "responseStatus", "requestObject", "responseObject", "requestReceivedTimestamp", "stageTimestamp", "annotations",
}

func run(b *testing.B, decode func(line []byte) error) {
	lines := nodeEvents(b)
	size := 0
	for _, line := range lines {
		size += len(line)
	}
	b.SetBytes(int64(size / len(lines)))
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if err := decode(lines[i]); err != nil {
			b.Fatal(err)
		}
		if i++; i == len(lines) {
			i = 0
		}
	}
}

func BenchmarkNodetrail(b *testing.B) {
	var d audit.Decoder
	n := 0
	emit := func(ev *audit.Event) { n += len(ev.Verb) }
	malformed := func(m audit.Malformed) { b.Error(m) }
	run(b, func(line []byte) error {
		d.Chunk(line, 1, emit, malformed)
		return nil
	})
}

func BenchmarkEncodingJSONKubernetesTypes(b *testing.B) {
	run(b, func(line []byte) error {
		var ev auditv1.Event
		return json.Unmarshal(line, &ev)
	})
}

func BenchmarkSigsJSONKubernetesTypes(b *testing.B) {
	run(b, func(line []byte) error {
		var ev auditv1.Event
		return kjson.UnmarshalCaseSensitivePreserveInts(line, &ev)
	})
}

func BenchmarkEncodingJSONUsedFields(b *testing.B) {
	run(b, func(line []byte) error {
		var ev used
		return json.Unmarshal(line, &ev)
	})
}

func BenchmarkSonicUsedFields(b *testing.B) {
	run(b, func(line []byte) error {
		var ev used
		return sonic.ConfigStd.Unmarshal(line, &ev)
	})
}

func BenchmarkFastjson(b *testing.B) {
	var p fastjson.Parser
	n := 0
	run(b, func(line []byte) error {
		v, err := p.ParseBytes(line)
		if err != nil {
			return err
		}
		for _, path := range paths {
			n += len(v.GetStringBytes(path...))
		}
		n += len(v.GetArray("user", "groups")) + len(v.GetArray("sourceIPs")) + v.GetInt("responseStatus", "code")
		return nil
	})
}

func BenchmarkGjsonValidated(b *testing.B) {
	n := 0
	run(b, func(line []byte) error {
		if !gjson.ValidBytes(line) {
			b.Fatal("not valid")
		}
		for _, r := range gjson.GetManyBytes(line, top...) {
			n += len(r.Raw)
		}
		return nil
	})
}

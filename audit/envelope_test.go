package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nodetrail/nodetrail/internal/nodeid"
	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/internal/test/golden"
)

func bareEvents(tb testing.TB) []string {
	tb.Helper()
	log, err := os.ReadFile("testdata/envelopes/bare.log")
	if err != nil {
		tb.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(log)), "\n")
}

// result is what came out of a message.
type result struct {
	Events    []Event
	Malformed []string
	Counts    Counts
}

// message decodes a message and checks what must hold of any.
func message(t *testing.T, value []byte, decode func(value []byte, emit func(*Event), malformed func(Malformed)) Counts) result {
	t.Helper()
	before := bytes.Clone(value)
	var res result
	var clones []*Event
	res.Counts = decode(value, func(ev *Event) {
		res.Events = append(res.Events, *ev)
		clones = append(clones, ev.Clone())
	}, func(m Malformed) {
		if m.Offset < 0 || m.Offset > len(value) || m.Line < 1 || len(m.Cause) > 400 {
			t.Errorf("%+v", m)
		}
		res.Malformed = append(res.Malformed, m.Cause)
	})
	if !bytes.Equal(before, value) {
		t.Fatal("the value was changed")
	}
	var sum int64
	for _, n := range res.Counts.Envelopes {
		sum += n
	}
	if sum != res.Counts.Read || int64(len(res.Events)) != res.Counts.Read-res.Counts.Skipped || int64(len(res.Malformed)) != res.Counts.Malformed {
		t.Fatalf("%d events and %d malformed, but %+v", len(res.Events), len(res.Malformed), res.Counts)
	}
	for i := range clones {
		if !reflect.DeepEqual(*clones[i], res.Events[i]) {
			t.Fatalf("event %d was written over (-when emitted +later):\n%s", i, cmp.Diff(*clones[i], res.Events[i]))
		}
		res.Events[i].Line = 0
	}
	return res
}

// sameJSON compares bodies by their meaning.
var sameJSON = cmp.FilterValues(func(a, b []byte) bool { return len(a) > 0 && len(b) > 0 }, cmp.Comparer(func(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}))

// lost is what an envelope makes of an event that it does not hold all of.
func lost(envelope Envelope, ev *Event) {
	switch {
	case envelope == EnvelopeElastic:
		ev.RequestObject, ev.ResponseObject = nil, nil
	case envelope == EnvelopeGKE:
		ev.Derived = true
		ev.RequestURI, ev.StatusReason, ev.User.UID, ev.User.CredentialID, ev.User.Groups = "", "", "", "", nil
		ev.ObjectRef.UID = ""
		ev.StageTime = ev.RequestReceived
		ev.SourceIPs = []string{"127.0.0.1"}
		ev.Code, ev.StatusMessage = 200, ""
		if ev.Decision == "forbid" {
			ev.Code, ev.StatusMessage = 403, "PERMISSION_DENIED"
		}
		if strings.HasPrefix(ev.User.Username, nodeid.UserPrefix) {
			ev.User.Groups = []string{"system:nodes", "system:authenticated"}
		}
		if ev.RequestObject == nil && ev.ResponseObject == nil {
			ev.Level = LevelMetadata
		}
	}
}

// TestEnvelopes decodes the fixture of each shipper, by message and by line, and compares it to the bare events.
func TestEnvelopes(t *testing.T) {
	events := bareEvents(t)
	d := Decoder{Want: Want{State: true}}
	bare := message(t, []byte(strings.Join(events, "\n")), d.Message)
	if bare.Counts.Read != int64(len(events)) || bare.Counts.Envelopes[EnvelopeNone] != bare.Counts.Read || len(bare.Events) < 7 {
		t.Fatalf("%+v", bare.Counts)
	}
	for _, shipper := range shippers {
		t.Run(shipper.file, func(t *testing.T) {
			made := append(bytes.Join(shipper.wrap(events), []byte("\n")), '\n')
			name := filepath.Join("testdata", "envelopes", shipper.file)
			if golden.Writing() {
				if err := os.WriteFile(name, made, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			log, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			// What compresses differs between versions of Go in its bytes.
			if !bytes.Equal(log, made) && !bytes.Contains(log, []byte("H4sI")) {
				t.Errorf("%s is stale: UPDATE_GOLDEN=1 go test ./audit -run TestEnvelopes", name)
			}
			want := result{Counts: Counts{Read: bare.Counts.Read}}
			want.Counts.Envelopes[shipper.envelope] = want.Counts.Read
			for _, ev := range bare.Events {
				lost(shipper.envelope, &ev)
				if Needed(&ev, d.Want) {
					want.Events = append(want.Events, ev)
				}
			}
			want.Counts.Skipped = want.Counts.Read - int64(len(want.Events))

			whole := message(t, log, d.Message)
			chunk := message(t, log, func(value []byte, emit func(*Event), malformed func(Malformed)) Counts {
				return d.Chunk(value, 1, emit, malformed)
			})
			var single result
			for line := range bytes.SplitSeq(bytes.TrimSpace(log), []byte("\n")) {
				one := message(t, line, d.Message)
				single.Events, single.Malformed = append(single.Events, one.Events...), append(single.Malformed, one.Malformed...)
				single.Counts.Add(one.Counts)
			}
			for _, got := range []result{whole, chunk, single} {
				if diff := cmp.Diff(want, got, sameJSON, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("(-bare +wrapped):\n%s", diff)
				}
			}
		})
	}
}

// TestForeignAndDamaged holds what is no event: it is counted apart or reported, and nothing behind it is lost.
func TestForeignAndDamaged(t *testing.T) {
	ev := node("a")
	str := func(text string) string { return string(asJSON(text, false)) }
	f := func(name, text string, foreign, read int64, malformed ...string) {
		t.Helper()
		var d Decoder
		got := message(t, []byte(text), d.Message)
		if diff := cmp.Diff(malformed, got.Malformed, cmpopts.EquateEmpty()); diff != "" || got.Counts.Foreign != foreign || got.Counts.Read != read {
			t.Errorf("%s: %+v (-want +got):\n%s", name, got.Counts, diff)
		}
	}
	f("control message", `{"messageType":"CONTROL_MESSAGE","owner":"CloudwatchLogs","logGroup":"","logStream":"","subscriptionFilters":[],"logEvents":[{"id":"","timestamp":1,"message":"CWL CONTROL MESSAGE: Checking health of destination Kinesis stream."}]}`, 1, 0)
	f("another stream of EKS", `{"messageType":"DATA_MESSAGE","logGroup":"/aws/eks/c/cluster","logStream":"kube-scheduler-1","logEvents":[{"id":"1","timestamp":1,"message":"I0101 x"},{"id":"2","timestamp":1,"message":"y"}]}`, 2, 0)
	f("another stream, filtered", `{"events":[{"logStreamName":"authenticator-1","message":"time=\"2026\" {","eventId":"1"},{"logStreamName":"kube-apiserver-audit-1","message":`+str(ev)+`,"eventId":"2"}]}`, 1, 1)
	f("cut off", `{"events":[{"logStreamName":"kube-apiserver-audit-1","message":`+str(ev[:50]+"[Truncated...]")+`,"eventId":"2"},{"logStreamName":"kube-apiserver-audit-1","message":`+str(ev)+`,"eventId":"3"}]}`, 0, 1,
		"in cloudwatch: event was cut off by CloudWatch Logs")
	f("another category", string(asJSON(object{"records": []any{diagnosticRecord("kube-apiserver", "I1121 06:03:57 x.go:1] {"), diagnosticRecord("cluster-autoscaler", "I1121 klog"), diagnosticRecord("kube-audit", ev)}}, true)), 2, 1)
	f("klog without a category", `{"operationName":"Read","properties":{"log":"I1121 klog"}}`, 1, 0)
	for _, log := range []string{`{}`, `{"log":null}`, `{"log":7}`, `{"log":[` + ev + `]}`, `{"log":""}`, `{"log":"I1121 klog"}`, `{"log":` + str("\f"+ev) + `}`, `{"log":` + str("x"+ev) + `}`} {
		f("no event in a record of the audit log", `{"category":"kube-audit-admin","properties":`+log+`}`, 0, 0, "in aks: record of the audit log holds no JSON in properties.log")
	}
	f("names with escapes", strings.ReplaceAll(string(subscription([]string{ev})), "kube-apiserver-audit", `kube-apiserver-\u0061udit`)+"\n"+
		strings.Replace(string(asJSON(diagnosticRecord("kube-audit", ev), true)), "kube-audit", `kube\u002daudit`, 1)+"\n"+
		`{"messageType":"DATA_MESSAGE","logGroup":"/aws\/eks/c/cluster","logStream":"kube-scheduler\u002d1","logEvents":[{"id":"1","timestamp":1,"message":"I0101 x"}]}`, 1, 2)
	f("a category in other case", string(asJSON(diagnosticRecord("Kube-Audit-Admin", ev), true)), 0, 1)
	f("body too big", string(asJSON(diagnosticRecord("kube-audit", strings.TrimSuffix(ev, "}")+`,"requestObject":"skipped-too-big-size-object"}`), true)), 0, 1)
	f("another service of Google", `{"insertId":"1","protoPayload":{"serviceName":"container.googleapis.com","methodName":"google.container.v1.ClusterManager.GetCluster"}}`, 1, 0)
	f("host's audit by OpenShift", `{"log_type":"audit","log_source":"auditd","message":"type=USER_LOGIN msg=audit(1:2): pid=1","audit.linux":{"type":"USER_LOGIN"}}`, 1, 0)
	f("klog in Fluent Bit", `{"@timestamp":1.5,"log":"I1121 06:03:57 x.go:1] text"}`, 0, 0, `record of a shipper holds no JSON but "I1121 06:03:57 x.go:1] text"`)
	f("torn in Fluent Bit", `{"log":`+str(ev[:60])+`}`+"\n"+`{"log":`+str(ev)+`}`, 0, 1, "in fluent-bit: unexpected end")
	f("wrong type in Vector", `{"source_type":"file","message":"{\"verb\":1}"}`, 0, 0, "in vector: value is not a string")
	f("an item of another kind", `{"records":[1,{"category":"kube-audit","properties":{"log":`+str(ev)+`}},"text",null]}`, 0, 1, "value is not an object", "value is not an object", "value is not an object")
	f("part of a line", "2026-11-21T06:03:57.6Z stdout P "+ev[:50], 0, 0, "in container-log: line was split by the container runtime")
	f("invalid base64", `{"message":{"data":"eyJhIjoxfQ=!","messageId":"1"}}`, 0, 0, "in pubsub: invalid base64")
	f("wrong types in GKE", `{"protoPayload":{"serviceName":"k8s.io","methodName":1}}`, 0, 0, "in gke: value is not a string")
	f("wrong types in AKSAudit", `{"AuditId":"1","Verb":"get","User":"{\"username\":}"}`, 0, 0, "in aks-audit-table: string holds no object")
	f("wrong types in Elastic", `{"kubernetes":{"audit":{"auditID":"1","verb":{}}}}`, 0, 0, "in elastic: value is not a string")
	f("pods of Kubernetes in Filebeat", `{"kubernetes":{"pod":{"name":"audit"},"labels":{"audit":"1"}},"agent":{},"message":`+str(ev)+`}`, 0, 1)
	packed := gz([]byte(strings.Repeat(ev+"\n", 3)))
	f("gzip, cut", string(packed[:len(packed)-8]), 0, 3, "compressed data is damaged or cut off")
	f("gzip, noise", "\x1f\x8b\x08noise", 0, 0, "compressed data is damaged or cut off")
	f("zstd, noise", "\x28\xb5\x2f\xfdnoise that is longer", 0, 0, "compressed data is damaged or cut off")
	f("several lists in an array", `[{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":[`+ev+`]},`+ev+`]`, 0, 2)
	f("strings in an array", `[`+str(ev)+`,`+str(ev)+`]`, 0, 2)
	f("nothing", "", 0, 0)
	f("spread over lines", "{\n\"log\":\n"+str(ev)+"}\n", 0, 1)
	f("Filebeat's default key for JSON", `{"@timestamp":"t","json":`+ev+`,"agent":{}}`, 0, 1)
	f("OpenTelemetry", `{"resourceLogs":[{"resource":{},"scopeLogs":[{"scope":{},"logRecords":[{"timeUnixNano":"1","body":{"stringValue":`+str(ev)+`}}]}]}]}`, 0, 1)
	f("SNS", `{"Type":"Notification","MessageId":"1","Message":`+str(ev)+`}`, 0, 1)
	f("Firehose", `{"requestId":"1","timestamp":1,"records":[{"data":"`+b64(gz(subscription([]string{ev})))+`"}]}`, 0, 1)
	f("klog with a word of an attacker", `E1121 06:03:57.603813       1 x.go:1] bad `+other, 0, 0, `not a JSON object but "E1121 06:03:57.603813       1 x.go:1] ba"…`)
	f("Logs Insights with a limit", string(insights([]string{ev}, "Complete", 5120)), 0, 1, "in cloudwatch: the query answers with 1 of 5120 records: raise its limit, or ask for shorter times")
	f("Logs Insights, running", string(insights([]string{ev}, "Running", 1)), 0, 1, `in cloudwatch: the query is not complete but "Running": get its results again`)
	f("Logs Insights, cut off", string(insights([]string{ev[:50] + "[Truncated...]", ev}, "Complete", 2)), 0, 1, "in cloudwatch: event was cut off by CloudWatch Logs")
	f("Logs Insights without the message", `{"results":[[{"field":"@timestamp","value":"2026"},{"field":"verb","value":"get"}],7],"status":"Complete"}`, 0, 0,
		"in cloudwatch: row has no @message: query fields @timestamp, @message", "in cloudwatch: row is not an array of fields")
	f("Logs Insights with another stream", `{"results":[[{"field":"@logStream","value":"kube-scheduler-1"},{"field":"@message","value":"I0101 {"}],[{"field":"@logStream","value":"kube-apiserver-audit-1"},{"field":"@message","value":`+str(ev)+`}]]}`, 1, 1)
	f("Logs Insights without rows", string(insights(nil, "Complete", 0)), 0, 0)
	raw := func(ev string) any { return json.RawMessage(ev) }
	f("a search with more hits", string(search([]string{ev}, raw, 412)), 0, 1, "the search answers with 1 of 412 hits: get the others too, by a larger size, search_after or scroll")
	f("a page of a scroll", strings.Replace(string(search([]string{ev}, raw, 412)), "{", `{"_scroll_id":"DXF1ZXJ5",`, 1), 0, 1)
	f("a search with hits before Elasticsearch 7", `{"hits":{"total":2,"hits":[{"_source":`+ev+`}]}}`, 0, 1, "the search answers with 1 of 2 hits: get the others too, by a larger size, search_after or scroll")
	atLeast := strings.Replace(string(search([]string{ev}, raw, 1)), `"relation":"eq"`, `"relation":"gte"`, 1)
	f("a search with perhaps more hits", atLeast, 0, 1, "the search answers with 1 of 1 or more hits: get the others too, by search_after or scroll, or search with track_total_hits")
	f("a page of a point in time", strings.Replace(atLeast, "{", `{"pit_id":"46ToAwMD",`, 1), 0, 1)
	filtered := `{"events":[{"logStreamName":"kube-apiserver-audit-1","message":` + str(ev) + `,"eventId":"2"}],`
	for _, key := range []string{"nextToken", "NextToken"} {
		f("FilterLogEvents with more to come", filtered+`"`+key+`":"Bxkq6kVG"}`, 0, 1, "in cloudwatch: the answer has a nextToken, so more events follow: get all of them in one answer, as the AWS CLI does without --max-items")
	}
	f("the last page of FilterLogEvents", filtered+`"searchedLogStreams":[],"nextToken":null}`, 0, 1)
	f("GetLogEvents", strings.Replace(filtered, `"logStreamName":"kube-apiserver-audit-1"`, `"timestamp":1`, 1)+`"nextForwardToken":"f/1","nextBackwardToken":"b/1"}`, 0, 1)
	f("a search that timed out", strings.Replace(string(search([]string{ev}, raw, 1)), `"timed_out":false`, `"timed_out":true`, 1), 0, 1, "the search timed out, and hits are missing: search again")
	f("a search that failed in part", strings.Replace(string(search([]string{ev}, raw, 1)), `"failed":0`, `"failed":2`, 1), 0, 1, "the search failed on 2 shards, and hits are missing: search again")
	f("a hit of another index", string(search([]string{`{"message":"GET / 200"}`, ev}, raw, 2)), 0, 1, `record of a shipper holds no JSON but "GET / 200"`)
	f("a metric of Loki", `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1795241037,"7"]]}]}}`, 0, 0,
		"in loki: result is not a stream of lines: query the lines themselves, without a metric")
	f("lines of Loki that are none", `{"streams":[{"stream":{},"values":[["1"],2,["3","text"],["4",`+str(ev)+`]]},null]}`, 0, 1,
		"in loki: entry has no line", "in loki: entry has no line", `in loki: not a JSON object but "text"`, "in loki: result is not a stream of lines: query the lines themselves, without a metric")
	f("logcli with a brace that does not belong", `2026-11-21T06:03:57Z {a="b} `+ev, 0, 1, "unexpected 'a' instead of a key in quotes")
	f("numbers", `{"a":1,"log":2,"message":[]}`, 0, 0, "object is not an audit event")
}

// TestNestedEnvelopes puts envelopes around each other at random.
func TestNestedEnvelopes(t *testing.T) {
	events := bareEvents(t)
	r := rand.New(rand.NewPCG(7, 11))
	d := Decoder{Want: Want{State: true}}
	for i := range effort.Of(2000, 300) {
		ev := events[i%len(events)]
		want := message(t, []byte(ev), d.Message)
		wrapped, names := nested(r, []byte(ev), 1+r.IntN(4))
		got := message(t, wrapped, d.Message)
		if diff := cmp.Diff(want.Events, got.Events, cmpopts.EquateEmpty()); diff != "" || got.Counts.Read != 1 || got.Counts.Malformed != 0 {
			t.Fatalf("%v: %+v %v (-bare +wrapped):\n%s\n%.300s", names, got.Counts, got.Malformed, diff, wrapped)
		}
	}
}

// TestHostileEnvelopes holds that work and memory are bounded.
func TestHostileEnvelopes(t *testing.T) {
	var d Decoder
	f := func(name string, value []byte, most int64) {
		t.Helper()
		got := message(t, value, d.Message)
		if len(got.Events) > 0 || got.Counts.Malformed > most {
			t.Errorf("%s: %+v %.300v", name, got.Counts, got.Malformed)
		}
	}
	zeros := make([]byte, 32<<20)
	small := gz(zeros)
	f("bomb", small, 1)
	f("bomb in base64", []byte(`{"awslogs":{"data":"`+b64(small)+`"}}`), 1)
	f("bomb of zstd", zst(zeros), 1)
	f("bomb in a bomb", gz(small), 1)
	var many []any
	bomb := b64(gz(make([]byte, 1<<20)))
	for range 2000 {
		many = append(many, object{"data": bomb})
	}
	f("many bombs", asJSON(object{"records": many}, true), 2000)
	deep := func(open, inside, shut string, n int) []byte {
		return []byte(strings.Repeat(open, n) + inside + strings.Repeat(shut, n))
	}
	f("deep arrays", deep("[", "", "]", 100_000), 2)
	f("deep objects", deep(`{"event":`, node("a"), "}", 9_000), 1)
	f("too deep objects", deep(`{"event":`, node("a"), "}", 100_000), 1)
	f("deep prefixes", deep("host ", "x", "", 100_000), 1)
	f("prefix before prefix", deep("2026-11-21T06:03:57.603813123Z stdout F ", "x", "", 50_000), 1)
	f("objects behind prefixes", deep("h {} ", "", "", 50_000), 2)
	f("huge base64", []byte(`{"data":"eyJh`+strings.Repeat("A", 4<<20)+`"}`), 2)
	f("half an escape", []byte(`{"log":"{\"verb\":\"ge`+"\\"), 1)
	text := []byte(node("a"))
	for range 13 {
		text = asJSON(string(text), true)
	}
	f("quotes in quotes", text, 1)
}

// TestInflationIsBounded holds the bound itself: a message of a KB may not grow to more than a MB and a little.
func TestInflationIsBounded(t *testing.T) {
	var f inflater
	for name, data := range map[string][]byte{"gzip": gz(make([]byte, 8<<20)), "zstd": zst(make([]byte, 8<<20))} {
		for _, bound := range []int{0, 1, 1000, 1 << 20, 8<<20 - 1} {
			out, err := f.all(data, bound)
			if err == nil || len(out) > bound || cap(out) > 2*bound+1024 {
				t.Errorf("%s to %d: %d of %d, %v", name, bound, len(out), cap(out), err)
			}
		}
		if out, err := f.all(data, 8<<20); err != nil || len(out) != 8<<20 {
			t.Errorf("%s: %d, %v", name, len(out), err)
		}
	}
}

func TestEnvelopeNames(t *testing.T) {
	seen := map[string]bool{}
	for e := range NumEnvelopes {
		if seen[e.String()] {
			t.Errorf("%d is another %s", e, e)
		}
		seen[e.String()] = true
	}
}

// TestGKE holds what is made up and what is translated.
func TestGKE(t *testing.T) {
	entry := func(method, resource, more string) string {
		return fmt.Sprintf(`{"insertId":"i","operation":{"id":"o","first":true},"timestamp":"2026-11-21T06:03:57.5Z","protoPayload":{"serviceName":"k8s.io","methodName":%q,"resourceName":%q,"authenticationInfo":{"principalEmail":"system:node:a"}%s}}`, method, resource, more)
	}
	f := func(text, verb string, ref ObjectRef, code int32, name string) {
		t.Helper()
		var d Decoder
		got := message(t, []byte(text), d.Message)
		if len(got.Events) != 1 {
			t.Fatalf("%s: %+v", text, got)
		}
		ev := &got.Events[0]
		var a Attributes
		if ev.Verb != verb || ev.ObjectRef != ref || ev.Code != code || !ev.Derived || ev.AuditID != "o" || ev.Stage != StageResponseStarted || a.Of(ev, true).Name != name {
			t.Errorf("%+v, of %s", ev, a.Of(ev, true).Name)
		}
		if node, ok := nodeid.Of(ev.User.Username, ev.User.Groups); !ok || node != "a" {
			t.Error("no node")
		}
	}
	f(entry("io.k8s.core.v1.pods.status.patch", "core/v1/namespaces/shop/pods/web/status", `,"status":{}`), "patch",
		ObjectRef{Resource: "pods", Namespace: "shop", Name: "web", APIVersion: "v1", Subresource: "status"}, 200, "web")
	f(entry("io.k8s.authorization.rbac.v1.clusterroles.list", "rbac.authorization.k8s.io/v1/clusterroles", `,"status":{"code":7}`), "list",
		ObjectRef{Resource: "clusterroles", APIGroup: "rbac.authorization.k8s.io", APIVersion: "v1"}, 403, "")
	f(entry("io.k8s.coordination.v1.leases.create", "coordination.k8s.io/v1/namespaces/kube-node-lease/leases/a", `,"status":{"code":6}`), "create",
		ObjectRef{Resource: "leases", Namespace: "kube-node-lease", Name: "a", APIGroup: "coordination.k8s.io", APIVersion: "v1"}, 409, "")
	f(entry("io.k8s.core.v1.serviceaccounts.token.create", "core/v1/namespaces/shop/serviceaccounts/sa/token", ``), "create",
		ObjectRef{Resource: "serviceaccounts", Namespace: "shop", Name: "sa", APIVersion: "v1", Subresource: "token"}, 0, "sa")
}

// FuzzMessage holds that nothing panics, that what decodes bare decodes the same as a message, and that an event in random envelopes is
// the same event.
func FuzzMessage(f *testing.F) {
	events := bareEvents(f)
	for _, shipper := range shippers {
		f.Add(shipper.wrap(events[:2])[0], uint64(1))
	}
	for i, ev := range events {
		f.Add([]byte(ev), uint64(i))
	}
	for _, line := range nastyCorpus(f)[190:] {
		f.Add(line, uint64(3))
	}
	f.Add(gz([]byte(events[0])), uint64(4))
	f.Fuzz(func(t *testing.T, value []byte, seed uint64) {
		d := Decoder{Want: Want{State: true}}
		got := message(t, value, d.Message)
		bare := message(t, value, func(value []byte, emit func(*Event), malformed func(Malformed)) Counts {
			return d.Chunk(value, 1, emit, malformed)
		})
		if bare.Counts.Malformed == 0 && (got.Counts != bare.Counts || !reflect.DeepEqual(got.Events, bare.Events)) {
			t.Fatalf("%q: a message is %+v, lines are %+v", value, got, bare)
		}
		event := bytes.TrimSpace(value)
		if bare.Counts != (Counts{Read: 1, Envelopes: [NumEnvelopes]int64{1}}) || event[0] != '{' || !json.Valid(event) {
			return
		}
		wrapped, names := nested(rand.New(rand.NewPCG(seed, 1)), event, 1+int(seed%4))
		got = message(t, wrapped, d.Message)
		if len(got.Events) == 1 && len(bare.Events) == 1 {
			for _, ev := range []*Event{&got.Events[0], &bare.Events[0]} {
				for _, body := range []*[]byte{&ev.RequestObject, &ev.ResponseObject} {
					if *body = bytes.ToValidUTF8(*body, []byte("\ufffd")); len(*body) > 0 && (*body)[0] == '"' {
						*body = nil
					}
				}
			}
		}
		if diff := cmp.Diff(bare.Events, got.Events, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(Event{}, "RequestObject", "ResponseObject")); diff != "" || got.Counts.Read != 1 || got.Counts.Malformed != 0 {
			t.Fatalf("%q in %v: %+v %v (-bare +wrapped):\n%s\n%.300q", event, names, got.Counts, got.Malformed, diff, wrapped)
		}
	})
}

package audit

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// asJSON returns v as JSON, with or without the escapes for HTML that Go's encoder puts in by itself.
func asJSON(v any, html bool) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(html)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimSpace(b.Bytes())
}

type object = map[string]any

// one returns a wrapper that puts each event in a message of its own.
func one(wrap func(event string) any) func(events []string) [][]byte {
	return func(events []string) (out [][]byte) {
		for _, ev := range events {
			out = append(out, asJSON(wrap(ev), true))
		}
		return out
	}
}

func parsed(event string) object {
	var o object
	d := json.NewDecoder(strings.NewReader(event))
	d.UseNumber()
	if err := d.Decode(&o); err != nil {
		panic(err)
	}
	return o
}

func gz(data []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write(data)
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		panic(err)
	}
	return b.Bytes()
}

// zstdEncoder is one, since making one takes longer than all it does here.
var zstdEncoder, errZstd = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))

func zst(data []byte) []byte {
	if errZstd != nil {
		panic(errZstd)
	}
	return zstdEncoder.EncodeAll(data, nil)
}

func b64(data []byte) string { return base64.StdEncoding.EncodeToString(data) }

// shippers are the envelopes with what their writers put next to an event, as their documentation has it.
var shippers = []struct {
	// file is the fixture's name.
	file     string
	envelope Envelope
	wrap     func(events []string) [][]byte
}{
	{"event-list.json", EnvelopeEventList, func(events []string) [][]byte {
		return [][]byte{[]byte(`{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[` + strings.Join(events, ",") + `]}`)}
	}},
	{"fluent-bit.jsonl", EnvelopeFluentBit, one(func(ev string) any { // out_kafka, Format json
		return object{"@timestamp": json.RawMessage("1795241037.603813"), "log": ev}
	})},
	{"fluent-bit-kubernetes.jsonl", EnvelopeFluentBit, one(func(ev string) any { // tail with the cri parser and the kubernetes filter
		return object{"@timestamp": json.RawMessage("1795241037.603813"), "time": "2026-11-21T06:03:57.6038Z", "stream": "stdout", "_p": "F", "log": ev + "\n",
			"kubernetes": object{"pod_name": "kube-apiserver-cp-1", "namespace_name": "kube-system", "labels": object{"component": "kube-apiserver"}, "host": "cp-1"}}
	})},
	{"container-json.jsonl", EnvelopeContainerLog, one(func(ev string) any { // Docker's json-file
		return object{"log": ev + "\n", "stream": "stdout", "time": "2026-11-21T06:03:57.603813123Z"}
	})},
	{"container-cri.log", EnvelopeContainerLog, func(events []string) (out [][]byte) {
		for _, ev := range events {
			out = append(out, []byte("2026-11-21T06:03:57.603813123Z stdout F "+ev))
		}
		return out
	}},
	{"node-logs.log", EnvelopePrefixedLine, func(events []string) (out [][]byte) { // oc adm node-logs
		for _, ev := range events {
			out = append(out, []byte("master-0.example.com "+ev))
		}
		return out
	}},
	{"syslog.log", EnvelopePrefixedLine, func(events []string) (out [][]byte) {
		for _, ev := range events {
			out = append(out, []byte("<134>1 2026-11-21T06:03:57.603Z cp-1 kube-apiserver 1234 - - "+ev))
		}
		return out
	}},
	{"filebeat.jsonl", EnvelopeFilebeat, one(func(ev string) any {
		return object{"@timestamp": "2026-11-21T06:03:58.601Z", "@metadata": object{"beat": "filebeat", "type": "_doc", "version": "8.15.0"},
			"log": object{"offset": 8398, "file": object{"path": "/var/log/kubernetes/audit.log"}}, "message": ev, "input": object{"type": "filestream"},
			"event": object{"dataset": "generic", "kind": "event"}, "ecs": object{"version": "8.0.0"}, "host": object{"name": "cp-1"}, "agent": object{"type": "filebeat", "name": "cp-1"}}
	})},
	{"elastic.jsonl", EnvelopeElastic, one(func(ev string) any {
		o := parsed(ev)
		if a, ok := o["annotations"].(object); ok {
			mangled := object{}
			for k, v := range a {
				mangled[strings.ReplaceAll(k, ".", "_")] = v
			}
			o["annotations"] = mangled
		}
		for _, body := range []string{"requestObject", "responseObject"} {
			if b, ok := o[body].(object); ok {
				delete(b, "metadata")
			}
		}
		return object{"kubernetes": object{"audit": o}, "@timestamp": "2026-11-21T06:03:58.601Z", "input": object{"type": "filestream"}, "log": object{"file": object{"path": "/var/log/kubernetes/audit.log"}, "offset": 8398},
			"user": object{"name": "ignored"}, "event": object{"dataset": "kubernetes.audit_logs"}, "data_stream": object{"dataset": "kubernetes.audit_logs", "type": "logs"}, "agent": object{"type": "filebeat"}}
	})},
	{"elastic-fields.jsonl", EnvelopeElastic, one(func(ev string) any { // the fields of a hit, each an array
		fields := object{"@timestamp": []any{"2026-11-21T06:03:58.601Z"}}
		var flatten func(prefix string, v any)
		flatten = func(prefix string, v any) {
			switch v := v.(type) {
			case object:
				for k, m := range v {
					if strings.HasPrefix(prefix, "kubernetes.audit.annotations") {
						k = strings.ReplaceAll(k, ".", "_")
					}
					flatten(prefix+"."+k, m)
				}
			case []any:
				fields[prefix] = v
			default:
				fields[prefix] = []any{v}
			}
		}
		flatten("kubernetes.audit", parsed(ev))
		return fields
	})},
	{"vector.jsonl", EnvelopeVector, one(func(ev string) any {
		return object{"file": "/var/log/kubernetes/audit.log", "host": "cp-1", "message": ev, "source_type": "file", "timestamp": "2026-11-21T06:03:57.604Z"}
	})},
	{"openshift.jsonl", EnvelopeOpenShift, one(func(ev string) any {
		o := parsed(ev)
		o["k8s_audit_level"] = o["level"]
		o["level"] = "default"
		for k, v := range (object{"@timestamp": "2026-11-21T06:03:57.603813Z", "hostname": "master-0", "log_type": "audit", "log_source": "kubeAPI", "tag": ".k8s-audit.log",
			"openshift": object{"cluster_id": "6a5f1c2e", "sequence": 1795241037603}}) {
			o[k] = v
		}
		return o
	})},
	{"cloudwatch-subscription.jsonl", EnvelopeCloudWatch, func(events []string) [][]byte { return [][]byte{subscription(events)} }},
	{"cloudwatch-subscription.b64", EnvelopeCloudWatch, func(events []string) [][]byte { return [][]byte{[]byte(b64(gz(subscription(events))))} }},
	{"cloudwatch-lambda.json", EnvelopeCloudWatch, func(events []string) [][]byte {
		return [][]byte{asJSON(object{"awslogs": object{"data": b64(gz(subscription(events)))}}, true)}
	}},
	{"cloudwatch-filter.json", EnvelopeCloudWatch, func(events []string) [][]byte { // aws logs filter-log-events
		var list []any
		for i, ev := range events {
			list = append(list, object{"logStreamName": "kube-apiserver-audit-0f3a", "timestamp": 1795241037603, "message": ev, "ingestionTime": 1795241038000, "eventId": fmt.Sprint(i)})
		}
		return [][]byte{asJSON(object{"events": list, "searchedLogStreams": []any{}}, true)}
	}},
	{"aks.json", EnvelopeAKS, func(events []string) [][]byte {
		var list []any
		for _, ev := range events {
			list = append(list, diagnosticRecord("kube-audit", ev))
		}
		return [][]byte{asJSON(object{"records": list}, true)}
	}},
	{"aks-blob.jsonl", EnvelopeAKS, one(func(ev string) any { return diagnosticRecord("kube-audit-admin", ev) })},
	{"aks-table.jsonl", EnvelopeAKSAudit, one(func(ev string) any { return auditRow(ev, false) })},
	{"aks-table-strings.jsonl", EnvelopeAKSAudit, one(func(ev string) any { return auditRow(ev, true) })},
	{"gke.jsonl", EnvelopeGKE, one(logEntry)},
	{"gke-pubsub.jsonl", EnvelopeGKE, one(func(ev string) any {
		return object{"message": object{"attributes": object{"logging.googleapis.com/timestamp": "2026-11-21T06:03:57.603813Z"}, "data": b64(asJSON(logEntry(ev), true)), "messageId": "1234567890", "publishTime": "2026-11-21T06:03:59Z"},
			"subscription": "projects/p/subscriptions/audit"}
	})},
	{"pubsub.jsonl", EnvelopePubSub, one(func(ev string) any {
		return object{"message": object{"data": b64([]byte(ev)), "messageId": "1234567890"}, "subscription": "projects/p/subscriptions/audit"}
	})},
	{"splunk-hec.jsonl", EnvelopeSplunk, one(func(ev string) any {
		return object{"time": 1795241037.603, "host": "cp-1", "source": "/var/log/kubernetes/audit.log", "sourcetype": "kube:apiserver-audit", "index": "k8s", "event": json.RawMessage(ev)}
	})},
	{"splunk-hec-text.jsonl", EnvelopeSplunk, one(func(ev string) any {
		return object{"time": 1795241037.603, "host": "cp-1", "sourcetype": "kube:apiserver-audit", "event": ev}
	})},
	{"ovh.jsonl", EnvelopeGELF, one(func(ev string) any { // the message of a log stream holds GELF, which holds the event
		return object{"message": string(asJSON(object{"version": "1.1", "host": "mks", "short_message": ev, "level": 6, "timestamp": 1795241037.603, "_type": "audit"}, true))}
	})},
	{"cloudwatch-insights.json", EnvelopeCloudWatch, func(events []string) [][]byte { // aws logs get-query-results
		return [][]byte{insights(events, "Complete", len(events))}
	}},
	{"cloudwatch-insights-console.json", EnvelopeCloudWatch, func(events []string) [][]byte { // the console's export as JSON
		var list []any
		for _, ev := range events {
			list = append(list, object{"@timestamp": "2026-11-21 06:03:57.603", "@message": parsed(ev)})
		}
		return [][]byte{asJSON(list, true)}
	}},
	{"elasticsearch.json", EnvelopeFilebeat, func(events []string) [][]byte {
		return [][]byte{search(events, func(ev string) any {
			return object{"@timestamp": "2026-11-21T06:03:58.601Z", "message": ev, "input": object{"type": "filestream"}, "agent": object{"type": "filebeat"}, "log": object{"offset": 8398}}
		}, len(events))}
	}},
	{"elasticsearch-flat.json", EnvelopeElastic, func(events []string) [][]byte { // keys with dots, without bodies
		return [][]byte{search(events, func(ev string) any {
			flat := object{}
			var flatten func(prefix string, v any)
			flatten = func(prefix string, v any) {
				if o, ok := v.(object); ok && prefix != "kubernetes.audit.annotations" {
					for k, m := range o {
						flatten(prefix+"."+k, m)
					}
					return
				}
				if !strings.HasPrefix(prefix, "kubernetes.audit.requestObject") && !strings.HasPrefix(prefix, "kubernetes.audit.responseObject") {
					flat[prefix] = v
				}
			}
			flatten("kubernetes.audit", parsed(ev))
			return flat
		}, len(events))}
	}},
	{"elasticsearch-bare.json", EnvelopeOther, func(events []string) [][]byte {
		return [][]byte{search(events, func(ev string) any { return json.RawMessage(ev) }, len(events))}
	}},
	{"loki.json", EnvelopeLoki, func(events []string) [][]byte { // GET /loki/api/v1/query_range
		return [][]byte{asJSON(object{"status": "success", "data": lokiData(events)}, true)}
	}},
	{"loki-push.json", EnvelopeLoki, func(events []string) [][]byte {
		return [][]byte{asJSON(object{"streams": lokiData(events)["result"]}, true)}
	}},
	{"logcli.log", EnvelopeLoki, func(events []string) (out [][]byte) {
		for _, ev := range events {
			out = append(out, []byte(`2026-11-21T06:03:57Z {filename="/var/log/kubernetes/audit.log", job="a {\"}\" b"}  `+ev))
		}
		return out
	}},
	{"logcli.jsonl", EnvelopeLoki, one(func(ev string) any { // logcli query -o jsonl
		return object{"labels": object{"job": "audit"}, "line": ev, "timestamp": "2026-11-21T06:03:57.603813Z"}
	})},
	{"array.json", EnvelopeNone, func(events []string) [][]byte { return [][]byte{[]byte("[" + strings.Join(events, ",") + "]")} }},
	{"strings.jsonl", EnvelopeEncoded, one(func(ev string) any { return ev })},
}

func subscription(events []string) []byte {
	var list []any
	for i, ev := range events {
		list = append(list, object{"id": fmt.Sprintf("3889%052d", i), "timestamp": 1795241037603, "message": ev})
	}
	return asJSON(object{"messageType": "DATA_MESSAGE", "owner": "123456789012", "logGroup": "/aws/eks/prod/cluster", "logStream": "kube-apiserver-audit-0f3a",
		"subscriptionFilters": []any{"audit"}, "logEvents": list}, true)
}

// insights is what GetQueryResults answers.
func insights(events []string, status string, matched int) []byte {
	rows := []any{}
	for _, ev := range events {
		rows = append(rows, []any{
			object{"field": "@timestamp", "value": "2026-11-21 06:03:57.603"}, object{"field": "@message", "value": ev}, object{"field": "@ptr", "value": "CmEKJgoiMTIzNDU2Nzg5MDEyOi9hd3MvZWtz"},
		})
	}
	return asJSON(object{"queryLanguage": "CWLI", "results": rows, "status": status,
		"statistics": object{"recordsMatched": float64(matched), "recordsScanned": 86400.0, "bytesScanned": 1e9}}, true)
}

// search is what _search answers.
func search(events []string, source func(string) any, total int) []byte {
	hits := []any{}
	for i, ev := range events {
		hits = append(hits, object{"_index": ".ds-filebeat-8.15.0-2026.11.21-000001", "_id": fmt.Sprint(i), "_score": nil, "_source": source(ev), "sort": []any{1795241037603}})
	}
	return asJSON(object{"took": 3, "timed_out": false, "_shards": object{"total": 1, "successful": 1, "skipped": 0, "failed": 0},
		"hits": object{"total": object{"value": total, "relation": "eq"}, "max_score": nil, "hits": hits}}, true)
}

// lokiData is the data of an answer of Loki: two streams, of which an entry may have structured metadata.
func lokiData(events []string) object {
	values := [2][]any{{}, {}}
	for i, ev := range events {
		entry := []any{fmt.Sprint(1795241037603813000 + i), ev}
		if i%2 == 1 {
			entry = append(entry, object{"trace_id": "0f3a"})
		}
		at := 2 * i / len(events)
		values[at] = append(values[at], entry)
	}
	var streams []any
	for i, v := range values {
		streams = append(streams, object{"stream": object{"filename": "/var/log/kubernetes/audit.log", "job": "audit", "host": fmt.Sprint("cp-", i)}, "values": v})
	}
	return object{"resultType": "streams", "result": streams, "stats": object{"summary": object{"totalEntriesReturned": len(events)}}}
}

func diagnosticRecord(category, text string) object {
	return object{"time": "2026-11-21T06:03:57.6040000Z", "category": category, "ccpNamespace": "6a5f", "level": "Informational", "operationName": "Microsoft.ContainerService/managedClusters/diagnosticLogs/Read",
		"resourceId": "/SUBSCRIPTIONS/S/RESOURCEGROUPS/RG/PROVIDERS/MICROSOFT.CONTAINERSERVICE/MANAGEDCLUSTERS/AKS",
		"properties": object{"log": text, "stream": "stdout", "pod": "kube-apiserver-5b8d-x"}}
}

// auditRow returns the columns of AKSAudit; dynamic ones are strings in some exports.
func auditRow(event string, strs bool) object {
	o, row := parsed(event), object{"TenantId": "t", "TimeGenerated": "2026-11-21T06:03:58Z", "PodName": "kube-apiserver-5b8d-x", "Type": "AKSAudit", "SourceSystem": "Azure"}
	for column, field := range map[string]string{
		"AuditId": "auditID", "Level": "level", "Stage": "stage", "RequestUri": "requestURI", "Verb": "verb", "User": "user", "SourceIps": "sourceIPs", "UserAgent": "userAgent", "ObjectRef": "objectRef", "ResponseStatus": "responseStatus",
		"RequestObject": "requestObject", "ResponseObject": "responseObject", "RequestReceivedTime": "requestReceivedTimestamp", "StageReceivedTime": "stageTimestamp", "Annotations": "annotations",
	} {
		v, ok := o[field]
		if !ok {
			continue
		}
		switch v.(type) {
		case object, []any:
			if strs {
				v = string(asJSON(v, false))
			}
		}
		row[column] = v
	}
	return row
}

// logEntry returns the entry of Cloud Audit Logs that GKE makes of an event.
func logEntry(event string) any {
	o := parsed(event)
	text := func(path ...string) string {
		var v any = o
		for _, p := range path {
			m, _ := v.(object)
			v = m[p]
		}
		s, _ := v.(string)
		return s
	}
	group := text("objectRef", "apiGroup")
	method := "io.k8s."
	var resource string
	if r := text("objectRef", "resource"); r == "" {
		method += text("verb")
		resource = strings.TrimPrefix(text("requestURI"), "/")
	} else {
		name := group
		if group == "" {
			group, name = "core", "core"
		} else if rest, ok := strings.CutSuffix(group, ".k8s.io"); ok {
			name = rest
		}
		resource = group + "/" + text("objectRef", "apiVersion")
		if ns := text("objectRef", "namespace"); ns != "" {
			resource += "/namespaces/" + ns
		}
		resource += "/" + r
		method += name + "." + text("objectRef", "apiVersion") + "." + r
		if n := text("objectRef", "name"); n != "" {
			resource += "/" + n
		}
		if sub := text("objectRef", "subresource"); sub != "" {
			resource += "/" + sub
			method += "." + sub
		}
		method += "." + text("verb")
	}
	decision := text("annotations", decisionKey)
	payload := object{"@type": "type.googleapis.com/google.cloud.audit.AuditLog", "serviceName": "k8s.io", "methodName": method, "resourceName": resource,
		"authenticationInfo": object{"principalEmail": text("user", "username")}, "authorizationInfo": []any{object{"granted": decision == "allow", "permission": method, "resource": resource}},
		"requestMetadata": object{"callerIp": "127.0.0.1", "callerSuppliedUserAgent": text("userAgent")}, "status": object{}}
	if decision == "forbid" {
		payload["status"] = object{"code": 7, "message": "PERMISSION_DENIED"}
	}
	for to, from := range map[string]string{"request": "requestObject", "response": "responseObject"} {
		if body, ok := o[from]; ok {
			payload[to] = body
		}
	}
	entry := object{"insertId": text("auditID"), "labels": object{decisionKey: decision, reasonKey: text("annotations", reasonKey)}, "logName": "projects/p/logs/cloudaudit.googleapis.com%2Factivity",
		"operation": object{"id": text("auditID"), "producer": "k8s.io", "first": true, "last": text("stage") == "ResponseComplete"}, "protoPayload": payload,
		"receiveTimestamp": "2026-11-21T06:03:59.068723691Z", "timestamp": text("requestReceivedTimestamp"),
		"resource": object{"type": "k8s_cluster", "labels": object{"project_id": "p", "location": "europe-west1", "cluster_name": "c"}}}
	return entry
}

// A layer wraps a text of any sort, but that some want text without line breaks and some an object.
type layer struct {
	name string
	wrap func(r *rand.Rand, text []byte) []byte
	// binary is whether it gives what no text may hold, lined whether it stays text on a line of its own that is no JSON.
	binary, lined bool
}

func keyed(name, key string, beside object) layer {
	return layer{name: name, wrap: func(r *rand.Rand, text []byte) []byte {
		o := object{key: string(text)}
		for k, v := range beside {
			o[k] = v
		}
		return asJSON(o, r.IntN(2) == 0)
	}}
}

// layers that may lie around each other in any order.
var nestable = []layer{
	keyed("fluent-bit", "log", object{"@timestamp": 1.5}),
	keyed("container", "log", object{"stream": "stdout", "time": "t"}),
	keyed("filebeat", "message", object{"agent": object{}, "log": object{"offset": 1}, "event": object{"kind": "event"}}),
	keyed("vector", "message", object{"source_type": "file", "file": "f"}),
	keyed("splunk", "event", object{"sourcetype": "x"}),
	keyed("gelf", "short_message", object{"level": 6, "host": "h"}),
	keyed("journal", "MESSAGE", object{"PRIORITY": "6"}),
	{name: "aks", wrap: func(r *rand.Rand, text []byte) []byte {
		return asJSON(object{"records": []any{diagnosticRecord("kube-audit", string(text))}}, r.IntN(2) == 0)
	}},
	{name: "cloudwatch", wrap: func(_ *rand.Rand, text []byte) []byte { return subscription([]string{string(text)}) }},
	{name: "pubsub", wrap: func(_ *rand.Rand, text []byte) []byte {
		return asJSON(object{"message": object{"data": b64(text), "messageId": "1"}}, true)
	}},
	{name: "string", wrap: func(r *rand.Rand, text []byte) []byte { return asJSON(string(text), r.IntN(2) == 0) }},
	{name: "array", wrap: func(_ *rand.Rand, text []byte) []byte { return append(append([]byte("["), text...), ']') }},
	{name: "gzip", binary: true, wrap: func(_ *rand.Rand, text []byte) []byte { return gz(text) }},
	{name: "zstd", binary: true, wrap: func(_ *rand.Rand, text []byte) []byte { return zst(text) }},
	{name: "host name", lined: true, wrap: func(_ *rand.Rand, text []byte) []byte { return append([]byte("master-0 "), text...) }},
	{name: "cri", lined: true, wrap: func(_ *rand.Rand, text []byte) []byte {
		return append([]byte("2026-11-21T06:03:57.603813123Z stdout F "), text...)
	}},
}

// nested puts up to depth layers around an event that is one object on one line. It returns their names from the inside out.
func nested(r *rand.Rand, event []byte, depth int) (message []byte, names []string) {
	message = event
	for range depth {
		l := nestable[r.IntN(len(nestable))]
		// Whatever a layer is put around is JSON at first; a line with something in front must be carried by a string.
		switch json := message[0] == '{' || message[0] == '[' || message[0] == '"'; {
		case l.name == "array" && !json, l.lined && message[0] != '{':
			continue
		}
		message = l.wrap(r, message)
		names = append(names, l.name)
		if l.binary {
			message = []byte(b64(message))
			names = append(names, "base64")
		}
	}
	return message, names
}

package audit_test

import (
	"fmt"

	"github.com/nodetrail/nodetrail/audit"
)

// A log is decoded line by line; of what no rule needs only a count is left, and what is damaged has a place.
func ExampleDecoder_Chunk() {
	const log = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"a1","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/shop/secrets/db","verb":"get","user":{"username":"system:node:worker-1","groups":["system:nodes"]},"objectRef":{"resource":"secrets","namespace":"shop","name":"db","apiVersion":"v1"},"responseStatus":{"code":200},"requestReceivedTimestamp":"2026-11-21T06:00:00.000000Z","stageTimestamp":"2026-11-21T06:00:00.001000Z"}
{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"a2","stage":"ResponseComplete","requestURI":"/healthz","verb":"get","user":{"username":"jane"}}
{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata",
`
	var d audit.Decoder
	var attributes audit.Attributes
	counts := d.Chunk([]byte(log), 1, func(ev *audit.Event) {
		attrs := attributes.Of(ev, true) // what the authorizer was asked
		fmt.Println(ev.AuditID, attrs.GetUser().GetName(), attrs.Verb, attrs.Resource, attrs.Namespace+"/"+attrs.Name, ev.Code)
	}, func(m audit.Malformed) {
		fmt.Println("line", m.Line, "is malformed")
	})
	fmt.Println("read", counts.Read, "skipped", counts.Skipped, "malformed", counts.Malformed)
	// Output:
	// a1 system:node:worker-1 get secrets shop/db 200
	// line 3 is malformed
	// read 2 skipped 1 malformed 1
}

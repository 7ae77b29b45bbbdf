//go:build goexperiment.jsonv2

package jsonbench

import (
	jsonv2 "encoding/json/v2"
	"testing"
)

func BenchmarkEncodingJSONv2UsedFields(b *testing.B) {
	run(b, func(line []byte) error {
		var ev used
		return jsonv2.Unmarshal(line, &ev)
	})
}

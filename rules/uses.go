package rules

import (
	"encoding/json"
	"fmt"
	"time"
)

// Use is an address or a client certificate that a node's kubelet has come with in the last two days.
type Use struct {
	// Certificate is false for an address.
	Certificate bool
	Value       string
	First, Last time.Time
	// Count is how many requests since First.
	Count int64
}

// UsesOf names the entry of the rules' memory that has a node's uses. Where there is one use of each kind it is up to an hour old.
func UsesOf(node string) (kind, key string) { return rememberedCredentials, node }

// ParseUses reads the value of that entry.
func ParseUses(value []byte) ([]Use, error) {
	var used [useKinds][]*habit
	if err := json.Unmarshal(value, &used); err != nil {
		return nil, fmt.Errorf("reading how a node's identity was used: %w", err)
	}
	var out []Use
	for kind, list := range used {
		for _, h := range list {
			if h != nil {
				out = append(out, Use{Certificate: kind == useCertificate, Value: h.Value, First: h.First, Last: h.Last, Count: h.Count})
			}
		}
	}
	return out, nil
}

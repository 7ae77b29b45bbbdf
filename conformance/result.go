package conformance

import (
	"encoding/json"
	"fmt"
	"os"
)

// Result is what one run over one minor did, for docs/conformance.md. cmd/conform reads it as JSON.
type Result struct {
	Kubernetes string      `json:"kubernetes"`
	FirstSeed  uint64      `json:"firstSeed"`
	Settings   int         `json:"settings"`
	Histories  int         `json:"histories"`
	Steps      int         `json:"steps"`
	Requests   int         `json:"requests"`
	Later      int         `json:"later"`
	Known      map[Bug]int `json:"known"`
	Sweep      int         `json:"sweep"`
	Table      int         `json:"table"`
	Fields     int         `json:"fields"`
	RBAC       int         `json:"rbac"`
	Speed      []SpeedCase `json:"speed,omitempty"`
}

// SpeedCase is one benchmark case: nanoseconds for one decision of the reference and of ours.
type SpeedCase struct {
	Name   string  `json:"name"`
	Theirs float64 `json:"theirs"`
	Ours   float64 `json:"ours"`
}

func (r *Result) write(file string) error {
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return os.WriteFile(file, b, 0o644)
}

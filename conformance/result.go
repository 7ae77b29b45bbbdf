package conformance

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
	Mutations  [2]int      `json:"mutations"` // caught, of all
}

// SpeedCase is one benchmark case: nanoseconds for one decision of the reference and of ours.
type SpeedCase struct {
	Name   string  `json:"name"`
	Theirs float64 `json:"theirs"`
	Ours   float64 `json:"ours"`
}

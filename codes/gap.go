package codes

// Kind is what a gap is in. A gap of any kind but Doubt leaves not enough evidence for "ready".
type Kind string

// Kinds of gaps.
const (
	// Doubt is worth a warning, and leaves enough evidence.
	Doubt     Kind = ""
	Log       Kind = "log"
	Policy    Kind = "policy"
	Node      Kind = "node"
	State     Kind = "state"
	Agreement Kind = "agreement"
	Mode      Kind = "mode"
	Rule      Kind = "rule"
)

// Code says what is missing, in what it blocks, or in what is to be done. It is stable.
type Code string

// Gap is something that the evidence does not tell.
type Gap struct {
	Kind   Kind   `json:"kind"`
	Code   Code   `json:"code"`
	Params Params `json:"params"`
}

// Decides reports whether what is missing leaves not enough evidence.
func (g *Gap) Decides() bool { return g.Kind != Doubt }

// Equal reports whether both are the same gap.
func (g *Gap) Equal(o *Gap) bool {
	return g.Kind == o.Kind && g.Code == o.Code && g.Params.Equal(o.Params)
}

package rules

// Remembered is an entry of what detectors remember, to be stored.
type Remembered struct {
	// Kind is the detector's own, Key what tells its entries apart, such as a node's name.
	Kind, Key string
	Value     []byte
	// First says that of several values for the key the first that was stored stays; otherwise the latest does.
	First bool
}

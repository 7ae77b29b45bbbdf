package rules

// Remembered is an entry of what detectors remember, to be stored.
type Remembered struct {
	// Kind is the detector's own, Key what tells its entries apart, such as a node's name.
	Kind, Key string
	// OfNode says that it is of one node, and Lane by which lane the node's requests come, if they do by one with a name. They are not stored.
	OfNode bool
	Lane   string
	Value  []byte
	// First says that of several values for the key the first that was stored stays; otherwise the latest does.
	First bool
}

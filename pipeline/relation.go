package pipeline

import "github.com/nodetrail/nodetrail/nodeauthz"

// Relation is how the object of the request stood to the node at the request's time. It searches the graph when called.
func (j *Judgement) Relation() nodeauthz.Relation {
	if !j.IsNode || j.node == nil {
		return nodeauthz.Unrelated
	}
	return j.node.Relation(j.Node, j.Attrs, j.Time)
}

// Package explain says why a request of a node is allowed or not, and who else can reach what it asks for: as data, in words, and as a
// drawing.
//
// What goes in: the graph and the RBAC store of a cluster's state, the Node authorizer over them, and the order of the API server's
// authorizers ([Options]); then a request with its time ([Explainer.Request], [Explainer.Event]), an object with a span of time
// ([Explainer.Object]), or a node with a span of time and what its credential did in a log ([Explainer.Node], [Beyond]). What comes out: an
// [Explanation], a [Reach] or a [NodeReach], which encode as JSON and write themselves as text and for Graphviz, the first two as SVG, too.
//
// The state may change meanwhile: each part of an answer is of one instant of the graph, and the parts may be of different ones. An
// answer is bounded, however many nodes lead to an object; what it leaves out it counts. Names are as they stand in the log or the state;
// what is written as text or drawn shows control characters and the like as \u{…}.
//
// The package may import audit, nodeauthz, rbac, rules, tally, pipeline (for the judgement of an event) and report (for the fate of a
// request when bindings go); no source, no sink, not the store, not web.
package explain

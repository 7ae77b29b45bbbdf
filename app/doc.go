// Package app is what nodetrail does, as functions: a program that imports it can do all that the command line can.
//
// What goes in: an option struct for each function, with the names of files, or what they hold. What comes out: values, such as a report or an
// explanation, and errors; what to print, and with which exit status to end, is the caller's. cmd/nodetrail is such a caller, and adds flags, help
// and forms of output.
//
// # Finished logs
//
// Analyze judges the requests of nodes in finished audit logs, each as of its own time, and reports what was found and whether the bindings for
// nodes can go. WhatIf says what becomes of each request if some bindings go and others come. Suggest makes the RBAC that programs need which use
// a node's credential today. Explain says why one request is allowed or not.
//
// They share two structs. Input is what is read: audit logs, the cluster's state, and from when to when requests are judged. Authorization is how
// the API server decided: its version, its feature gates, the order of its authorizers, and how close to a change a request counts as a race. Only
// Input.Logs is needed. Without State, what the bodies in the log tell is all that is known of the cluster, and most requests are unknown.
//
// Nothing that is read stays open, and nothing is written. Each call has a state of its own, so calls may run concurrently, unless they share
// Input.Loaded. Judgements that AnalyzeOptions.Each is given live as long as the call: what is to be kept must be copied, as VerdictLine shows.
//
// A log that breaks off is no error of these functions: what came before counts, the result says what is missing (Analysis.Log, Unread), and no
// report says ready over it.
//
// # A log that grows
//
// Run judges events as they come, from files, a webhook or Kafka, stores what that adds up to, and serves metrics and pages, until its context
// ends. Report makes the report of what it has stored, Serve shows the same as pages, and ExplainOptions.Finding explains what it found. Gateway
// writes what API servers post to Kafka, for many Runs to share. Record writes the journal of a cluster's state that all of them take.
//
// Run and Gateway are set up by a configuration file, and not by structs: it is what can be read again while they run, what ConfigCheck checks and
// ConfigDefaults documents, and it has some hundred and fifty keys. RunOptions has what a command line puts over it.
//
// # Errors
//
// An *OptionError names the field of an option that is wrong; the Validate methods give it before anything is read. A *WindowError is a window that
// ends before it begins, a *NoStoreError that no Run has stored anything. Everything else is an error of what was read or opened, whose text
// names it. The end of a context is returned by functions that had not done yet, as the context's error; Run, Serve, Gateway and Record end so, and
// return nil.
//
// # What is stored
//
// Run stores, in addition to counts and findings, the facts of its reports: what the state and the order of authorizers were, and what is doubtful about
// them. They are JSON in the store, and Report reads those of earlier versions, too.
//
// # Inside
//
// A judge is wired by app/judging alone, for finished logs and for Run, and report.Facts are made by knowledge.facts alone. A running service is a
// few parts with a job each (its state, the engine with its judge, sources, coverage, sinks, pages, housekeeping), which service opens in order, run
// starts in stages, and close closes.
package app

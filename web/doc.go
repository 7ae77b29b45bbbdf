// Package web serves what nodetrail knows as pages for people and as JSON for programs.
//
// What goes in: a reader of the store, and, where there is one, the state of the cluster, and who may read ([Options]). What comes out: an http.Handler with
// the pages, which need no network and no build step, and next to each the same as JSON under /api/v1/, described by
// /api/v1/openapi.json. A view (views.go) is what both show. Every name in a view comes from a log and is text that nobody may trust. The
// package may import report, explain, tally, rules, sinks, internal/credfile and internal/loopback.
package web

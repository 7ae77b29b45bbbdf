// Package file reads audit logs from files: rotated, compressed, several at once.
//
// What goes in: paths, globs, folders, or standard input ([Expand]). What comes out: batches of decoded events in the order of time
// ([Read]), those of several API servers and of rotated files merged; a file is opened when its first event is due. Chunks of lines are
// decoded in parallel and handed on in order.
//
// [Follow] is the source of logs that are still written: each log with its rotated predecessors is a lane, in the order of its lines.
//
// The package imports audit and pipeline/source, and never pipeline.
package file

// Package killtest kills the real program at random moments, again and again, whatever it is fed from, and holds its totals to those of
// analyze on the same log. It has tests only.
package killtest

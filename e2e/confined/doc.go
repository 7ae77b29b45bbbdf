// Package confined has no code: its tests harden a real control plane as docs/confined.md says, and hold nodetrail to it that CONFINED is reached there,
// that each step back from it is named, and what it says of certificates of nodes that come to be. The nodes have addresses of their own, in a network
// that the tests make: they need root, or the right to make user namespaces.
package confined

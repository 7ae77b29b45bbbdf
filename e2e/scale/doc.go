// Package scale has no code: its test creates and deletes pods on dozens of hollow kubelets and holds every verdict of nodetrail against the API server's.
//
// NODETRAIL_E2E_CHURN is how long (3m by default), NODETRAIL_E2E_KUBELETS how many there are (40).
package scale

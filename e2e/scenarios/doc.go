// Package scenarios has no code: its tests play scenes on a real control plane with nodetrail next to it, and hold each of nodetrail's words against what
// the API server did: the annotations in its audit log, and the NODE DENY lines in its own.
//
// Each scene's comment says how nodetrail was broken to see it fail; e2e/cmd/breaks does that again (make e2e-breaks).
package scenarios

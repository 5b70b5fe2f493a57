//go:build !chaos

// Package failpoint lets the crash rig stop the service at the places where a
// crash would hurt most. In every normal build Hit does nothing; with the build
// tag chaos it asks the rig, over HTTP, and waits for its answer.
package failpoint

import "github.com/google/uuid"

// FenceOff is true only in the test build that shows what the crash rig finds
// when the fence is missing.
const FenceOff = false

// Hit marks a place that a run reaches. It does nothing in this build.
func Hit(string, uuid.UUID) {}

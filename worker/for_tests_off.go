//go:build !chaos

package worker

import "go.temporal.io/sdk/worker"

// registerForTests adds nothing, except in the builds that the crash rig makes.
func registerForTests(worker.Registry, Deps) {}

// Package approvals drives held runs through everything that can happen to them, over
// the real service as processes: random sequences of calls, decisions, signals, changes
// of what an approval hangs on, and kills. The short form runs with the tests, the
// long one by make chaos.
package approvals

import (
	"os"
	"sync"
	"testing"

	"agentruntime/test/rig"
)

// shared is the stack that the tests of this package have in common.
var shared = rig.NewSuite("approvals")

var sharedStack = sync.OnceValue(func() *rig.Stack { return rig.Split(shared, rig.SplitOptions{}) })

func TestMain(m *testing.M) {
	code := m.Run()
	shared.Close()
	os.Exit(code)
}

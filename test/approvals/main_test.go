// Package approvals drives held runs of the real service, as processes, through random
// sequences. A step is a call, a decision, a signal, a change of what an approval
// depends on, or a kill. The short form runs with the tests, the long one in make chaos.
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

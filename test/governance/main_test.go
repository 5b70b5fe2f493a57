// Package governance proves from outside that nothing gets past governance. Every
// decision, and every attempt to get around one, is made over HTTP against the whole
// service. What counts is what a provider of our own received.
package governance

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"agentruntime/test/rig"
)

// shared is the stack that the tests have in common. Each test has a tenant of its own.
var shared = rig.NewSuite("governance")

var sharedDev = sync.OnceValue(func() *rig.Stack { return rig.Dev(shared, "LOG_LEVEL=warn") })

// worlds are all that were made, for the last look at each.
var worlds struct {
	sync.Mutex
	list []*world
}

// TestMain checks every provider against the approvals again when all tests are over. A
// call that was sent too late for its own test to see shows here.
func TestMain(m *testing.M) {
	code := m.Run()
	for _, w := range worlds.list {
		if w.leaves {
			continue
		}
		for _, problem := range w.unapproved() {
			fmt.Fprintf(os.Stderr, "governance: %s, at the end: %s\n", w.name, problem)
			code = 1
		}
	}
	for _, w := range worlds.list {
		w.bank.srv.Close()
	}
	shared.Close()
	os.Exit(code)
}

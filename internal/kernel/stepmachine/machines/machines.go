// Package machines has the versions of the step machine that this program runs: the present one, and
// those before it that executions still have. Workflows and the service of executions take it. It
// decides nothing.
package machines

import "agentruntime/internal/kernel/stepmachine"

// All returns the machines by their versions. One that is left out here ends none of its executions:
// they stand still until a worker has it again.
func All() stepmachine.Machines {
	return stepmachine.Machines{stepmachine.Version: stepmachine.This{}}
}

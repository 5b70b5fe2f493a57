// Package stepmachine runs a Map one event at a time, without doing anything itself. Next
// takes the definition, the state of an execution and one event. It returns the state after
// the event, and commands: what the caller has to do, such as call a verb or start a timer.
// The workflow of Maps, dry runs, validation and workflow_only agents drive it. It does no
// I/O, reads no clock and starts no goroutine: the same events give the same bytes.
//
// # How an execution goes
//
// The caller begins with Start, and passes the answer to each command as an event: VerbEnded
// after StartVerb, TimerFired after StartTimer, Decided after AskApproval, and so on. Answers
// may come in any order and more than once: an event that nothing waits for has no effect.
// Finish is the last command. Between any two events the caller may store the state with
// Encode and go on with what Decode returns.
//
// # What is in a state
//
// A State is a tree. A Task is one step that has begun and has not ended: what it waits for,
// its attempts, its timers. A Block is a list of steps that runs: the steps of a case, of one
// iteration, of a branch. The root is a Task that stands for the Map. What ended steps leave
// behind is in Results; an iteration of a foreach has its own, which go with it.
//
// A block that can go on is in the queue Ready. Next takes blocks from it and begins their
// next step, until all wait. It begins a bounded number of steps and then asks for a
// Continued event, so that no event takes long.
//
// Values over 32 KiB are not in the state: StoreValue hands them to the caller, and the state
// has a reference. Expressions that read a reference, or that could take much time or memory,
// are evaluated by the caller, after Evaluate.
//
// # How it fails
//
// A failed step is tried again as its retry says. Then the nearest catch, on_error,
// on_item_error or on_branch_error handles the failure, on the way from the step outwards. What
// runs in the part that is given up is stopped. Where nothing handles it, the tree stays as
// it is, calls in flight are waited for, completed steps are compensated in reverse order,
// on_failure runs, and the Map ends failed. Again takes the kept tree up from the failed step.
//
// # Where to read
//
// machine.go has Next, step.go the life of a step, failure.go and ending.go what happens
// when it fails. Each type of steps has its file: verb.go, assign.go, switch.go, while.go,
// foreach.go, parallel.go, wait.go, approval.go, submap.go, model.go, raise.go, announce.go.
package stepmachine

//go:build !chaos

package workflows

// mostEvents is after how many events of its history a Map or a message continues in a new one at
// the latest. The server suggests it earlier, and ends a workflow at 51,200.
const mostEvents = 10_000

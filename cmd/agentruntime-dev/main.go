// Command agentruntime-dev runs the whole service on one machine, in one process tree.
// That is a private Postgres, Temporal with its web interface, the API, a worker and a
// sandbox provider. Its subcommands run the same parts as separate processes. Compiled with
// the tag external, it uses a Temporal server that runs already. It is for development only:
// it has no production configuration, and provider calls may reach the loopback interface.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	if err := newRoot().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "agentruntime-dev:", err)
		os.Exit(1)
	}
}

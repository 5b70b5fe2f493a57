// Command agentruntime is the product: `api` serves HTTP, `worker` runs workflows,
// `migrate` brings the database up to date. Configuration comes from environment
// variables, see docs/operate/configuration.md.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"agentruntime/internal/process/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := cli.New().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "agentruntime:", err)
		os.Exit(1)
	}
}

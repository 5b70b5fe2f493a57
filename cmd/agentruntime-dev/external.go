//go:build external

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	temporal "go.temporal.io/sdk/client"
)

// This build uses a Temporal server that runs already, and contains none.

// temporalWait is how long the server may take to answer.
const temporalWait = 10 * time.Second

// temporalNote follows the server's address where it is printed.
const temporalNote = "   (was running already)"

// uiStartPath is not used: this build has no web interface.
const uiStartPath = ""

func (o *options) addTemporal(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.temporal, "temporal", defaultTemporal, "host:port of the Temporal server that runs already")
}

func (o *options) addUI(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.ui, "temporal-ui", "", "address of that server's web interface, to be printed")
}

// serverCommands are none.
func serverCommands() []*cobra.Command { return nil }

// startTemporal starts nothing. It returns once the server is known to have the namespace.
func (s *stack) startTemporal(ctx context.Context, _ string) error {
	ctx, cancel := context.WithTimeout(ctx, temporalWait)
	defer cancel()
	c, err := temporal.DialContext(ctx, temporal.Options{HostPort: s.temporal, Logger: s.log})
	if err != nil {
		return fmt.Errorf("no Temporal server answers at %s: %w", s.temporal, err)
	}
	defer c.Close()
	_, err = c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: namespace})
	var missing *serviceerror.NamespaceNotFound
	if errors.As(err, &missing) {
		return fmt.Errorf("the Temporal server at %s has no namespace %q: create it there first", s.temporal, namespace)
	}
	if err != nil {
		return fmt.Errorf("ask the Temporal server at %s for the namespace %q: %w", s.temporal, namespace, err)
	}
	s.ready.TemporalAddress = s.temporal
	return s.registerAttributes(ctx)
}

// startUI starts nothing: the server has its own, or none.
func (s *stack) startUI(context.Context, string) error {
	s.ready.TemporalUIURL = s.ui
	return nil
}

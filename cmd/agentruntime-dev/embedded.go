//go:build !external

package main

import (
	"context"
	"path/filepath"

	"github.com/spf13/cobra"

	"agentruntime/internal/dev/devserver"
	"agentruntime/internal/dev/devserver/port"
)

// This build has a Temporal server of its own; external.go is the other one.

// temporalNote follows the server's address where it is printed.
const temporalNote = ""

// uiStartPath is where the web interface shows our columns.
const uiStartPath = devserver.StartPath

func (o *options) addTemporal(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.temporal, "temporal", defaultTemporal, "host:port of Temporal; port 0 picks a free one")
}

func (o *options) addUI(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.ui, "temporal-ui", defaultUI, "host:port of Temporal's web interface; port 0 picks a free one")
}

// serverCommands are those that need the servers of this build.
func serverCommands() []*cobra.Command {
	return []*cobra.Command{temporalCommand(), uiCommand(), benchCommand()}
}

func temporalCommand() *cobra.Command {
	var o options
	var visibilityURL string
	cmd := part("temporal", "Run the embedded Temporal server", &o, func(ctx context.Context, s *stack) error {
		return s.startTemporal(ctx, visibilityURL)
	})
	o.addTemporal(cmd)
	cmd.Flags().StringVar(&visibilityURL, "visibility-url", "", "Postgres database for Temporal's lists; empty keeps them in its own file")
	return cmd
}

func uiCommand() *cobra.Command {
	var o options
	cmd := part("ui", "Run Temporal's web interface", &o, func(ctx context.Context, s *stack) error {
		return s.startUI(ctx, s.temporal)
	})
	o.addTemporal(cmd)
	o.addUI(cmd)
	return cmd
}

func (s *stack) startTemporal(ctx context.Context, visibilityURL string) error {
	server, err := devserver.StartTemporal(ctx, devserver.TemporalConfig{
		FrontendAddr: s.temporal, Dir: filepath.Join(s.data, "temporal"), VisibilityURL: visibilityURL,
		Shards: shards, Namespace: namespace, Log: s.log, CountWrites: s.countWrites,
	})
	if err != nil {
		return err
	}
	s.onClose(server.Stop)
	s.ready.TemporalAddress = server.Addr
	return s.registerAttributes(ctx)
}

func (s *stack) startUI(ctx context.Context, temporalAddr string) error {
	addr, err := port.Resolve("temporal ui", s.ui)
	if err != nil {
		return err
	}
	codecURL, err := s.startCodec(ctx, addr)
	if err != nil {
		return err
	}
	ui, err := devserver.StartUI(ctx, devserver.UIConfig{Addr: addr, TemporalAddr: temporalAddr, Namespace: namespace, CodecURL: codecURL})
	if err != nil {
		return err
	}
	s.onClose(func() error { ui.Stop(); return nil })
	s.ready.TemporalUIURL = ui.URL
	return nil
}

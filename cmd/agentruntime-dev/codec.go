//go:build !external

package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"

	"agentruntime/internal/dev/devserver/datadir"
	"agentruntime/internal/dev/devserver/port"
	"agentruntime/internal/process/app"
)

// anyone lets everybody on this machine read payloads, as the development UI does with all
// else.
type anyone struct{}

func (anyone) Verify(context.Context, string) error { return nil }

// startCodec serves the codec endpoint on the loopback interface, for the web interface that
// will listen at uiAddr, and returns its address.
func (s *stack) startCodec(ctx context.Context, uiAddr string) (string, error) {
	cfg, err := logConfig()
	if err != nil {
		return "", err
	}
	keys, err := datadir.LoadOrCreateSecrets(s.data)
	if err != nil {
		return "", err
	}
	cfg.CodecKey = base64.StdEncoding.EncodeToString(keys.Codec)
	_, number, err := port.Split(uiAddr)
	if err != nil {
		return "", fmt.Errorf("codec: %w", err)
	}
	// A browser may name this machine in either way.
	cfg.CodecOrigins = []string{"http://" + uiAddr, fmt.Sprintf("http://localhost:%d", number)}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", port.Loopback+":0")
	if err != nil {
		return "", fmt.Errorf("codec: %w", err)
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := app.RunCodec(running, cfg, anyone{}, l, s.log); err != nil {
			s.failed <- err
		}
	}()
	s.onClose(func() error {
		stop()
		<-ended
		return nil
	})
	return "http://" + l.Addr().String(), nil
}

package devserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/temporalio/ui-server/v2/server"
	"github.com/temporalio/ui-server/v2/server/config"
	"github.com/temporalio/ui-server/v2/server/server_options"

	"agentruntime/internal/dev/devserver/port"
)

const (
	uiReadyWait = 10 * time.Second
	uiReadyPoll = 20 * time.Millisecond
)

// UIConfig says where the web interface listens and which server it shows.
type UIConfig struct {
	// Addr is host:port; port 0 picks a free one.
	Addr string
	// TemporalAddr is the host:port of a Temporal frontend.
	TemporalAddr string
	// Namespace is the one that is shown first.
	Namespace string
}

// UI is Temporal's web interface.
type UI struct {
	// URL is its address for a browser.
	URL string

	server   *server.Server
	done     chan struct{}
	stopOnce sync.Once
}

// StartUI returns once the web interface answers.
func StartUI(ctx context.Context, cfg UIConfig) (*UI, error) {
	// Its Start ends the whole process when the port is taken, so ask before.
	addr, err := port.Resolve("temporal ui", cfg.Addr)
	if err != nil {
		return nil, err
	}
	host, number, err := port.Split(addr)
	if err != nil {
		return nil, fmt.Errorf("temporal ui: %w", err)
	}
	u := &UI{
		URL:  "http://" + addr,
		done: make(chan struct{}),
		server: server.NewServer(server_options.WithConfigProvider(&config.Config{
			Host:                host,
			Port:                number,
			TemporalGRPCAddress: cfg.TemporalAddr,
			DefaultNamespace:    cfg.Namespace,
			EnableUI:            true,
			HideLogs:            true,
			DisableNewsFetch:    true, // development works offline
			CORS:                config.CORS{CookieInsecure: true},
		})),
	}
	go func() {
		defer close(u.done)
		u.server.Start() //nolint:errcheck // it returns nil, or ends the process
	}()
	if err := u.awaitReady(ctx); err != nil {
		u.Stop()
		return nil, fmt.Errorf("temporal ui: %w", err)
	}
	return u, nil
}

func (u *UI) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, uiReadyWait)
	defer cancel()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.URL+"/healthz", http.NoBody)
		if err != nil {
			return fmt.Errorf("probe: %w", err)
		}
		res, err := transport.RoundTrip(req)
		if err == nil {
			return res.Body.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w", errors.Join(ctx.Err(), err))
		case <-time.After(uiReadyPoll):
		}
	}
}

// Stop ends the web interface and waits for it. Calling it again does nothing.
func (u *UI) Stop() {
	u.stopOnce.Do(func() {
		u.server.Stop()
		<-u.done
	})
}

package devserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/labstack/echo/v4"
	"github.com/temporalio/ui-server/v2/server"
	"github.com/temporalio/ui-server/v2/server/api"
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
	// CodecURL is the endpoint that decodes payloads; "" for none.
	CodecURL string
}

// UI is Temporal's web interface, behind a front on the same origin (ui_front.go).
type UI struct {
	// URL is its address for a browser.
	URL string

	server   *server.Server
	front    *http.Server
	inner    string // where the interface itself listens
	done     chan struct{}
	stopOnce sync.Once
}

// StartUI returns once the web interface answers.
func StartUI(ctx context.Context, cfg UIConfig) (*UI, error) {
	// Its Start ends the whole process when the port is taken, so ask before.
	inner, err := port.Resolve("temporal ui", port.Loopback+":0")
	if err != nil {
		return nil, err
	}
	host, number, err := port.Split(inner)
	if err != nil {
		return nil, fmt.Errorf("temporal ui: %w", err)
	}
	front, addr, err := startFront(ctx, cfg, inner)
	if err != nil {
		return nil, fmt.Errorf("temporal ui: %w", err)
	}
	u := &UI{
		URL:   "http://" + addr,
		front: front,
		inner: inner,
		done:  make(chan struct{}),
		server: server.NewServer(server_options.WithAPIMiddleware([]api.Middleware{localNames}), server_options.WithConfigProvider(&config.Config{
			Host:                host,
			Port:                number,
			TemporalGRPCAddress: cfg.TemporalAddr,
			DefaultNamespace:    cfg.Namespace,
			EnableUI:            true,
			HideLogs:            true,
			DisableNewsFetch:    true, // development works offline
			CORS:                config.CORS{CookieInsecure: true},
			Codec:               config.Codec{Endpoint: cfg.CodecURL, DefaultErrorMessage: "The codec endpoint of agentruntime-dev did not answer."},
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

// localNames is port.LocalNames for the interface itself. It listens on the loopback interface
// at a port of its own, which a page on the web can reach without the front.
func localNames(echo.Context) runtime.ServeMuxOption {
	return runtime.WithMiddlewares(func(next runtime.HandlerFunc) runtime.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request, params map[string]string) {
			if !port.IsLocalName(r.Host) {
				http.Error(w, "This server is for this machine.", http.StatusForbidden) //nolint:forbidigo // no part of the API
				return
			}
			next(w, r, params)
		}
	})
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
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return nil
			}
			err = fmt.Errorf("HTTP %d", res.StatusCode)
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
		_ = u.front.Close()
		u.server.Stop()
		<-u.done
	})
}

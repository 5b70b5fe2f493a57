package main

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"agentruntime/db"
	"agentruntime/internal/dev/devserver/datadir"
	"agentruntime/internal/dev/devserver/port"
	"agentruntime/internal/dev/devserver/postgres"
	"agentruntime/internal/dev/mailbox"
	"agentruntime/internal/dev/sandbox"
	"agentruntime/internal/dev/strictmodel"
	"agentruntime/internal/process/app"
	"agentruntime/internal/process/cli"
	"agentruntime/internal/process/config"
)

const (
	appDatabase        = "agentruntime"
	visibilityDatabase = "temporal_visibility"
	appRole            = "agentruntime_app"

	// databaseConns are enough for two cores; each costs Postgres a process of some 25 MB.
	databaseConns = 8

	readyPoll      = 10 * time.Millisecond
	headerTimeout  = 10 * time.Second
	sandboxKeySize = 24
)

// startPostgres starts the private server and makes what the others need in it.
func (s *stack) startPostgres(ctx context.Context, number int) error {
	pg, err := postgres.Start(ctx, postgres.Config{Dir: filepath.Join(s.data, "postgres"), Port: number, Log: s.log})
	if err != nil {
		return err
	}
	s.onClose(pg.Stop)
	go func() {
		<-pg.Done()
		s.failed <- errors.New("postgres ended by itself; its log is below " + filepath.Join(s.data, "postgres"))
	}()
	for _, name := range []string{appDatabase, visibilityDatabase} {
		if err := pg.CreateDatabase(ctx, name); err != nil {
			return err
		}
	}
	if s.appURL, err = pg.LoginURL(ctx, appRole, appDatabase); err != nil {
		return err
	}
	s.ownerURL = pg.SuperuserURL(appDatabase)
	s.visibilityURL = pg.SuperuserURL(visibilityDatabase)
	s.ready.DatabaseURL = s.ownerURL
	return nil
}

func (s *stack) migrate(ctx context.Context) error {
	err := db.Migrate(ctx, s.ownerURL)
	if errors.Is(err, db.ErrTooOld) {
		return fmt.Errorf("%w (remove the folder %s, and start again)", err, s.data)
	}
	return err
}

// registerAttributes gives Temporal's namespace the search attributes that it lacks. A server of its own
// (TEMPORAL=host:port) has none.
func (s *stack) registerAttributes(ctx context.Context) error {
	_, err := app.RegisterAttributes(ctx, config.Config{TemporalAddress: s.ready.TemporalAddress, TemporalNamespace: namespace})
	return err
}

// startSandbox serves the shop and returns its address.
func (s *stack) startSandbox(ctx context.Context, addr string) (string, error) {
	key, err := s.sandboxKey()
	if err != nil {
		return "", err
	}
	shop, err := sandbox.New(sandbox.Config{APIKey: key, Dir: filepath.Join(s.data, "sandbox"), Log: s.log})
	if err != nil {
		return "", err
	}
	s.onClose(shop.Close)
	l, err := s.sandboxListener(ctx, addr)
	if err != nil {
		return "", fmt.Errorf("sandbox: %w", err)
	}
	srv := &http.Server{Handler: shop, ReadHeaderTimeout: headerTimeout}
	s.onClose(srv.Close)
	go func() {
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.failed <- fmt.Errorf("sandbox: %w", err)
		}
	}()
	s.ready.SandboxURL = "http://" + l.Addr().String()
	return s.ready.SandboxURL, nil
}

// sandboxListener listens where the shop listened last, if addr leaves the port open. An
// approval is bound to the provider's address, and a restart should not supersede it.
func (s *stack) sandboxListener(ctx context.Context, addr string) (net.Listener, error) {
	lc, remembered := &net.ListenConfig{}, filepath.Join(s.data, "sandbox", "address")
	open := strings.HasSuffix(addr, ":0")
	if last, err := os.ReadFile(remembered); err == nil && open {
		if l, err := lc.Listen(ctx, "tcp", string(last)); err == nil {
			return l, nil
		}
	}
	picked, err := port.Resolve("sandbox", addr)
	if err != nil {
		return nil, err
	}
	l, err := lc.Listen(ctx, "tcp", picked)
	if err != nil || !open {
		return l, err
	}
	return l, os.WriteFile(remembered, []byte(l.Addr().String()), 0o600)
}

// sandboxKey is the shop's API key, made once.
func (s *stack) sandboxKey() (string, error) {
	key, err := datadir.Secret(filepath.Join(s.data, "keys", "sandbox"), sandboxKeySize)
	return "shop_" + base64.RawURLEncoding.EncodeToString(key), err
}

// serviceConfig is the service's configuration: the environment's where that says
// something, with our addresses and the keys of the data directory.
func (s *stack) serviceConfig(lane string) (config.Config, error) {
	cfg, err := logConfig()
	if err != nil {
		return cfg, err
	}
	keys, err := datadir.LoadOrCreateSecrets(s.data)
	if err != nil {
		return cfg, err
	}
	encode := base64.StdEncoding.EncodeToString
	cfg.Env = "development"
	cfg.AllowLoopback = true
	cfg.Listen = s.listen
	cfg.DatabaseURL = s.appURL
	cfg.DatabaseConns = databaseConns
	cfg.TemporalAddress, cfg.TemporalNamespace = s.ready.TemporalAddress, namespace
	cfg.StartLane = lane
	cfg.VaultKeys = "dev:" + encode(keys.KEK)
	cfg.KeyPepper, cfg.JWTSeed, cfg.CodecKey = encode(keys.Pepper), encode(keys.JWTSeed), encode(keys.Codec)
	cfg.AuditSeed = encode(keys.AuditSeed)
	cfg.DrainTimeout = drainTimeout
	// What mail needs is known when the API listens.
	return cfg, cfg.Check(slices.DeleteFunc(cli.Needs("all"), func(n config.Need) bool { return n == config.NeedMail })...)
}

// startService runs API, worker or both in this process. It returns once the API
// is ready; a worker alone is ready when it is built, since it waits for Temporal.
func (s *stack) startService(ctx context.Context, cfg config.Config, roles app.Roles) error {
	var l net.Listener
	if roles.API {
		addr, err := port.Resolve("api", cfg.Listen)
		if err != nil {
			return err
		}
		if l, err = (&net.ListenConfig{}).Listen(ctx, "tcp", addr); err != nil {
			return fmt.Errorf("api: %w", err)
		}
		s.ready.APIURL = "http://" + l.Addr().String()
		cfg.PublicURL = cmp.Or(cfg.PublicURL, s.ready.APIURL)
		box, err := s.startMailbox(ctx, &cfg)
		if err != nil {
			return err
		}
		roles.Front = box.Front
		s.ready.MailboxURL = s.ready.APIURL + mailbox.Path
	}
	roles.Scripted = strictmodel.Judged
	a, err := app.New(ctx, cfg, roles, s.log)
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := a.Run(running, l); err != nil {
			s.failed <- fmt.Errorf("the service ended: %w", err)
		}
	}()
	s.onClose(func() error {
		stop()
		<-ended
		a.Close()
		return nil
	})
	if !roles.API {
		return nil
	}
	return s.awaitAPI(ctx)
}

// startMailbox starts the mail server of this process and points the service at it. Where the
// environment names another server, mail goes there.
func (s *stack) startMailbox(ctx context.Context, cfg *config.Config) (*mailbox.Mailbox, error) {
	box, err := mailbox.New(filepath.Join(s.data, "mailbox"), s.log)
	if err != nil {
		return nil, err
	}
	cfg.MailFrom = cmp.Or(cfg.MailFrom, "Agent Runtime <no-reply@agentruntime.localhost>")
	if cfg.SMTPURL != "" {
		return box, nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("mailbox: %w", err)
	}
	s.onClose(l.Close)
	go func() {
		if err := box.Serve(l); err != nil {
			s.failed <- err
		}
	}()
	cfg.SMTPURL = "smtp://" + l.Addr().String() + "?tls=none"
	return box, nil
}

func (s *stack) awaitAPI(ctx context.Context) error {
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.ready.APIURL+"/readyz", http.NoBody)
		if err != nil {
			return err
		}
		if res, err := (&http.Client{}).Do(req); err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-s.failed:
			return err
		case <-time.After(readyPoll):
		}
	}
}

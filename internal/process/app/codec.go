package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"agentruntime/internal/edge/egress"
	"agentruntime/internal/edge/engine"
	"agentruntime/internal/edge/issuer"
	"agentruntime/internal/process/codec"
	"agentruntime/internal/process/config"
)

// OperatorGuard returns the guard of the codec endpoint: a token of the operators' own issuer.
// Its keys are fetched through the egress guard, so the issuer has a public address.
func OperatorGuard(cfg config.Config) (codec.Guard, error) {
	reach := egress.Config{AllowLoopback: cfg.AllowLoopback}
	if err := reach.CheckURL(cfg.CodecKeysURL); err != nil {
		return nil, fmt.Errorf("app: CODEC_JWKS_URL: %w", err)
	}
	claim, value, _ := strings.Cut(cfg.CodecClaim, "=")
	return issuer.New(issuer.Config{
		KeysURL: cfg.CodecKeysURL, Issuer: cfg.CodecIssuer, Audience: cfg.CodecAudience, Claim: claim, Value: value,
	}, egress.NewClient(reach), time.Now)
}

// RunCodec serves the codec endpoint on l until ctx ends, then answers what it has accepted.
func RunCodec(ctx context.Context, cfg config.Config, guard codec.Guard, l net.Listener, log *slog.Logger) error {
	key, err := config.Key(cfg.CodecKey)
	if err != nil {
		return fmt.Errorf("app: codec key: %w", err)
	}
	decoder, err := engine.NewDecoder(cfg.CodecKeyID, key)
	if err != nil {
		return err
	}
	handler, err := codec.New(cfg.CodecOrigins, codec.Deps{Guard: guard, Decoder: decoder, Log: log})
	if err != nil {
		return err
	}
	proxies, err := config.Networks(cfg.TrustedProxies)
	if err != nil {
		return fmt.Errorf("app: trusted proxies: %w", err)
	}
	srv := &http.Server{
		Handler: handler, ReadHeaderTimeout: headerTimeout, ReadTimeout: headerTimeout, WriteTimeout: bodyTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: headerBytes, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		if err := srv.Serve(newConnections(l, cfg.MaxConnections, proxies, log)); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("app: serve the codec: %w", err)
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.DrainTimeout)
		defer cancel()
		return srv.Shutdown(drain)
	})
	return g.Wait()
}

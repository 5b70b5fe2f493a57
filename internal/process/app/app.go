// Package app is the composition root. It builds the service from its configuration, runs
// the parts of a process, and takes everything down in reverse order. Only the commands
// use it.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"agentruntime/activities"
	"agentruntime/api"
	"agentruntime/db"
	"agentruntime/internal/action/desk"
	"agentruntime/internal/action/killswitch"
	"agentruntime/internal/action/policy"
	"agentruntime/internal/action/run"
	"agentruntime/internal/agents/conversation"
	"agentruntime/internal/agents/roster"
	"agentruntime/internal/base/rate"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/edge/egress"
	"agentruntime/internal/edge/engine"
	"agentruntime/internal/edge/jqchild"
	"agentruntime/internal/maps/definition"
	"agentruntime/internal/maps/execution"
	"agentruntime/internal/models/model"
	"agentruntime/internal/models/modelprovider"
	"agentruntime/internal/process/config"
	"agentruntime/internal/process/memory"
	"agentruntime/internal/provider/catalog"
	"agentruntime/internal/provider/httpcall"
	"agentruntime/internal/provider/vault"
	"agentruntime/internal/record/approval"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/ended"
	"agentruntime/internal/record/event"
	"agentruntime/internal/record/idempotency"
	"agentruntime/internal/record/quota"
	"agentruntime/internal/record/resultfile"
	"agentruntime/internal/service/answering"
	"agentruntime/internal/service/authoring"
	"agentruntime/internal/service/changing"
	"agentruntime/internal/service/dispatch"
	"agentruntime/internal/service/importing"
	"agentruntime/internal/service/mailing"
	"agentruntime/internal/service/models"
	"agentruntime/internal/service/stepping"
	"agentruntime/internal/service/tooling"
	"agentruntime/internal/tenant/account"
	"agentruntime/internal/tenant/auth"
	"agentruntime/internal/tenant/budget"
	"agentruntime/internal/tenant/customer"
	"agentruntime/internal/tenant/facts"
	"agentruntime/internal/tenant/limits"
	"agentruntime/internal/tenant/webhook"
	"agentruntime/worker"
)

// Roles say what a process does.
type Roles struct {
	API    bool
	Worker bool
	// Tracer sees every statement to Postgres; nil means none.
	Tracer pgx.QueryTracer
	// Front wraps the handler of the API, for what only a development server has; nil means
	// nothing.
	Front func(http.Handler) http.Handler
	// Scripted wraps the scripted model, for what only a development server has; nil means nothing.
	Scripted func(model.Model) model.Model
}

// App is one process of the service.
type App struct {
	cfg   config.Config
	roles Roles
	log   *slog.Logger
	// cleanup runs last in, first out.
	cleanup []func()

	pool           *db.Pool
	quotas         quota.Limits
	plan           rate.Plan
	limits         *limits.Service
	budgets        *budget.Service
	engine         *engine.Engine
	runs           *run.Service
	files          *resultfile.Store
	notices        *ended.Notices
	approvals      *approval.Sweeper
	policies       *policy.Service
	customers      *customer.Service
	facts          *facts.Service
	maps           *definition.Service
	authoring      *authoring.Service
	advice         *tooling.Adviser
	agents         *roster.Service
	tools          *tooling.Service
	executions     *execution.Service
	sandbox        *jqchild.Pool
	programs       *jqchild.Pool // of results; nil without the API
	steps          *stepping.Stepper
	conversations  *conversation.Service
	answers        *answering.Answerer
	models         *models.Service
	modelProviders *modelprovider.Service
	catalog        *catalog.Catalog
	vault          *vault.Vault
	revocations    *auth.Revocations
	trail          *audit.Trail
	events         *event.Events
	journal        *audit.Journal
	webhooks       *webhook.Service
	handler        http.Handler
	writes, polls  trial
	proxies        []netip.Prefix
	sender         *mailing.Sender // nil without a mail server
}

// New builds the parts. It needs neither Postgres nor Temporal: a process that comes up
// before them serves as soon as they are there.
func New(ctx context.Context, cfg config.Config, roles Roles, log *slog.Logger) (_ *App, err error) {
	if !roles.API && !roles.Worker {
		return nil, errors.New("app: a process needs a role")
	}
	if roles.API && !roles.Worker && cfg.StartLane == string(engine.LaneEager) {
		return nil, errors.New("app: START_LANE=eager needs API and worker in one process; use split")
	}
	a := &App{cfg: cfg, roles: roles, log: log}
	defer func() {
		if err != nil {
			a.Close()
		}
	}()
	if a.quotas, err = quota.New(cfg.Quotas); err != nil {
		return nil, fmt.Errorf("app: %w", err)
	}
	if a.pool, err = db.Open(ctx, db.Config{URL: cfg.DatabaseURL, MaxConns: cfg.DatabaseConns, Tracer: roles.Tracer}); err != nil {
		return nil, err
	}
	a.onClose(a.pool.Close)
	if a.plan, err = cfg.Plan(); err != nil {
		return nil, fmt.Errorf("app: %w", err)
	}
	if a.limits, err = limits.New(a.plan, limits.Deps{DB: a.pool}); err != nil {
		return nil, err
	}
	if a.budgets, err = budget.New(budget.Config{}, budget.Deps{DB: a.pool, Quotas: a.quotas}); err != nil {
		return nil, err
	}
	if err := a.buildEngine(); err != nil {
		return nil, err
	}
	if err := a.buildRuns(); err != nil {
		return nil, err
	}
	if err := a.buildAudit(); err != nil {
		return nil, err
	}
	if roles.API {
		if err := a.buildAPI(); err != nil {
			return nil, err
		}
	}
	return a, nil
}

func (a *App) onClose(f func()) { a.cleanup = append(a.cleanup, f) }

// Close gives everything back, last in first out.
func (a *App) Close() {
	for _, f := range slices.Backward(a.cleanup) {
		f()
	}
	a.cleanup = nil
}

func (a *App) buildEngine() error {
	key, err := config.Key(a.cfg.CodecKey)
	if err != nil {
		return fmt.Errorf("app: codec key: %w", err)
	}
	a.engine, err = engine.Dial(engine.Config{
		Address: a.cfg.TemporalAddress, Namespace: a.cfg.TemporalNamespace, Lane: engine.Lane(a.cfg.StartLane),
		CodecKey: key, CodecID: a.cfg.CodecKeyID, Log: a.log,
	})
	if err != nil {
		return err
	}
	a.onClose(a.engine.Close)
	return nil
}

// buildSources makes what calls are taken from: the catalog, providers of models, credentials and files.
func (a *App) buildSources() (err error) {
	if a.catalog, err = catalog.New(catalog.Deps{DB: a.pool, Quotas: a.quotas}); err != nil {
		return err
	}
	a.modelProviders, err = modelprovider.New(modelprovider.Deps{
		DB: a.pool, Quotas: a.quotas, CheckURL: egress.Config{AllowLoopback: a.cfg.AllowLoopback}.CheckURL, Private: a.cfg.ModelServers,
	})
	if err != nil {
		return err
	}
	if a.vault, err = openVault(a.cfg, a.pool, a.quotas, a.modelProviders); err != nil {
		return err
	}
	a.files, err = resultfile.New(resultfile.Deps{DB: a.pool, Keys: a.vault, Quotas: a.quotas})
	return err
}

func (a *App) buildRuns() (err error) {
	if err := a.buildSources(); err != nil {
		return err
	}
	if err := a.buildPrograms(); err != nil {
		return err
	}
	client, err := httpcall.NewClient(egress.NewClient(egress.Config{AllowLoopback: a.cfg.AllowLoopback}), time.Now)
	if err != nil {
		return err
	}
	sets, err := policy.NewSets(a.pool)
	if err != nil {
		return err
	}
	targets, err := dispatch.New(dispatch.Config{Timeout: a.cfg.ProviderTimeout},
		dispatch.Deps{DB: a.pool, Catalog: a.catalog, Vault: a.vault, Policies: sets, Callers: map[verb.PlanKind]dispatch.Caller{verb.KindHTTP: dispatch.HTTP(client, a.files)}, Programs: a.programs, Log: a.log})
	if err != nil {
		return err
	}
	if a.policies, err = policy.New(policy.Deps{DB: a.pool, Subjects: targets, Keys: a.vault, Quotas: a.quotas, Log: a.log}); err != nil {
		return err
	}
	if a.journal, err = audit.NewJournal(audit.JournalConfig{}, audit.JournalDeps{DB: a.pool, Log: a.log}); err != nil {
		return err
	}
	a.approvals, err = approval.NewSweeper(approval.SweeperConfig{},
		approval.SweeperDeps{DB: a.pool, Workflows: a.engine, Log: a.log, Now: time.Now})
	if err != nil {
		return err
	}
	a.notices, err = ended.NewNotices(ended.Config{Gather: a.cfg.StartLane == string(engine.LaneEager)}, ended.Deps{DB: a.pool, Log: a.log})
	if err != nil {
		return err
	}
	a.runs, err = run.New(run.Config{OneProcess: a.cfg.StartLane == string(engine.LaneEager), PublicURL: a.cfg.PublicURL, ResultsKept: time.Duration(a.cfg.ResultDays) * 24 * time.Hour},
		run.Deps{DB: a.pool, Targets: targets, Engine: a.engine, Approvals: a.approvals, Journal: a.journal, Notices: a.notices, Keys: a.vault, Log: a.log, Quotas: a.quotas})
	if err != nil {
		return err
	}
	a.approvals.Own(approval.SubjectRun, a.runs)
	a.events, err = event.New(event.Deps{DB: a.pool, Keys: a.vault, Log: a.log, Quotas: a.quotas})
	if err != nil {
		return err
	}
	reach := egress.Config{AllowLoopback: a.cfg.AllowLoopback}
	a.webhooks, err = webhook.New(webhook.Config{PublicURL: a.cfg.PublicURL, Quotas: a.quotas}, webhook.Deps{
		DB: a.pool, Keys: a.vault, CheckURL: reach.CheckURL, Client: egress.NewClient(reach), Refused: egress.ErrRefused, Workflows: a.engine, Log: a.log,
	})
	if err != nil {
		return err
	}
	if a.tools, err = tooling.New(); err != nil {
		return err
	}
	if a.agents, err = roster.New(roster.Deps{DB: a.pool, Quotas: a.quotas}); err != nil {
		return err
	}
	if err := a.buildModels(); err != nil {
		return err
	}
	if err := a.buildMaps(sets, targets); err != nil {
		return err
	}
	if err := a.buildFacts(); err != nil {
		return err
	}
	if err := a.buildAgents(targets, sets); err != nil {
		return err
	}
	return a.buildCustomers()
}

func (a *App) buildAPI() error {
	secrets, tokens, err := buildAuth(a.cfg)
	if err != nil {
		return err
	}
	authenticator, err := auth.NewAuthenticator(auth.Deps{DB: a.pool, Secrets: secrets, Tokens: tokens, Plan: a.plan})
	if err != nil {
		return err
	}
	a.revocations, err = auth.NewRevocations(auth.RevocationsDeps{DB: a.pool, Dial: a.pool.Dial, Log: a.log})
	if err != nil {
		return err
	}
	var mails account.MailBounds
	if a.cfg.Env == "development" {
		mails.Source = 1_000_000 // all callers have one network address there
	}
	first, err := policy.First()
	if err != nil {
		return err
	}
	accounts, err := account.New(account.Config{
		Signup: account.Signup(a.cfg.Signup),
		Mails:  mails, Permissions: auth.Permissions(), Quotas: a.quotas, PublicURL: a.cfg.PublicURL, RequireVerifiedEmail: a.cfg.RequireVerifiedEmail,
	}, account.Deps{DB: a.pool, Secrets: secrets, Tokens: tokens, DataKeys: dataKeys{a}, FirstPolicy: first})
	if err != nil {
		return err
	}
	if err := a.buildSender(accounts); err != nil {
		return err
	}
	approvals, err := desk.New(desk.Deps{
		DB: a.pool, Workflows: a.engine, Journal: a.journal, Subjects: a.subjects(), Quotas: a.quotas,
	})
	if err != nil {
		return err
	}
	importer, err := importing.New(egress.Config{AllowLoopback: a.cfg.AllowLoopback}, importing.Deps{Catalog: a.catalog, Vault: a.vault, Frugal: memory.Frugal})
	if err != nil {
		return err
	}
	if a.proxies, err = config.Networks(a.cfg.TrustedProxies); err != nil {
		return fmt.Errorf("app: trusted proxies: %w", err)
	}
	switches, err := killswitch.New(killswitch.Deps{DB: a.pool, Quotas: a.quotas})
	if err != nil {
		return err
	}
	creations, err := a.buildCreations()
	if err != nil {
		return err
	}
	addresses, err := rate.NewAddresses(a.cfg.Addresses())
	if err != nil {
		return fmt.Errorf("app: %w", err)
	}
	changes, err := changing.New(changing.Deps{Goals: a.conversations, Runs: a.runs, Approvals: approvals})
	if err != nil {
		return err
	}
	a.handler, err = api.New(api.Deps{
		Proxies: a.proxies, Addresses: addresses, Auth: authenticator, Revocations: a.revocations, Log: a.log, Ready: a.ready,
		Accounts: accounts, Keys: accounts, Catalog: a.catalog, Providers: a.catalog, Importer: importer, Credentials: a.vault,
		Runs: a.runs, Files: a.files, Approvals: approvals, Policies: a.policies, Audit: a.trail, Events: a.events, Webhooks: a.webhooks, Creations: creations,
		Customers:  a.customers,
		Facts:      a.facts,
		RateLimits: a.limits, Budgets: a.budgets, KillSwitches: switches, ModelProviders: a.modelProviders, Maps: a.maps, Agents: a.agents, Advice: a.advice, Authoring: a.authoring, Executions: a.executions, Conversations: a.conversations, GoalChanges: changes, AgentSessions: a.conversations, Tooling: a.tools, Sandboxes: a.programs,
		Connections: a.cfg.MaxConnections, Frugal: memory.Frugal, Burst: memory.Burst,
	})
	if err == nil && a.roles.Front != nil {
		a.handler = a.roles.Front(a.handler)
	}
	return err
}

func (a *App) buildCreations() (*idempotency.Keys, error) {
	pepper, err := config.Key(a.cfg.KeyPepper)
	if err != nil {
		return nil, fmt.Errorf("app: API key pepper: %w", err)
	}
	return idempotency.New(idempotency.Config{Pepper: pepper, Most: a.quotas.Most(quota.Creations)}, idempotency.Deps{DB: a.pool})
}

func buildAuth(cfg config.Config) (*auth.Secrets, *auth.Tokens, error) {
	pepper, err := config.Key(cfg.KeyPepper)
	if err != nil {
		return nil, nil, fmt.Errorf("app: API key pepper: %w", err)
	}
	secrets, err := auth.NewSecrets(pepper)
	if err != nil {
		return nil, nil, err
	}
	tc := auth.TokensConfig{Issuer: cfg.TokenIssuer, Audience: cfg.TokenIssuer}
	if tc.SigningSeed, err = config.Key(cfg.JWTSeed); err != nil {
		return nil, nil, fmt.Errorf("app: JWT seed: %w", err)
	}
	for _, old := range cfg.JWTOldSeeds {
		seed, err := config.Key(old)
		if err != nil {
			return nil, nil, fmt.Errorf("app: old JWT seed: %w", err)
		}
		tc.VerifyingSeeds = append(tc.VerifyingSeeds, seed)
	}
	tokens, err := auth.NewTokens(tc)
	return secrets, tokens, err
}

// Run does the process's work until ctx ends, then drains: the API answers what it
// has accepted, and the worker finishes its tasks. l is where the API listens, nil
// for a process without it. The API listens at once. The worker waits for Postgres and
// Temporal. The error is db.ErrNotMigrated where Postgres answers and `migrate` did not run.
func (a *App) Run(ctx context.Context, l net.Listener) error {
	if err := a.migrated(ctx); err != nil {
		return err
	}
	// The notices of ended runs must still go out while the parts drain.
	lasting, stop := context.WithCancel(context.WithoutCancel(ctx))
	var announcer sync.WaitGroup
	announcer.Go(func() { a.notices.Announce(lasting) })
	defer announcer.Wait()
	defer stop()

	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		a.repeat(ctx, job{"look for search attributes", a.engine.LookEvery(), a.engine.Look})
		return nil
	})
	if a.roles.API {
		a.serve(ctx, g, l)
	}
	g.Go(func() error {
		if err := a.pool.AwaitReady(ctx, a.log); err != nil {
			return err
		}
		if err := a.migrated(ctx); err != nil || !a.roles.Worker {
			return err
		}
		for _, j := range a.workerJobs() {
			g.Go(func() error { a.repeat(ctx, j); return nil })
		}
		g.Go(func() error { a.webhooks.Dispatch(ctx, a.cfg.DrainTimeout); return nil })
		return a.work(ctx)
	})
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// migrated returns db.ErrNotMigrated where Postgres says so. A Postgres that does not answer is
// asked again once it does.
func (a *App) migrated(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	if err := a.pool.CheckSchema(ctx); errors.Is(err, db.ErrNotMigrated) {
		return err
	}
	return nil
}

// work runs workflows from when Temporal is ready until ctx ends.
func (a *App) work(ctx context.Context) error {
	acts, err := activities.NewAction(a.runs)
	if err != nil {
		return err
	}
	deliveries, err := activities.NewDelivery(a.webhooks)
	if err != nil {
		return err
	}
	erasing, err := activities.NewCustomers(a.customers)
	if err != nil {
		return err
	}
	maps, err := activities.NewMaps(a.steps)
	if err != nil {
		return err
	}
	messages, err := activities.NewTurns(a.answers)
	if err != nil {
		return err
	}
	w, err := worker.New(worker.Deps{Client: a.engine.Client(), Action: acts, Delivery: deliveries, Customers: erasing, Maps: maps, Turns: messages, DrainTimeout: a.cfg.DrainTimeout})
	if err != nil {
		return err
	}
	if err := a.engine.AwaitReady(ctx); err != nil {
		return err
	}
	if err := w.Start(); err != nil {
		return err
	}
	<-ctx.Done()
	w.Stop()
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.cfg.DrainTimeout)
	defer cancel()
	a.runs.Drain(drain)
	return nil
}

// Timeouts of the API's listener.
const (
	headerTimeout = 10 * time.Second
	bodyTimeout   = 60 * time.Second
	idleTimeout   = 120 * time.Second
	// writeTimeout is the outer bound of one answer: the body, the longest wait and an import.
	// The API allows less for writing an answer, and for each part of a stream.
	writeTimeout = 5 * time.Minute
	// headerBytes is twice what proxies usually let through.
	headerBytes = 64 << 10
)

func (a *App) serve(ctx context.Context, g *errgroup.Group, l net.Listener) {
	connections := newConnections(l, a.cfg.MaxConnections, a.proxies, a.log)
	srv := &http.Server{
		Handler: connections.sparing(a.handler), ConnState: connections.note, ReadHeaderTimeout: headerTimeout, ReadTimeout: bodyTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: headerBytes,
		ErrorLog:       slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
	}
	lasting, stop := context.WithCancel(context.WithoutCancel(ctx))
	g.Go(func() error { a.notices.Listen(lasting); return nil })
	g.Go(func() error { a.journal.Run(lasting); return nil })
	g.Go(func() error { a.events.Listen(lasting); return nil })
	g.Go(func() error { a.events.Poll(lasting); return nil })
	srv.RegisterOnShutdown(a.events.EndStreams) // they would not end by themselves
	if a.sender != nil {
		g.Go(func() error { a.sender.Run(ctx); return nil })
	}
	g.Go(func() error {
		if err := a.revocations.Listen(lasting); lasting.Err() == nil {
			return err
		}
		return nil
	})
	g.Go(func() error {
		if err := srv.Serve(connections); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("app: serve: %w", err)
		}
		return nil
	})
	g.Go(func() error {
		defer stop()
		<-ctx.Done()
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.cfg.DrainTimeout)
		defer cancel()
		if err := srv.Shutdown(drain); err != nil {
			return fmt.Errorf("app: drain: %w", err)
		}
		return nil
	})
}

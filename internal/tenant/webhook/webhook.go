// Package webhook tells the receivers of tenants of their events: the subscriptions, the
// signatures, first attempts in batches, and the record of each attempt. A delivery whose first
// attempt failed gets a Temporal workflow, which has this package make the others. The api and
// activities packages call it. It never changes the bytes of an event.
package webhook

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/share"
	"agentruntime/internal/record/quota"
)

// Keys finds the data key of a tenant. It caches keys, so nearly every call is free.
type Keys interface {
	Key(ctx context.Context, tenant uuid.UUID) (*datakey.Key, error)
}

// Workflows starts the workflow of a delivery. A start that was made before is no error.
type Workflows interface {
	StartDelivery(ctx context.Context, in flow.DeliveryInput, listing flow.Listing) error
}

// Config has the values of a Service.
type Config struct {
	// PublicURL is the address of the API, "" where it is not known.
	PublicURL string
	Quotas    quota.Limits
	// Timeout bounds one attempt. Zero means 15 s.
	Timeout time.Duration
}

// Deps are what a Service works with; Now may be nil.
type Deps struct {
	DB   *db.Pool
	Keys Keys
	// CheckURL refuses with URL_NOT_ALLOWED what no delivery may be sent to. It looks nothing up.
	CheckURL func(url string) error
	// Client reaches public addresses only and follows no redirect. Refused is in the chain of its
	// error where it did not dial an address.
	Client    *http.Client
	Refused   error
	Workflows Workflows
	Log       *slog.Logger
	Now       func() time.Time
}

// Service has the webhooks of all tenants.
type Service struct {
	cfg    Config
	d      Deps
	q      *dbsqlc.Queries
	now    func() time.Time
	places *share.Pool
	paces  *paces
	// settling takes the outcomes of attempts to where they are written.
	settling chan settlement
	// woken is told when there may be deliveries to attempt.
	woken chan struct{}
}

// New checks the collaborators.
func New(cfg Config, d Deps) (*Service, error) {
	if d.DB == nil || d.Keys == nil || d.CheckURL == nil || d.Client == nil || d.Refused == nil || d.Workflows == nil || d.Log == nil {
		return nil, errors.New("webhook: database, keys, the check of URLs, client, workflows and log are required")
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = attemptLimit
	}
	return &Service{
		cfg: cfg, d: d, q: dbsqlc.New(), now: db.Clock(d.Now), places: share.New(limits()), paces: newPaces(),
		settling: make(chan settlement, settleMost), woken: make(chan struct{}, 1),
	}, nil
}

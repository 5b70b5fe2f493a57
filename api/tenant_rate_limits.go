package api

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"agentruntime/api/wire"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/rate"
	"agentruntime/internal/tenant/limits"
)

// RateLimits is what the endpoints of rate limits need of the domain.
type RateLimits interface {
	Read(ctx context.Context, tenant uuid.UUID) (limits.Record, error)
	Exceeded(ctx context.Context, tenant uuid.UUID, found rate.State) error
	Set(ctx context.Context, who actor.Actor, to rate.Limits, expect fault.Expect[rate.Limits]) error
}

// rateLimitsView is the record of the specification. Current is of the tenant's keys. People is
// there for a person, Key for a key with limits of its own.
type rateLimitsView struct {
	Tenant  requestLimits `json:"tenant"`
	Current requestCounts `json:"current"`
	People  *peopleCounts `json:"people,omitempty"`
	Key     *keyWindows   `json:"key,omitempty"`
	Health  healthView    `json:"health"`
}

type requestLimits struct {
	Minute int32 `json:"requests_per_minute"`
	Hour   int32 `json:"requests_per_hour"`
	Day    int32 `json:"requests_per_day"`
}

type requestCounts struct {
	Minute int64 `json:"minute"`
	Hour   int64 `json:"hour"`
	Day    int64 `json:"day"`
}

type peopleCounts struct {
	Current requestCounts `json:"current"`
}

// keyWindows are the windows of a key with limits of its own; one without a limit is null.
type keyWindows struct {
	Minute *windowView `json:"minute"`
	Hour   *windowView `json:"hour"`
	Day    *windowView `json:"day"`
}

type windowView struct {
	Limit   int64 `json:"limit"`
	Current int64 `json:"current"`
}

// healthView says whether the tenant's budgets and the circuits to its providers let calls through.
type healthView struct {
	BudgetState  string `json:"budget_state"`
	CircuitState string `json:"circuit_state"`
}

// health reads the state of the tenant's budgets, and of those of the key where a key asks.
func (h *tenantHandlers) health(ctx context.Context, c *wire.Call, record limits.Record) (healthView, error) {
	var key *uuid.UUID
	if c.Actor.Kind == actor.Key {
		key = &c.Actor.ID
	}
	state, err := h.budgets.State(ctx, c.Actor.TenantID, key)
	return healthView{BudgetState: state.String(), CircuitState: string(record.Circuit)}, err
}

func viewLimits(l rate.Limits) requestLimits { return requestLimits(l) }

func viewCounts(c rate.Counts) requestCounts { return requestCounts(c) }

// limitsTag is the ETag of the limits. The counters are not part of it: each read changes them.
func limitsTag(l rate.Limits) string { return wire.ViewTag(viewLimits(l)) }

func (h *tenantHandlers) getRateLimits(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	record, err := h.rateLimits.Read(ctx, c.Actor.TenantID)
	if err != nil {
		return wire.Reply{}, err
	}
	health, err := h.health(ctx, c, record)
	if err != nil {
		return wire.Reply{}, err
	}
	rep := wire.OK(viewRateLimits(c, record, health))
	rep.Header = map[string][]string{"Etag": {limitsTag(record.Limits)}}
	return rep, nil
}

// viewRateLimits shows the record to the caller. Of the caller's own windows it shows what the
// call itself has found, so that parallel calls do not change the answer.
func viewRateLimits(c *wire.Call, record limits.Record, health healthView) rateLimitsView {
	v := rateLimitsView{Tenant: viewLimits(record.Limits), Current: viewCounts(record.Used), Health: health}
	found := c.Rate()
	if c.Actor.Kind == actor.User {
		v.People = &peopleCounts{viewCounts(found.Counts())}
		return v
	}
	v.Current = viewCounts(found.Counts())
	for _, w := range found.Windows {
		v.addOwn(w)
	}
	return v
}

func (v *rateLimitsView) addOwn(w rate.Window) {
	key := v.Key
	if key == nil {
		key = &keyWindows{}
	}
	into := map[string]**windowView{rate.KeyMinute: &key.Minute, rate.KeyHour: &key.Hour, rate.KeyDay: &key.Day}[w.Name]
	if into == nil {
		return
	}
	*into = &windowView{Limit: w.Limit, Current: w.Used}
	v.Key = key
}

type rateLimitsBody struct {
	Minute *int64 `json:"requests_per_minute"`
	Hour   *int64 `json:"requests_per_hour"`
	Day    *int64 `json:"requests_per_day"`
}

func (h *tenantHandlers) putRateLimits(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b rateLimitsBody
	if err := c.DecodeExact(&b); err != nil {
		return wire.Reply{}, err
	}
	var v wire.Validation
	to := rate.Limits{
		Minute: requiredLimit(&v, "requests_per_minute", b.Minute), Hour: requiredLimit(&v, "requests_per_hour", b.Hour),
		Day: requiredLimit(&v, "requests_per_day", b.Day),
	}
	if err := v.Err(); err != nil {
		return wire.Reply{}, err
	}
	if err := h.rateLimits.Set(ctx, c.Actor, to, wire.Expect(c, limitsTag)); err != nil {
		return wire.Reply{}, err
	}
	return h.getRateLimits(ctx, c)
}

func requiredLimit(v *wire.Validation, name string, n *int64) int32 {
	if n == nil {
		v.Add("/"+name, "required", name+" is required.")
		return 0
	}
	return checkLimit(v, name, "/"+name, *n)
}

func checkLimit(v *wire.Validation, name, path string, n int64) int32 {
	if n < 1 || n > rate.Most {
		v.Add(path, "range", fmt.Sprintf("%s is a whole number from 1 to %d.", name, rate.Most))
		return 0
	}
	return int32(n)
}

package api

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"

	"agentruntime/api/wire"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/tenant/budget"
)

// Budgets is what the endpoints of budgets and of rate limits need of the domain.
type Budgets interface {
	Read(ctx context.Context, tenant uuid.UUID) (budget.Record, error)
	State(ctx context.Context, tenant uuid.UUID, key *uuid.UUID) (budget.State, error)
	Set(ctx context.Context, who actor.Actor, key *uuid.UUID, to budget.Limits, expect fault.Expect[budget.Record]) error
}

// budgetsView is all budgets of a tenant. State is the worst of its own.
type budgetsView struct {
	Month    string           `json:"month"`
	ResetsAt time.Time        `json:"resets_at"`
	State    string           `json:"budget_state"`
	Tenant   measuresView     `json:"tenant"`
	Keys     []keyBudgetsView `json:"keys"`
}

// measuresView has one budget for each measure, null where there is none.
type measuresView struct {
	ModelTokens *budgetView `json:"model_tokens"`
	MoneyMicros *budgetView `json:"money_micros"`
	WriteCalls  *budgetView `json:"write_calls"`
}

type keyBudgetsView struct {
	KeyID uuid.UUID `json:"key_id"`
	measuresView
}

type budgetView struct {
	Limit    int64     `json:"limit"`
	Used     int64     `json:"used"`
	Reserved int64     `json:"reserved"`
	Since    time.Time `json:"since"`
	State    string    `json:"state"`
}

func viewMeasures(s budget.Subject) measuresView {
	view := func(m budget.Measure) *budgetView {
		b, found := s.Budgets[m]
		if !found {
			return nil
		}
		return &budgetView{Limit: b.Limit, Used: b.Used, Reserved: b.Reserved, Since: b.Since, State: b.State.String()}
	}
	return measuresView{ModelTokens: view(budget.ModelTokens), MoneyMicros: view(budget.MoneyMicros), WriteCalls: view(budget.WriteCalls)}
}

func viewBudgets(r budget.Record) budgetsView {
	v := budgetsView{
		Month: fmt.Sprintf("%04d-%02d", r.Month/100, r.Month%100), ResetsAt: r.ResetsAt, State: r.State().String(),
		Tenant: viewMeasures(r.Tenant), Keys: make([]keyBudgetsView, len(r.Keys)),
	}
	for i, k := range r.Keys {
		v.Keys[i] = keyBudgetsView{*k.KeyID, viewMeasures(k)}
	}
	return v
}

// budgetsTag is the ETag of the limits. What is used is not part of it: each call changes that.
func budgetsTag(r budget.Record) string {
	limits := []any{r.Tenant.Limits()}
	for _, k := range r.Keys {
		limits = append(limits, k.KeyID, k.Limits())
	}
	return wire.ViewTag(limits)
}

func (h *tenantHandlers) getBudgets(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	record, err := h.budgets.Read(ctx, c.Actor.TenantID)
	if err != nil {
		return wire.Reply{}, err
	}
	rep := wire.OK(viewBudgets(record))
	rep.Header = map[string][]string{"Etag": {budgetsTag(record)}}
	return rep, nil
}

// budgetsBody sets the budgets of the key, or of the tenant where key_id is null or left out. A
// measure that is null has no budget.
type budgetsBody struct {
	KeyID       *string         `json:"key_id"`
	ModelTokens json.RawMessage `json:"model_tokens"`
	MoneyMicros json.RawMessage `json:"money_micros"`
	WriteCalls  json.RawMessage `json:"write_calls"`
}

func (h *tenantHandlers) putBudgets(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b budgetsBody
	if err := c.DecodeExact(&b); err != nil {
		return wire.Reply{}, err
	}
	var v wire.Validation
	to := budget.Limits{
		ModelTokens: budgetLimit(&v, budget.ModelTokens, b.ModelTokens), MoneyMicros: budgetLimit(&v, budget.MoneyMicros, b.MoneyMicros),
		WriteCalls: budgetLimit(&v, budget.WriteCalls, b.WriteCalls),
	}
	if err := v.Err(); err != nil {
		return wire.Reply{}, err
	}
	var key *uuid.UUID
	if b.KeyID != nil {
		id, err := uuid.Parse(*b.KeyID)
		if err != nil {
			return wire.Reply{}, fault.New(fault.CodeAPIKeyNotFound, "")
		}
		key = &id
	}
	if err := h.budgets.Set(ctx, c.Actor, key, to, wire.Expect(c, budgetsTag)); err != nil {
		return wire.Reply{}, err
	}
	return h.getBudgets(ctx, c)
}

// budgetLimit reads a limit. All three must be there, so that no budget is removed by leaving it out.
func budgetLimit(v *wire.Validation, m budget.Measure, raw json.RawMessage) *int64 {
	switch string(raw) {
	case "":
		v.Add("/"+string(m), "required", string(m)+" is required: a limit, or null for none.")
		return nil
	case "null":
		return nil
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || n < 1 || n > budget.Most {
		v.Add("/"+string(m), "range", fmt.Sprintf("%s is a whole number from 1 to %d, or null.", m, int64(budget.Most)))
		return nil
	}
	return &n
}

package api

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"

	"agentruntime/api/wire"
	"agentruntime/internal/action/killswitch"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/near"
)

// KillSwitches is what the kill switch endpoints need of the domain.
type KillSwitches interface {
	Set(ctx context.Context, who actor.Actor, in killswitch.NewSwitch) (killswitch.Switch, error)
	Get(ctx context.Context, tenant, id uuid.UUID) (killswitch.Switch, error)
	List(ctx context.Context, tenant uuid.UUID, f killswitch.Filter) (page []killswitch.Switch, more bool, err error)
	Lift(ctx context.Context, who actor.Actor, id uuid.UUID, expect fault.Expect[killswitch.Switch]) error
}

// maxSwitchReason is the most characters of the reason of a kill switch: the answer to each call
// that it stops has it.
const maxSwitchReason = 500

type killSwitchView struct {
	ID       uuid.UUID  `json:"id"`
	Status   string     `json:"status"`
	Scope    string     `json:"scope"`
	Target   *string    `json:"target"`
	Reason   string     `json:"reason"`
	SetBy    string     `json:"set_by"`
	SetAt    time.Time  `json:"set_at"`
	LiftedBy *string    `json:"lifted_by"`
	LiftedAt *time.Time `json:"lifted_at"`

	repeatMark
}

func viewKillSwitch(k killswitch.Switch) killSwitchView {
	v := killSwitchView{
		ID: k.ID, Status: "set", Scope: string(k.Scope), Target: k.Target, Reason: k.Reason, SetBy: *byUser(&k.SetBy), SetAt: k.SetAt,
		LiftedBy: byUser(k.LiftedBy), LiftedAt: k.LiftedAt,
	}
	if k.LiftedAt != nil {
		v.Status = "lifted"
	}
	return v
}

func killSwitchTag(k killswitch.Switch) string { return wire.ViewTag(viewKillSwitch(k)) }

type killSwitchBody struct {
	Scope  *string `json:"scope"`
	Target *string `json:"target"`
	Reason *string `json:"reason"`
}

func (h *tenantHandlers) setKillSwitch(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b killSwitchBody
	if err := c.DecodeExact(&b); err != nil {
		return wire.Reply{}, err
	}
	var v wire.Validation
	in := killswitch.NewSwitch{
		Scope: strings.ToLower(v.Required("/scope", b.Scope)), Target: v.OptionalText("/target", b.Target, 1, 511), Reason: v.Text("/reason", b.Reason, maxSwitchReason),
	}
	if err := v.Err(); err != nil {
		return wire.Reply{}, err
	}
	k, err := h.killSwitches.Set(ctx, c.Actor, in)
	if err != nil {
		return wire.Reply{}, h.suggestions.suggestProvider(ctx, c, in.Target, h.suggestions.suggest(ctx, c, in.Target, err))
	}
	return wire.Created("/v1/kill-switch/"+k.ID.String(), viewKillSwitch(k)), nil
}

func (h *tenantHandlers) getKillSwitch(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	k, err := h.killSwitches.Get(ctx, c.Actor.TenantID, c.ID())
	return wire.Answer(viewKillSwitch, k, err)
}

func (h *tenantHandlers) listKillSwitches(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	f := killswitch.Filter{}
	var err error
	if f.Limit, f.Before, err = c.PageByID(); err != nil {
		return wire.Reply{}, err
	}
	switch status, given := c.Query("status"); {
	case given && strings.EqualFold(status, "all"):
		f.Lifted = true
	case given && !strings.EqualFold(status, "set"):
		return wire.Reply{}, fault.Invalid("query.status", "enum", near.Enum("status", status, "set", "all"))
	}
	page, more, err := h.killSwitches.List(ctx, c.Actor.TenantID, f)
	if err != nil {
		return wire.Reply{}, err
	}
	return wire.ListByID(f.Limit, page, more, viewKillSwitch, func(k killswitch.Switch) uuid.UUID { return k.ID }), nil
}

func (h *tenantHandlers) liftKillSwitch(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	return wire.DeletedUnless(h.killSwitches.Lift(ctx, c.Actor, c.ID(), wire.Expect(c, killSwitchTag)))
}

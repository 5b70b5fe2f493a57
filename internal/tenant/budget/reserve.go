package budget

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/fault"
)

// Amount is what a model call uses: tokens, and money in millionths.
type Amount struct{ Tokens, Money int64 }

func (a Amount) check() error {
	if a.Tokens < 0 || a.Money < 0 || a.Tokens > Most || a.Money > Most {
		return errors.New("budget: an amount is out of range")
	}
	return nil
}

// Reservation is what a model call has taken of budgets. Its worker settles or releases it once.
// Where the worker crashes, a sweep gives it back when Config.Lease is over.
type Reservation struct {
	// ID names the row of the reservation. It is the zero id where there is no budget to take from.
	ID     uuid.UUID
	tenant uuid.UUID
	s      *Service
}

// reserved is what reserve_budgets returns.
type reserved struct {
	Charged      []uuid.UUID `json:"charged"`
	Refused      string      `json:"refused"`
	Measure      string      `json:"measure"`
	RetryAfterMS int64       `json:"retry_after_ms"`
}

// Reserve takes the most that a model call can use of the budgets of the tenant, and of the key for
// which it is made; key is nil where it is made for none. The call may be made when Reserve has
// returned. The error is BUDGET_EXCEEDED where a budget has no room, with the time after which the
// call may be tried again: the next month, or soon where calls under way may give back what they
// have reserved.
func (s *Service) Reserve(ctx context.Context, tenant uuid.UUID, key *uuid.UUID, most Amount) (Reservation, error) {
	if err := most.check(); err != nil {
		return Reservation{}, err
	}
	r := Reservation{ID: uuid.Must(uuid.NewV7()), tenant: tenant, s: s}
	raw, err := s.q.ReserveBudgets(ctx, s.d.DB.Tenant(tenant), dbsqlc.ReserveBudgetsParams{
		TenantID: tenant, KeyID: key, ID: r.ID, Tokens: most.Tokens, Money: most.Money, Seconds: s.cfg.Lease.Seconds(),
	})
	if err != nil {
		return Reservation{}, fmt.Errorf("budget: reserve: %w", err)
	}
	var out reserved
	if err := json.Unmarshal(raw, &out); err != nil {
		return Reservation{}, fmt.Errorf("budget: reserve: %w", err)
	}
	if out.Refused != "" {
		f := fault.New(fault.CodeBudgetExceeded, out.Refused)
		if out.Measure == string(MoneyMicros) {
			f = f.Because(errMoney)
		}
		f.Retryable, f.RetryAfter = true, time.Duration(out.RetryAfterMS)*time.Millisecond
		return Reservation{}, f
	}
	if len(out.Charged) == 0 {
		return Reservation{}, nil
	}
	return r, nil
}

var errMoney = errors.New("budget: of money")

// OfMoney reports whether a refusal of Reserve is because of a budget of money, and not of tokens.
func OfMoney(refused error) bool { return errors.Is(refused, errMoney) }

// Settle ends the reservation and counts what the call has used, in the month in which it was
// reserved. It counts also what is more than was reserved, and what is reported after the lease: it
// was used. A repeat changes nothing.
func (r Reservation) Settle(ctx context.Context, actual Amount) error {
	if err := actual.check(); err != nil {
		return err
	}
	return r.end(ctx, actual, "settled")
}

// Release ends the reservation of a call that was not made. A repeat changes nothing.
func (r Reservation) Release(ctx context.Context) error { return r.end(ctx, Amount{}, "released") }

// QueueEnd is Settle in the transaction of a batch of the reservation's tenant, or Release where
// counts is false: another attempt of the same call has counted.
func (r Reservation) QueueEnd(b *db.Batch, actual Amount, counts bool) {
	if r.ID == uuid.Nil {
		return
	}
	p := dbsqlc.SettleBudgetsParams{TenantID: r.tenant, ID: r.ID, EndedAs: "released"}
	if counts {
		p.Tokens, p.Money, p.EndedAs = min(actual.Tokens, Most), min(actual.Money, Most), "settled"
	}
	db.Queue(b, r.s.q.SettleBudgets, p)
}

func (r Reservation) end(ctx context.Context, actual Amount, as string) error {
	if r.ID == uuid.Nil {
		return nil
	}
	_, err := r.s.q.SettleBudgets(ctx, r.s.d.DB.Tenant(r.tenant), dbsqlc.SettleBudgetsParams{
		TenantID: r.tenant, ID: r.ID, Tokens: actual.Tokens, Money: actual.Money, EndedAs: as,
	})
	if err != nil {
		return fmt.Errorf("budget: settle: %w", err)
	}
	return nil
}

package sandbox

import (
	"fmt"
	"net/http"
	"time"
)

// Refund is money given back for an order, in minor units of its currency.
type Refund struct {
	ID        string    `json:"id"`
	OrderID   string    `json:"order_id"`
	Amount    int64     `json:"amount"`
	Currency  string    `json:"currency"`
	Reason    string    `json:"reason"`
	Status    string    `json:"status"`
	CreatedAt time.Time `json:"created_at"`
}

func (s *Server) listRefunds(c call[none]) (answer, error) {
	order := c.query.Get("order_id")
	return list(s.store.refunds, c.query, func(r *Refund) bool { return order == "" || r.OrderID == order })
}

func (s *Server) getRefund(c call[none]) (answer, error) {
	if r := s.store.refunds.get(c.path("refund_id")); r != nil {
		return ok(r), nil
	}
	return answer{}, notFound("refund", c.path("refund_id"))
}

type refundBody struct {
	OrderID string `json:"order_id"`
	Amount  *int64 `json:"amount"` // absent: all that is left
	Reason  string `json:"reason"`
}

func (s *Server) createRefund(c call[refundBody]) (answer, error) {
	b := c.body
	err := first(length("order_id", b.OrderID, 1, 64),
		oneOf("reason", b.Reason, "requested_by_customer", "damaged", "duplicate", "fraudulent"))
	if err != nil {
		return answer{}, err
	}
	old := s.store.orders.get(b.OrderID)
	if old == nil {
		return answer{}, invalid("order_id", "There is no order with this id.")
	}
	left := old.AmountPaid - old.AmountRefunded
	sum := left
	if b.Amount != nil {
		sum = *b.Amount
		if err := first(amount("amount", sum)); err != nil {
			return answer{}, err
		}
	}
	if left == 0 || sum > left {
		return answer{}, refuse(http.StatusConflict, "refund_exceeds_payment",
			fmt.Sprintf("At most %d %s of this order can still be refunded (in minor units).", left, old.Currency))
	}
	now := s.now()
	o := *old
	o.AmountRefunded += sum
	o.UpdatedAt = now
	if o.AmountRefunded == o.AmountPaid {
		o.Status = orderRefunded
	}
	r := &Refund{
		ID: s.store.nextID(kindRefund), OrderID: o.ID, Amount: sum, Currency: o.Currency,
		Reason: b.Reason, Status: "succeeded", CreatedAt: now,
	}
	return created(r), s.store.commit(change{Order: &o}, change{Refund: r})
}

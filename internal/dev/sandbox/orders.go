package sandbox

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// States of an order.
const (
	orderPending   = "pending"
	orderPaid      = "paid"
	orderShipped   = "shipped"
	orderCancelled = "cancelled"
	orderRefunded  = "refunded"
)

// Order is a purchase. Amounts are in minor units of the currency (cents).
type Order struct {
	ID              string            `json:"id"`
	CustomerID      string            `json:"customer_id"`
	Status          string            `json:"status"`
	Amount          int64             `json:"amount"`
	AmountPaid      int64             `json:"amount_paid"`
	AmountRefunded  int64             `json:"amount_refunded"`
	Currency        string            `json:"currency"`
	Items           []Item            `json:"items"`
	Note            string            `json:"note"`
	ShippingAddress string            `json:"shipping_address"`
	CancelReason    string            `json:"cancel_reason,omitempty"`
	Metadata        map[string]string `json:"metadata"`
	CreatedAt       time.Time         `json:"created_at"`
	UpdatedAt       time.Time         `json:"updated_at"`
}

// Item is one line of an order.
type Item struct {
	SKU      string `json:"sku"`
	Quantity int    `json:"quantity"`
}

func (s *Server) order(id string) (*Order, error) {
	if o := s.store.orders.get(id); o != nil {
		return o, nil
	}
	return nil, notFound("order", id)
}

func (s *Server) listOrders(c call[none]) (answer, error) {
	status, customer := c.query.Get("status"), c.query.Get("customer_id")
	if err := first(oneOf("status", status, orderPending, orderPaid, orderShipped, orderCancelled, orderRefunded)); err != nil {
		return answer{}, err
	}
	least := int64(0)
	if text := c.query.Get("min_amount"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 1 {
			return answer{}, invalid("min_amount", "min_amount must be a positive whole number of minor units.")
		}
		least = n
	}
	return list(s.store.orders, c.query, func(o *Order) bool {
		return (status == "" || o.Status == status) && (customer == "" || o.CustomerID == customer) && o.Amount >= least
	})
}

type orderBody struct {
	CustomerID      string            `json:"customer_id"`
	Amount          int64             `json:"amount"`
	Currency        string            `json:"currency"`
	Items           []Item            `json:"items"`
	Note            string            `json:"note"`
	ShippingAddress string            `json:"shipping_address"`
	PayNow          bool              `json:"pay_now"`
	Metadata        map[string]string `json:"metadata"`
}

func (b *orderBody) check() error {
	refusals := []*refusal{
		length("customer_id", b.CustomerID, 1, 64),
		amount("amount", b.Amount),
		length("currency", b.Currency, 3, 3),
		oneOf("currency", b.Currency, "eur", "usd", "gbp"),
		length("note", b.Note, 0, 2000),
		length("shipping_address", b.ShippingAddress, 0, 500),
	}
	for i, item := range b.Items {
		at := fmt.Sprintf("items[%d].", i)
		refusals = append(refusals, length(at+"sku", item.SKU, 1, 64))
		if item.Quantity < 1 || item.Quantity > 1000 {
			refusals = append(refusals, invalid(at+"quantity", "quantity must be a number from 1 to 1000."))
		}
	}
	return first(refusals...)
}

func (s *Server) createOrder(c call[orderBody]) (answer, error) {
	b := c.body
	if err := b.check(); err != nil {
		return answer{}, err
	}
	if s.store.customers.get(b.CustomerID) == nil {
		return answer{}, invalid("customer_id", "There is no customer with this id.")
	}
	now := s.now()
	o := &Order{
		ID: s.store.nextID(kindOrder), CustomerID: b.CustomerID, Status: orderPending, Amount: b.Amount, Currency: b.Currency,
		Items: b.Items, Note: b.Note, ShippingAddress: b.ShippingAddress, Metadata: b.Metadata, CreatedAt: now, UpdatedAt: now,
	}
	if b.PayNow {
		o.Status, o.AmountPaid = orderPaid, o.Amount
	}
	o.fill()
	return created(o), s.store.commit(change{Order: o})
}

// fill replaces what would be null.
func (o *Order) fill() {
	if o.Items == nil {
		o.Items = []Item{}
	}
	if o.Metadata == nil {
		o.Metadata = map[string]string{}
	}
}

func (s *Server) getOrder(c call[none]) (answer, error) {
	o, err := s.order(c.path("order_id"))
	return ok(o), err
}

type orderPatch struct {
	Status          string            `json:"status"`
	Note            *string           `json:"note"`
	ShippingAddress *string           `json:"shipping_address"`
	Metadata        map[string]string `json:"metadata"`
}

func (s *Server) updateOrder(c call[orderPatch]) (answer, error) {
	old, err := s.order(c.path("order_id"))
	if err != nil {
		return answer{}, err
	}
	if err := first(oneOf("status", c.body.Status, orderPaid, orderShipped)); err != nil {
		return answer{}, err
	}
	if old.Status == orderCancelled || old.Status == orderRefunded {
		return answer{}, refuse(http.StatusConflict, "order_closed", "The order is "+old.Status+" and cannot be changed.")
	}
	o := *old
	switch {
	case c.body.Status == orderPaid && o.Status == orderPending:
		o.Status, o.AmountPaid = orderPaid, o.Amount
	case c.body.Status == orderShipped && o.Status == orderPaid:
		o.Status = orderShipped
	case c.body.Status != "" && c.body.Status != o.Status:
		return answer{}, refuse(http.StatusConflict, "order_status", "An order goes from pending to paid to shipped; this one is "+o.Status+".")
	}
	if c.body.Note != nil {
		o.Note = *c.body.Note
	}
	if c.body.ShippingAddress != nil {
		o.ShippingAddress = *c.body.ShippingAddress
	}
	if c.body.Metadata != nil {
		o.Metadata = c.body.Metadata
	}
	if err := first(length("note", o.Note, 0, 2000), length("shipping_address", o.ShippingAddress, 0, 500)); err != nil {
		return answer{}, err
	}
	o.UpdatedAt = s.now()
	return ok(&o), s.store.commit(change{Order: &o})
}

type cancelBody struct {
	Reason string `json:"reason"`
}

func (s *Server) cancelOrder(c call[cancelBody]) (answer, error) {
	old, err := s.order(c.path("order_id"))
	if err != nil {
		return answer{}, err
	}
	if err := first(length("reason", c.body.Reason, 0, 500)); err != nil {
		return answer{}, err
	}
	if old.Status != orderPending {
		return answer{}, refuse(http.StatusConflict, "order_not_cancellable",
			"Only a pending order can be cancelled; this one is "+old.Status+". Refund a paid order instead.")
	}
	o := *old
	o.Status, o.CancelReason, o.UpdatedAt = orderCancelled, c.body.Reason, s.now()
	return ok(&o), s.store.commit(change{Order: &o})
}

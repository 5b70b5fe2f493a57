package sandbox

import (
	"net/http"
	"net/mail"
	"strings"
	"time"
)

// Customer is a buyer.
type Customer struct {
	ID        string            `json:"id"`
	Name      string            `json:"name"`
	Email     string            `json:"email"`
	Phone     string            `json:"phone"`
	Metadata  map[string]string `json:"metadata"`
	CreatedAt time.Time         `json:"created_at"`
	UpdatedAt time.Time         `json:"updated_at"`
}

func (s *Server) customer(id string) (*Customer, error) {
	if c := s.store.customers.get(id); c != nil {
		return c, nil
	}
	return nil, notFound("customer", id)
}

func (s *Server) listCustomers(c call[none]) (answer, error) {
	email := c.query.Get("email")
	return list(s.store.customers, c.query, func(row *Customer) bool {
		return email == "" || strings.EqualFold(row.Email, email)
	})
}

type customerBody struct {
	Name     *string           `json:"name"`
	Email    *string           `json:"email"`
	Phone    *string           `json:"phone"`
	Metadata map[string]string `json:"metadata"`
}

// fillIn puts the fields that were sent into a customer and checks the result.
func (s *Server) fillIn(row *Customer, b customerBody) error {
	if b.Name != nil {
		row.Name = *b.Name
	}
	if b.Email != nil {
		row.Email = *b.Email
	}
	if b.Phone != nil {
		row.Phone = *b.Phone
	}
	if b.Metadata != nil {
		row.Metadata = b.Metadata
	}
	if err := first(length("name", row.Name, 1, 200), length("email", row.Email, 3, 254), length("phone", row.Phone, 0, 20)); err != nil {
		return err
	}
	if parsed, err := mail.ParseAddress(row.Email); err != nil || parsed.Address != row.Email {
		return invalid("email", "email must be an email address.")
	}
	for _, other := range s.store.customers.rows {
		if other != nil && other.ID != row.ID && strings.EqualFold(other.Email, row.Email) {
			return refuse(http.StatusConflict, "email_taken", "Another customer has this email address.")
		}
	}
	return nil
}

func (s *Server) createCustomer(c call[customerBody]) (answer, error) {
	return once(s.store, "createCustomer", c, func() (*Customer, []change, error) {
		now := s.now()
		row := &Customer{ID: s.store.nextID(kindCustomer), Metadata: map[string]string{}, CreatedAt: now, UpdatedAt: now}
		if err := s.fillIn(row, c.body); err != nil {
			return nil, nil, err
		}
		return row, []change{{Customer: row}}, nil
	})
}

func (s *Server) getCustomer(c call[none]) (answer, error) {
	row, err := s.customer(c.path("customer_id"))
	return ok(row), err
}

func (s *Server) updateCustomer(c call[customerBody]) (answer, error) {
	old, err := s.customer(c.path("customer_id"))
	if err != nil {
		return answer{}, err
	}
	row := *old
	if err := s.fillIn(&row, c.body); err != nil {
		return answer{}, err
	}
	row.UpdatedAt = s.now()
	return ok(&row), s.store.commit(change{Customer: &row})
}

func (s *Server) deleteCustomer(c call[none]) (answer, error) {
	row, err := s.customer(c.path("customer_id"))
	if err != nil {
		return answer{}, err
	}
	for _, o := range s.store.orders.rows {
		if o.CustomerID == row.ID && (o.Status == orderPending || o.Status == orderPaid) {
			return answer{}, refuse(http.StatusConflict, "customer_has_open_orders", "The customer has orders that are pending or not shipped.")
		}
	}
	return ok(map[string]any{"id": row.ID, "deleted": true}), s.store.commit(change{DeletedCustomer: row.ID})
}

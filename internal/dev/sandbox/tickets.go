package sandbox

import (
	"net/http"
	"slices"
	"time"
)

// States of a ticket.
const (
	ticketOpen   = "open"
	ticketClosed = "closed"
)

// Ticket is a support case.
type Ticket struct {
	ID         string    `json:"id"`
	CustomerID string    `json:"customer_id"`
	Subject    string    `json:"subject"`
	Body       string    `json:"body"`
	Priority   string    `json:"priority"`
	Status     string    `json:"status"`
	Resolution string    `json:"resolution"`
	Comments   []Comment `json:"comments"`
	CreatedAt  time.Time `json:"created_at"`
	UpdatedAt  time.Time `json:"updated_at"`
}

// Comment is one entry in a ticket's history.
type Comment struct {
	Author    string    `json:"author"`
	Body      string    `json:"body"`
	CreatedAt time.Time `json:"created_at"`
}

// maxComments bounds a ticket's history.
const maxComments = 1000

func (s *Server) ticket(id string) (*Ticket, error) {
	if t := s.store.tickets.get(id); t != nil {
		return t, nil
	}
	return nil, notFound("ticket", id)
}

func (s *Server) listTickets(c call[none]) (answer, error) {
	status, priority, customer := c.query.Get("status"), c.query.Get("priority"), c.query.Get("customer_id")
	err := first(oneOf("status", status, ticketOpen, ticketClosed), oneOf("priority", priority, "low", "normal", "high"))
	if err != nil {
		return answer{}, err
	}
	return list(s.store.tickets, c.query, func(t *Ticket) bool {
		return (status == "" || t.Status == status) && (priority == "" || t.Priority == priority) &&
			(customer == "" || t.CustomerID == customer)
	})
}

type ticketBody struct {
	CustomerID string `json:"customer_id"`
	Subject    string `json:"subject"`
	Body       string `json:"body"`
	Priority   string `json:"priority"`
}

func (s *Server) createTicket(c call[ticketBody]) (answer, error) {
	return once(s.store, "createTicket", c, func() (*Ticket, []change, error) {
		b := c.body
		err := first(length("customer_id", b.CustomerID, 1, 64), length("subject", b.Subject, 1, 200),
			length("body", b.Body, 1, 10_000), oneOf("priority", b.Priority, "low", "normal", "high"))
		if err != nil {
			return nil, nil, err
		}
		if s.store.customers.get(b.CustomerID) == nil {
			return nil, nil, invalid("customer_id", "There is no customer with this id.")
		}
		if b.Priority == "" {
			b.Priority = "normal"
		}
		now := s.now()
		t := &Ticket{
			ID: s.store.nextID(kindTicket), CustomerID: b.CustomerID, Subject: b.Subject, Body: b.Body, Priority: b.Priority,
			Status: ticketOpen, Comments: []Comment{}, CreatedAt: now, UpdatedAt: now,
		}
		return t, []change{{Ticket: t}}, nil
	})
}

func (s *Server) getTicket(c call[none]) (answer, error) {
	t, err := s.ticket(c.path("ticket_id"))
	return ok(t), err
}

type commentBody struct {
	Author string `json:"author"`
	Body   string `json:"body"`
}

func (s *Server) commentTicket(c call[commentBody]) (answer, error) {
	old, err := s.ticket(c.path("ticket_id"))
	if err != nil {
		return answer{}, err
	}
	b := c.body
	if err := first(length("body", b.Body, 1, 10_000), length("author", b.Author, 0, 200)); err != nil {
		return answer{}, err
	}
	if old.Status == ticketClosed {
		return answer{}, refuse(http.StatusConflict, "ticket_closed", "The ticket is closed.")
	}
	if len(old.Comments) >= maxComments {
		return answer{}, refuse(http.StatusConflict, "ticket_full", "The ticket has too many comments; open another one.")
	}
	if b.Author == "" {
		b.Author = "agent"
	}
	t := *old
	t.UpdatedAt = s.now()
	t.Comments = append(slices.Clip(t.Comments), Comment{b.Author, b.Body, t.UpdatedAt})
	return created(&t), s.store.commit(change{Ticket: &t})
}

type closeBody struct {
	Resolution string `json:"resolution"`
}

func (s *Server) closeTicket(c call[closeBody]) (answer, error) {
	old, err := s.ticket(c.path("ticket_id"))
	if err != nil {
		return answer{}, err
	}
	if err := first(length("resolution", c.body.Resolution, 0, 2000)); err != nil {
		return answer{}, err
	}
	if old.Status == ticketClosed {
		return answer{}, refuse(http.StatusConflict, "ticket_closed", "The ticket is closed already.")
	}
	t := *old
	t.Status, t.Resolution, t.UpdatedAt = ticketClosed, c.body.Resolution, s.now()
	return ok(&t), s.store.commit(change{Ticket: &t})
}

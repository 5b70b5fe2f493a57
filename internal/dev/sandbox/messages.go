package sandbox

import "time"

// Message is something sent to a customer. The shop sends nothing for real.
type Message struct {
	ID         string    `json:"id"`
	CustomerID string    `json:"customer_id"`
	Channel    string    `json:"channel"`
	To         string    `json:"to"`
	Subject    string    `json:"subject"`
	Body       string    `json:"body"`
	Status     string    `json:"status"`
	CreatedAt  time.Time `json:"created_at"`
}

func (s *Server) listMessages(c call[none]) (answer, error) {
	channel, customer := c.query.Get("channel"), c.query.Get("customer_id")
	if err := first(oneOf("channel", channel, "email", "sms")); err != nil {
		return answer{}, err
	}
	return list(s.store.messages, c.query, func(m *Message) bool {
		return (channel == "" || m.Channel == channel) && (customer == "" || m.CustomerID == customer)
	})
}

type messageBody struct {
	CustomerID string `json:"customer_id"`
	Channel    string `json:"channel"`
	Subject    string `json:"subject"`
	Body       string `json:"body"`
}

func (s *Server) sendMessage(c call[messageBody]) (answer, error) {
	b := c.body
	err := first(length("customer_id", b.CustomerID, 1, 64), length("channel", b.Channel, 1, 10),
		oneOf("channel", b.Channel, "email", "sms"), length("subject", b.Subject, 0, 200), length("body", b.Body, 1, 10_000))
	if err != nil {
		return answer{}, err
	}
	customer := s.store.customers.get(b.CustomerID)
	if customer == nil {
		return answer{}, invalid("customer_id", "There is no customer with this id.")
	}
	to := customer.Email
	if b.Channel == "sms" {
		if to = customer.Phone; to == "" {
			return answer{}, invalid("channel", "The customer has no phone number.")
		}
	}
	m := &Message{
		ID: s.store.nextID(kindMessage), CustomerID: b.CustomerID, Channel: b.Channel, To: to,
		Subject: b.Subject, Body: b.Body, Status: "sent", CreatedAt: s.now(),
	}
	return created(m), s.store.commit(change{Message: m})
}

package activities

import (
	"context"
	"errors"

	"agentruntime/internal/base/flow"
)

// Erasures is what the activities of an erasure need of the customer domain.
type Erasures interface {
	EraseNext(ctx context.Context, ref flow.CustomerRef) (flow.EraseStep, error)
}

// Customers contains the activities of an erasure.
type Customers struct{ erasures Erasures }

// NewCustomers returns the activities over erasures. It returns an error where erasures is nil.
func NewCustomers(erasures Erasures) (*Customers, error) {
	if erasures == nil {
		return nil, errors.New("activities: erasures is required")
	}
	return &Customers{erasures: erasures}, nil
}

// EraseNext erases the next batch of what is stored about a customer.
func (c *Customers) EraseNext(ctx context.Context, in flow.CustomerRef) (flow.EraseStep, error) {
	step, err := c.erasures.EraseNext(ctx, in)
	return step, applicationError(err)
}

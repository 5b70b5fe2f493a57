package answering

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"agentruntime/internal/agents/conversation"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/tenant/account"
	"agentruntime/internal/tenant/customer"
)

// Writers finds the customers that write to agents; it implements conversation.Customers.
type Writers struct {
	Keys interface {
		Key(ctx context.Context, tenant uuid.UUID) (*datakey.Key, error)
	}
	// Customers is not needed by Check.
	Customers *customer.Service
}

// presented opens the identity secrets of the key, where it has some.
func (w Writers) presented(ctx context.Context, who actor.Actor, req conversation.Request) (customer.Presented, error) {
	p := customer.Presented{Mode: customer.Mode(req.Mode), CustomerID: req.CustomerID, Identity: req.Identity, Hash: req.IdentityHash}
	if len(req.IdentitySecrets) == 0 {
		return p, nil
	}
	key, err := w.Keys.Key(ctx, who.TenantID)
	if err != nil {
		return p, fmt.Errorf("answering: open an identity secret: %w", err)
	}
	for _, sealed := range req.IdentitySecrets {
		secret, err := key.Open(account.IdentityPlace(who.TenantID, who.ID), sealed)
		if err != nil {
			return p, fmt.Errorf("answering: open an identity secret: %w", err)
		}
		p.Secrets = append(p.Secrets, secret)
	}
	return p, nil
}

// Check implements conversation.Customers.
func (w Writers) Check(ctx context.Context, who actor.Actor, req conversation.Request) error {
	p, err := w.presented(ctx, who, req)
	if err != nil {
		return err
	}
	return p.Check()
}

// Writer implements conversation.Customers.
func (w Writers) Writer(ctx context.Context, who actor.Actor, req conversation.Request) (*conversation.Writer, error) {
	p, err := w.presented(ctx, who, req)
	if err != nil {
		return nil, err
	}
	found, err := w.Customers.Identify(ctx, who, p)
	if err != nil || found == nil {
		return nil, err
	}
	return &conversation.Writer{ID: found.Customer.ID, Ignored: found.Ignored}, nil
}

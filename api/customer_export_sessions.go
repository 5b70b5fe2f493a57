package api

import (
	"context"

	"github.com/google/uuid"

	"agentruntime/internal/agents/conversation"
	"agentruntime/internal/base/actor"
)

// inSessions calls visit with each session of the customer, also with messages that are in none.
func (x *customerExport) inSessions(ctx context.Context, visit func(conversation.Session) error) error {
	for after, more := uuid.Nil, true; more; {
		var page []conversation.Session
		var err error
		if page, more, err = x.h.agentSessions.SessionsOf(ctx, x.tenant, x.e.Customer.ID, x.e.At, after, exportPage); err != nil {
			return err
		}
		for _, one := range page {
			if err := visit(one); err != nil {
				return err
			}
			after = one.ID
		}
	}
	return nil
}

// sessions are the customer's sessions with agents.
func (x *customerExport) sessions(ctx context.Context, put func(any) error) error {
	return x.inSessions(ctx, func(one conversation.Session) error { return put(viewAgentSession(one)) })
}

// exportedMessage is something that was said in a session.
type exportedMessage struct {
	AgentID   uuid.UUID      `json:"agent_id"`
	SessionID *string        `json:"session_id"`
	Message   sessionMessage `json:"message"`
}

// sessionMessages are what was said in these sessions, the newest of each first, with feedback.
func (x *customerExport) sessionMessages(ctx context.Context, put func(any) error) error {
	return x.inSessions(ctx, func(of conversation.Session) error {
		for before, more := int64(0), true; more; {
			var page []conversation.Said
			var err error
			if page, more, err = x.h.agentSessions.Transcript(ctx, x.tenant, of, before, exportPage); err != nil {
				return err
			}
			for _, one := range page {
				if err := put(exportedMessage{of.AgentID, textOrNull(of.SessionID), viewSaid(one)}); err != nil {
					return err
				}
				before = one.Place
			}
		}
		return nil
	})
}

// messageExecutions are the executions of the customer's messages, without their texts.
func (x *customerExport) messageExecutions(ctx context.Context, put func(any) error) error {
	f := conversation.Filter{Customer: &x.e.Customer.ID, Until: &x.e.At, Limit: exportPage}
	for {
		page, more, err := x.h.conversations.List(ctx, actor.SystemOf(x.tenant), f)
		if err != nil {
			return err
		}
		for _, t := range page {
			if err := put(viewTurn(t, x.h.now())); err != nil {
				return err
			}
			f.Before = &t.ID
		}
		if !more {
			return nil
		}
	}
}

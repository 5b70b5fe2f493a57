package audit

import (
	"context"

	"github.com/google/uuid"

	"agentruntime/internal/kernel/actor"
)

// Actor is who makes a change, and how he reached us.
type Actor struct {
	Type       actor.Kind
	ID         string // of the key or the user
	RequestID  string
	SourceAddr string
}

type actorKey struct{}

// WithActor returns a context that carries who acts. The api package sets it once a
// call is authenticated, so that the domain methods behind it can record who did it
// without each taking it as a parameter.
func WithActor(ctx context.Context, a Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, a)
}

// ActorOf returns who acts, actor.System where nobody was named.
func ActorOf(ctx context.Context) Actor {
	if a, ok := ctx.Value(actorKey{}).(Actor); ok {
		return a
	}
	return Actor{Type: actor.System}
}

// Change starts the record of a change that the actor of ctx makes to a subject.
func Change(ctx context.Context, tenant uuid.UUID, action Action, subject Subject, subjectID string) Record {
	a := ActorOf(ctx)
	return Record{
		TenantID: tenant, ActorType: a.Type, ActorID: a.ID, Action: action, SubjectType: subject, SubjectID: subjectID,
		RequestID: a.RequestID, SourceAddr: a.SourceAddr,
	}
}

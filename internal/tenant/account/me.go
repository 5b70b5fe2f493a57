package account

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/record/audit"
)

// Identity is who a caller is. Key is set for an API key; User, Session and TenantName are
// for a person.
type Identity struct {
	TenantID   uuid.UUID
	TenantName string
	User       *User
	Session    *Session
	Key        *Key
}

// Session is one login of a person.
type Session struct {
	ID        uuid.UUID
	CreatedAt time.Time
	// ExpiresAt is when the session ends, however often it is refreshed.
	ExpiresAt time.Time
	// RefreshedAt is when the session last got a token, at its login or by a refresh.
	RefreshedAt time.Time
}

// Me returns who the caller is. A key is told nothing of the people of its tenant, for it may
// be known to every visitor of a page: the tenant is named after the person who signed up.
func (s *Service) Me(ctx context.Context, who actor.Actor, session uuid.UUID) (Identity, error) {
	if who.Kind == actor.Key {
		key, err := s.GetKey(ctx, who.TenantID, who.ID.String())
		return Identity{TenantID: who.TenantID, Key: &key}, err
	}
	tenant, err := s.q.GetTenant(ctx, s.d.DB.Tenant(who.TenantID), who.TenantID)
	if err != nil {
		return Identity{}, fmt.Errorf("account: read tenant: %w", err)
	}
	user, err := s.user(ctx, s.d.DB.Tenant(who.TenantID), who.TenantID, who.ID)
	if err != nil {
		return Identity{}, err
	}
	me := Identity{TenantID: who.TenantID, TenantName: tenant.Name, User: &user}
	all, err := s.Sessions(ctx, who)
	for _, found := range all {
		if found.ID == session {
			me.Session = &found
		}
	}
	return me, err
}

// Sessions returns the caller's sessions that have not ended, the newest first. Their number
// is bounded by the quota sessions.
func (s *Service) Sessions(ctx context.Context, who actor.Actor) ([]Session, error) {
	rows, err := s.q.ListSessions(ctx, s.d.DB.Tenant(who.TenantID), dbsqlc.ListSessionsParams{TenantID: who.TenantID, UserID: who.ID, Now: s.now()})
	if err != nil {
		return nil, fmt.Errorf("account: list sessions: %w", err)
	}
	out := make([]Session, len(rows))
	for i, row := range rows {
		out[i] = Session{ID: row.ID, CreatedAt: row.CreatedAt.UTC(), ExpiresAt: row.ExpiresAt.UTC(), RefreshedAt: row.RefreshedAt.UTC()}
	}
	return out, nil
}

// EndSession ends one of the caller's own sessions. An unknown one, one of another user and
// one that has ended are SESSION_NOT_FOUND.
func (s *Service) EndSession(ctx context.Context, who actor.Actor, session uuid.UUID) error {
	n, err := s.endSessions(ctx, who, dbsqlc.EndSessionsParams{Session: &session})
	if err == nil && n == 0 {
		return fault.New(fault.CodeSessionNotFound, "")
	}
	return err
}

// EndOtherSessions ends all of the caller's sessions but the one given.
func (s *Service) EndOtherSessions(ctx context.Context, who actor.Actor, keep uuid.UUID) error {
	_, err := s.endSessions(ctx, who, dbsqlc.EndSessionsParams{Keep: &keep})
	return err
}

// endSessions ends the caller's sessions that the filter selects, and records how many.
func (s *Service) endSessions(ctx context.Context, who actor.Actor, filter dbsqlc.EndSessionsParams) (int, error) {
	filter.TenantID, filter.UserID, filter.Now = who.TenantID, who.ID, s.now()
	var ended int64
	err := s.d.DB.InTenant(ctx, who.TenantID, func(tx pgx.Tx) (err error) {
		if ended, err = s.q.EndSessions(ctx, tx, filter); err != nil {
			return fmt.Errorf("account: end sessions: %w", err)
		}
		if ended == 0 {
			return nil
		}
		return audit.Append(ctx, tx, aboutUser(who, audit.UserSessionsEnded, who.ID).With(map[string]any{"sessions": ended}))
	})
	return int(ended), err
}

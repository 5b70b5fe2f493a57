package auth

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/rate"
)

// usedResolution is how exact last_used_at is: a busy key is written once in this time.
const usedResolution = time.Minute

// Deps are what an Authenticator works with; Now may be nil.
type Deps struct {
	DB      *db.Pool
	Secrets *Secrets
	Tokens  *Tokens
	Plan    rate.Plan
	Now     func() time.Time
}

// Authenticator turns a presented secret into a principal. Nothing is cached: a
// revoked key and an ended session are refused from the next call on.
//
// The statement that reads the key or the session also counts the request in the windows of the
// tenant; see package rate. So the counting costs no round trip.
type Authenticator struct {
	d Deps
	q *dbsqlc.Queries
	// keys are read for all requests that wait for them.
	keys *together
}

// NewAuthenticator checks the collaborators.
func NewAuthenticator(d Deps) (*Authenticator, error) {
	if d.DB == nil || d.Secrets == nil || d.Tokens == nil {
		return nil, errors.New("auth: database, secrets and tokens are required")
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	d.Plan = d.Plan.WithDefaults()
	a := &Authenticator{d: d, q: dbsqlc.New()}
	a.keys = &together{present: a.present, keys: map[string]*group{}}
	return a, nil
}

// Key authenticates an API key in one round trip, a mistyped one in none; once a
// minute a second one notes that the key is in use. To do that in the same statement
// would double the time of every call. It refuses with INVALID_API_KEY, API_KEY_REVOKED or
// API_KEY_EXPIRED, and with RATE_LIMITED. The last one comes with the principal.
func (a *Authenticator) Key(ctx context.Context, raw string) (Principal, error) {
	hash, wellFormed := a.d.Secrets.KeyHash(raw)
	if !wellFormed {
		return Principal{}, fault.New(fault.CodeInvalidAPIKey, "")
	}
	row, after, err := a.presented(ctx, string(hash))
	switch {
	case db.IsNoRows(err):
		return Principal{}, fault.New(fault.CodeInvalidAPIKey, "")
	case err != nil:
		return Principal{}, fmt.Errorf("auth: read key: %w", err)
	case row.RevokedAt != nil:
		return Principal{}, fault.New(fault.CodeAPIKeyRevoked, "")
	}
	now := a.d.Now().UTC()
	if err := expired(row, now); err != nil {
		return Principal{}, err
	}
	own := rate.Own{Minute: row.RequestsPerMinute, Hour: row.RequestsPerHour, Day: row.RequestsPerDay}
	used, err := countOf(ctx, row.Counted, false, own, after)
	if err != nil {
		return Principal{}, fmt.Errorf("auth: read the count of requests: %w", err)
	}
	who := Principal{
		Kind: actor.Key, TenantID: row.TenantID, Name: row.Name, KeyID: row.ID, Permissions: row.Permissions,
		AgentID: db.Text(row.AgentID), IdentityMode: db.Text(row.IdentityMode), AllowedOrigins: row.AllowedOrigins, AllowedIPs: row.AllowedIps,
		Rate: used,
	}
	if row.IdentitySecret != nil {
		who.IdentitySecrets = []string{*row.IdentitySecret}
		if row.IdentityPrevious != nil && row.IdentityPreviousUntil != nil && row.IdentityPreviousUntil.After(now) {
			who.IdentitySecrets = append(who.IdentitySecrets, *row.IdentityPrevious)
		}
	}
	if used.Refused {
		return who, limited(used)
	}
	usedBefore := now.Add(-usedResolution)
	if row.LastUsedAt == nil || !row.LastUsedAt.After(usedBefore) {
		use := dbsqlc.NoteAPIKeyUseParams{ID: row.ID, TenantID: row.TenantID, Now: now, UsedBefore: usedBefore}
		if err := a.q.NoteAPIKeyUse(ctx, a.d.DB.Tenant(row.TenantID), use); err != nil {
			return Principal{}, fmt.Errorf("auth: note use of key: %w", err)
		}
	}
	return who, nil
}

type uncounted struct{}

// Uncounted returns a context in which Key and Token count no request: for a caller who is looked
// at again while their request lasts.
func Uncounted(ctx context.Context) context.Context { return context.WithValue(ctx, uncounted{}, true) }

func counts(ctx context.Context) bool { return ctx.Value(uncounted{}) == nil }

// countOf reads the count of a request; it returns the zero State for one that is not counted.
func countOf(ctx context.Context, counted []int64, people bool, own rate.Own, after int32) (rate.State, error) {
	if !counts(ctx) {
		return rate.State{}, nil
	}
	return rate.Read(counted, people, own, int64(after))
}

// limited returns RATE_LIMITED for a request that found a window full.
func limited(found rate.State) error {
	w := found.Tightest()
	f := fault.Newf(fault.CodeRateLimited, "The limit of %d requests (%s) is reached. Try again in %d s.", w.Limit, w.Name, w.Reset())
	f.RetryAfter = found.RetryAfter()
	return f
}

// presented returns the key, and how many requests were counted after this one by the same
// statement.
func (a *Authenticator) presented(ctx context.Context, hash string) (row dbsqlc.PresentAPIKeyRow, after int32, err error) {
	if !counts(ctx) {
		row, err = a.present(ctx, hash, 0)
		return row, 0, err
	}
	return a.keys.read(ctx, hash)
}

// present reads a key, and counts so many requests with it; 0: it counts none.
func (a *Authenticator) present(ctx context.Context, hash string, requests int32) (dbsqlc.PresentAPIKeyRow, error) {
	return a.q.PresentAPIKey(ctx, a.d.DB.Presenting(db.SettingKeyHash, hex.EncodeToString([]byte(hash))), dbsqlc.PresentAPIKeyParams{
		Hash: []byte(hash), Now: a.d.Now().UTC(), Counts: requests > 0, Requests: requests,
		Defaults: a.d.Plan.Default.Array(), Ceilings: a.d.Plan.Ceiling.Array(),
	})
}

// expired refuses a key whose time is over, and a secret that a rotation has replaced.
func expired(row dbsqlc.PresentAPIKeyRow, now time.Time) error {
	switch {
	case row.ExpiresAt != nil && !row.ExpiresAt.After(now):
		return fault.New(fault.CodeAPIKeyExpired, "")
	case row.UntilAt != nil && !row.UntilAt.After(now):
		return fault.New(fault.CodeAPIKeyExpired, "The API key was rotated, and this secret is no longer valid. Use the new one.")
	}
	return nil
}

// Token authenticates a JWT and the session it belongs to, in one round trip. It
// refuses with INVALID_TOKEN or TOKEN_EXPIRED, and with RATE_LIMITED. The last one comes with the
// principal.
func (a *Authenticator) Token(ctx context.Context, raw string) (Principal, error) {
	c, err := a.d.Tokens.Verify(raw)
	if err != nil {
		return Principal{}, err
	}
	now := a.d.Now()
	row, err := a.q.PresentSession(ctx, a.d.DB.Tenant(c.TenantID), dbsqlc.PresentSessionParams{
		ID: c.SessionID, TenantID: c.TenantID, UserID: c.UserID, Now: now, Counts: counts(ctx), Defaults: a.d.Plan.Default.Array(), Ceilings: a.d.Plan.Ceiling.Array(),
	})
	switch {
	case db.IsNoRows(err):
		return Principal{}, fault.New(fault.CodeInvalidToken, invalidToken)
	case err != nil:
		return Principal{}, fmt.Errorf("auth: read session: %w", err)
	case row.RevokedAt != nil, !row.ExpiresAt.After(now):
		return Principal{}, fault.New(fault.CodeInvalidToken, invalidToken)
	}
	used, err := countOf(ctx, row.Counted, true, rate.Own{}, 0)
	if err != nil {
		return Principal{}, fmt.Errorf("auth: read the count of requests: %w", err)
	}
	who := Principal{
		Kind: actor.User, TenantID: c.TenantID, Name: row.Name,
		UserID: c.UserID, SessionID: c.SessionID, Email: row.Email, Role: actor.Role(row.Role), Rate: used,
	}
	if used.Refused {
		return who, limited(used)
	}
	return who, nil
}

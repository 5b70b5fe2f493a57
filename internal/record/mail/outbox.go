package mail

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
)

// Channel is where a queued mail is told of, with the commit.
const Channel = "mail"

// Lease is how long a mail that was taken is left alone. Where its process dies, another one
// takes it then.
const Lease = 2 * time.Minute

// Taken is a mail that was taken for one attempt.
type Taken struct {
	Mail

	// Attempt counts from 1.
	Attempt int
}

// Take returns at most that many mails that are due, of all tenants. No other process gets them
// within Lease.
func Take(ctx context.Context, pool *db.Pool, most int, now time.Time) ([]Taken, error) {
	rows, err := dbsqlc.New().TakeMails(ctx, everyTenant(pool), dbsqlc.TakeMailsParams{Now: now, Lease: now.Add(Lease), Most: int32(most)})
	if err != nil {
		return nil, fmt.Errorf("mail: take: %w", err)
	}
	out := make([]Taken, len(rows))
	for i, r := range rows {
		out[i] = Taken{Mail: Mail{ID: r.ID, TenantID: r.TenantID, UserID: r.UserID, Kind: Kind(r.Kind), Address: r.Address}, Attempt: int(r.Attempts)}
		if err := json.Unmarshal([]byte(r.Data), &out[i].Data); err != nil {
			return nil, fmt.Errorf("mail: the data of mail %s: %w", r.ID, err)
		}
	}
	return out, nil
}

// Outcome is how a mail ended.
type Outcome string

// The outcomes.
const (
	Sent Outcome = "sent" // a server has accepted it
	// Void: there was nothing to tell when it was to be sent. The address has no user, or its
	// invitation was withdrawn.
	Void   Outcome = "void"
	Failed Outcome = "failed" // the last attempt failed too
)

// End ends the mail, unless another process has taken it since. reason is that of a failure.
func End(ctx context.Context, pool *db.Pool, m Taken, o Outcome, reason string, now time.Time) error {
	err := dbsqlc.New().EndMail(ctx, everyTenant(pool), dbsqlc.EndMailParams{
		ID: m.ID, Attempts: int32(m.Attempt), Outcome: string(o), Error: db.Optional(reason), Now: now,
	})
	if err != nil {
		return fmt.Errorf("mail: end: %w", err)
	}
	return nil
}

// Retry makes the mail due at the time, unless another process has taken it since.
func Retry(ctx context.Context, pool *db.Pool, m Taken, reason string, at time.Time) error {
	err := dbsqlc.New().RetryMail(ctx, everyTenant(pool), dbsqlc.RetryMailParams{ID: m.ID, Attempts: int32(m.Attempt), Error: db.Optional(reason), DueAt: at})
	if err != nil {
		return fmt.Errorf("mail: retry: %w", err)
	}
	return nil
}

// Kept is how long a mail that has ended is kept, for operators. A token is kept as long after its
// end, so that a mail that is sent again cannot make a used one valid.
const Kept = 7 * 24 * time.Hour

// ForgetEvery is the pause between two calls of Forget, and forgetMost how many rows one
// transaction forgets.
const (
	ForgetEvery = time.Minute
	forgetMost  = 1000
)

// Forget deletes the mails and tokens that were no longer Kept at the time now, and the windows
// that had ended, in small batches.
func Forget(ctx context.Context, pool *db.Pool, now time.Time) error {
	q, tx, before := dbsqlc.New(), everyTenant(pool), now.Add(-Kept)
	for _, batch := range []func() (int64, error){
		func() (int64, error) {
			return q.ForgetMails(ctx, tx, dbsqlc.ForgetMailsParams{Before: before, Most: forgetMost})
		},
		func() (int64, error) {
			return q.ForgetMailTokens(ctx, tx, dbsqlc.ForgetMailTokensParams{Before: before, Most: forgetMost})
		},
		func() (int64, error) {
			return q.ForgetMailWindows(ctx, tx, dbsqlc.ForgetMailWindowsParams{Now: now, Most: forgetMost})
		},
	} {
		for n := int64(forgetMost); n == forgetMost; {
			var err error
			if n, err = batch(); err != nil {
				return fmt.Errorf("mail: forget: %w", err)
			}
		}
	}
	return nil
}

func everyTenant(pool *db.Pool) dbsqlc.DBTX { return pool.Presenting(db.SettingSweep, "on") }

// NewID returns the id of a mail.
func NewID() uuid.UUID { return uuid.Must(uuid.NewV7()) }

package vault

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/event"
)

// NoticeEvery is the pause between two calls of TellOfExpiry, and noticeMost how many credentials
// one look finds.
const (
	NoticeEvery = time.Minute
	noticeMost  = 100
)

// notices are how long before its end the tenant is told of a credential: early enough to plan a
// rotation, and once more when it is urgent. Each is told once.
func notices() []time.Duration { return []time.Duration{7 * 24 * time.Hour, 24 * time.Hour, 0} }

// nextNotice returns when the tenant is to be told of a credential next, after now; nil where it
// does not expire. What was due before now is not told late: the next notice says more.
func nextNotice(expires *time.Time, now time.Time) *time.Time {
	if expires == nil {
		return nil
	}
	for _, before := range notices() {
		if at := expires.Add(-before); at.After(now) {
			return &at
		}
	}
	return nil
}

// checkExpiry refuses an end that is not to come.
func checkExpiry(expires *time.Time, now time.Time) error {
	if expires != nil && !expires.After(now) {
		return fault.Invalid("/expires_at", "range", "expires_at must be in the future.")
	}
	return nil
}

// end writes the new end of the patch, if any, into the change.
func (p Patch) end(arg *dbsqlc.PatchCredentialParams) error {
	if p.ExpiresAt == nil {
		return nil
	}
	arg.Ends, arg.ExpiresAt, arg.NoticeAt = true, *p.ExpiresAt, nextNotice(*p.ExpiresAt, arg.Now)
	return checkExpiry(*p.ExpiresAt, arg.Now)
}

// checkRevived refuses to make a credential active whose end has come.
func checkRevived(old dbsqlc.Credential, arg dbsqlc.PatchCredentialParams) error {
	revived := !arg.Ends && arg.Status != nil && *arg.Status == string(StatusActive)
	if revived && old.ExpiresAt != nil && !old.ExpiresAt.After(arg.Now) {
		return fault.Invalid("/status", "expired", "The credential has expired. Rotate it, or set another expires_at.")
	}
	return nil
}

// TellOfExpiry tells tenants of the credentials that expire soon, and ends those that have expired:
// no call uses them from then on. A credential is told of in the transaction that notes it.
func (v *Vault) TellOfExpiry(ctx context.Context) error {
	for {
		rows, err := v.q.CredentialsToTell(ctx, v.db.Presenting(db.SettingSweep, "on"), dbsqlc.CredentialsToTellParams{Now: v.now(), Most: noticeMost})
		if err != nil {
			return fmt.Errorf("vault: look for credentials that expire: %w", err)
		}
		for _, r := range rows {
			if err := v.tellOfExpiry(ctx, r.TenantID, r.ID); err != nil {
				return fmt.Errorf("vault: tell of a credential that expires: %w", err)
			}
		}
		if len(rows) < noticeMost {
			return nil
		}
	}
}

func (v *Vault) tellOfExpiry(ctx context.Context, tenant, id uuid.UUID) error {
	return v.db.InTenant(ctx, tenant, func(tx pgx.Tx) error {
		now := v.now()
		row, err := v.q.LockCredential(ctx, tx, dbsqlc.LockCredentialParams{TenantID: tenant, ID: id})
		if db.IsNoRows(err) || err == nil && (row.NoticeAt == nil || row.NoticeAt.After(now) || row.ExpiresAt == nil) {
			return nil // another process was first, or it was rotated or deleted
		}
		if err != nil {
			return err
		}
		c, ended := shown(row), !row.ExpiresAt.After(now)
		b := &db.Batch{}
		db.QueueExec(b, v.q.NoteExpiry, dbsqlc.NoteExpiryParams{TenantID: tenant, ID: id, NoticeAt: nextNotice(row.ExpiresAt, now), Expired: ended, Now: now})
		if c.Status == StatusActive {
			body := event.Expiry{CredentialID: id.String(), Provider: c.Provider, Kind: string(c.Type), Label: c.Label, ExpiresAt: *c.ExpiresAt}
			e := event.Event{TenantID: tenant, About: event.About{CustomerID: c.CustomerID}, Body: event.Expiring{Expiry: body}}
			if ended {
				e.Body = event.ExpiredCredential{Expiry: body}
				audit.Queue(b, changed(actor.SystemOf(tenant), audit.CredentialUpdated, c).With(map[string]any{"fields": []string{"status"}, "status": StatusExpired}))
			}
			event.Queue(b, e)
		}
		return b.SendIn(ctx, tx)
	})
}

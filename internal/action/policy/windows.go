package policy

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/record/quota"
)

// Count reads what the windows of a call contain, without the run itself, in one round trip. It
// costs none where no condition asks for a window, or the call has no value for any.
func (s *Sets) Count(ctx context.Context, tenant uuid.UUID, key *datakey.Key, w *governance.Windows, run uuid.UUID) error {
	digestWindows(key, w.Uses)
	if !w.Ask() {
		return nil
	}
	counted, err := s.q.CountWindows(ctx, s.db.Tenant(tenant), dbsqlc.CountWindowsParams{TenantID: tenant, RunID: run, Windows: w.Stored(false)})
	if err != nil {
		return fmt.Errorf("policy: count windows: %w", err)
	}
	if err := w.Take(counted); err != nil {
		return fmt.Errorf("policy: count windows: %w", err)
	}
	return nil
}

// windowDigest is how many bytes of a digest are stored: none of a tenant's values share them.
const windowDigest = 16

// digestWindows sets the values as they are stored: without the tenant's key nobody can try values
// against them, and the same value of two windows has two digests.
func digestWindows(key *datakey.Key, uses []governance.WindowUse) {
	for i := range uses {
		if u := &uses[i]; u.Value != nil {
			u.Digest = digestWindow(key, u.ID, u.Value)
			u.AlsoDigests = make([][]byte, len(u.Also))
			for n, other := range u.Also {
				u.AlsoDigests[n] = digestWindow(key, u.ID, other)
			}
		}
	}
}

func digestWindow(key *datakey.Key, id governance.WindowID, value []byte) []byte {
	return key.Digest(slices.Concat([]byte("window\x00"), id[:], value))[:windowDigest]
}

// followWindows brings what is counted in line with what the tenant's enabled policies ask for, in
// the transaction that changes them. changed is the policy that is written. A window that is new, or
// is longer than before, has to be filled; until then it is in doubt. The error may be QUOTA_EXCEEDED.
func (s *Service) followWindows(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, changed governance.Policy) error {
	kept, err := s.q.WindowsOfPolicies(ctx, tx, tenant)
	if err != nil {
		return fmt.Errorf("policy: windows: %w", err)
	}
	if len(kept) == 0 && len(governance.WindowDefs([]governance.Policy{changed})) == 0 {
		return nil
	}
	all, _, _, err := load(ctx, s.q, tx, tenant)
	if err != nil {
		return err
	}
	defs := governance.WindowDefs(all)
	for _, row := range kept {
		at := slices.IndexFunc(defs, func(d governance.WindowDef) bool { return slices.Equal(d.ID[:], row.ID) })
		if at >= 0 && minutes(defs[at].Longest) <= row.Per {
			per := minutes(defs[at].Longest)
			defs = slices.Delete(defs, at, at+1)
			if per < row.Per {
				err = s.q.ShortenWindow(ctx, tx, dbsqlc.ShortenWindowParams{TenantID: tenant, Series: row.Series, Per: per})
			}
		} else {
			err = s.q.EndWindow(ctx, tx, dbsqlc.EndWindowParams{TenantID: tenant, Series: row.Series, Now: s.now()})
		}
		if err != nil {
			return fmt.Errorf("policy: windows: %w", err)
		}
	}
	return s.addWindows(ctx, tx, tenant, defs)
}

// addWindows begins to count.
func (s *Service) addWindows(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, defs []governance.WindowDef) error {
	for _, d := range defs {
		series, err := uuid.NewV7()
		if err != nil {
			return fmt.Errorf("policy: make an id: %w", err)
		}
		err = s.q.InsertWindow(ctx, tx, dbsqlc.InsertWindowParams{TenantID: tenant, Series: series, ID: d.ID[:], Per: minutes(d.Longest)})
		if err != nil {
			return fmt.Errorf("policy: windows: %w", err)
		}
	}
	if len(defs) == 0 {
		return nil
	}
	return s.quotas.Require(ctx, tx, tenant, quota.Windows)
}

func minutes(d time.Duration) int32 { return int32(d / time.Minute) }

package definition

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
)

const (
	// ForgetEvery is the pause between two passes of Forget, forgetMaps how many Maps one pass looks
	// at, and lookAgain how long one that an execution needs is left alone.
	ForgetEvery = 10 * time.Minute
	forgetMaps  = 100
	lookAgain   = 24 * time.Hour
	// forgetRows is how many rows one transaction deletes. A version has up to 256 KiB.
	forgetRows = 100
)

// Forget deletes the Maps of all tenants that were deleted before the given time, with their
// versions and the names of their triggers, where no execution needs them: those of the Map, and
// those that start it, have ended and their texts are erased.
func (s *Service) Forget(ctx context.Context, before time.Time) error {
	rows, err := s.q.DeletedMaps(ctx, s.d.DB.Presenting(db.SettingSweep, "on"), dbsqlc.DeletedMapsParams{
		Before: before, Again: s.d.Now().Add(-lookAgain), Most: forgetMaps,
	})
	if err != nil {
		return fmt.Errorf("definition: deleted Maps: %w", err)
	}
	for _, row := range rows {
		for more := true; more; {
			if more, err = s.forget(ctx, row.TenantID, row.ID); err != nil {
				return fmt.Errorf("definition: forget a Map: %w", err)
			}
		}
	}
	return nil
}

// forget deletes the next rows of one Map, and reports whether there may be more.
func (s *Service) forget(ctx context.Context, tenant, id uuid.UUID) (more bool, err error) {
	err = s.d.DB.InTenant(ctx, tenant, func(tx pgx.Tx) error {
		looked, err := s.q.LookAtDeletedMap(ctx, tx, dbsqlc.LookAtDeletedMapParams{TenantID: tenant, ID: id, Now: s.d.Now()})
		if err != nil || len(looked) == 0 || looked[0] {
			return err
		}
		keys, err := s.q.ForgetMapKeys(ctx, tx, dbsqlc.ForgetMapKeysParams{TenantID: tenant, MapID: id, Most: forgetRows})
		if err != nil {
			return err
		}
		versions, err := s.q.ForgetMapVersions(ctx, tx, dbsqlc.ForgetMapVersionsParams{TenantID: tenant, MapID: id, Most: forgetRows})
		if err != nil {
			return err
		}
		if more = keys == forgetRows || versions == forgetRows; more {
			return nil
		}
		return s.q.ForgetMap(ctx, tx, dbsqlc.ForgetMapParams{TenantID: tenant, ID: id})
	})
	return more, err
}

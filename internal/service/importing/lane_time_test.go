package importing

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/edge/egress"
	"agentruntime/internal/provider/catalog"
	"agentruntime/internal/provider/vault"
)

// A busy machine takes long for a harmless document, small or large. The counted work bounds the others.
func TestImportOfAnySizeHasTimeOnABusyMachine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, err := New(egress.Config{}, Deps{Catalog: &catalog.Catalog{}, Vault: &vault.Vault{}})
		require.NoError(t, err)
		who := actor.Actor{Kind: actor.Key, TenantID: uuid.New(), ID: uuid.New()}
		for name, l := range map[string]lane{"small": s.small, "large": s.large} {
			lasts := func(d time.Duration) error {
				return l.do(t.Context(), who, func(ctx context.Context, _ lane) error {
					select {
					case <-time.After(d):
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				})
			}
			require.NoError(t, lasts(50*time.Second), name)
			err := lasts(2 * time.Minute)
			require.True(t, fault.HasCode(err, fault.CodeServiceUnavailable), "%s: %v", name, err)
		}
	})
}

package run_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/run"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/tenant/customer"
)

// noErasures starts none.
type noErasures struct{}

func (noErasures) StartErasure(context.Context, flow.CustomerRef) error { return nil }

func TestRunsOfACustomerAreListedByEachOfTheirIDs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	customers, err := customer.New(customer.Deps{DB: r.db.Pool, Workflows: noErasures{}, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	external := "u1"
	owner := actor.Actor{Kind: actor.User, TenantID: r.tenant, ID: uuid.New()}
	ada, _, err := customers.Upsert(t.Context(), owner, customer.Identity{ExternalID: &external})
	require.NoError(t, err)
	for i, name := range []string{"u1", ada.ID.String(), "u2", "u1", ada.ID.String()} {
		_, err := r.do("pay", fmt.Sprint("e", i), `{}`, func(q *run.Request) { q.Metadata = json.RawMessage(`{"customer_id":"` + name + `"}`) })
		require.NoError(t, err)
	}
	for _, name := range []string{"u1", ada.ID.String()} {
		for limit := 1; limit <= 5; limit++ {
			var got []string
			f := run.Filter{CustomerID: name, Limit: limit}
			for more := true; more; {
				var page []run.Run
				page, more, err = r.List(t.Context(), owner, f)
				require.NoError(t, err)
				for _, one := range page {
					got = append(got, one.ExecutionID)
					f.Before = &one.ID
				}
			}
			require.Equal(t, []string{"e4", "e3", "e1", "e0"}, got, "by %s, %d on a page", name, limit)
		}
	}
	list, _, err := r.List(t.Context(), owner, run.Filter{CustomerID: "u2", Limit: 5})
	require.NoError(t, err)
	require.Len(t, list, 1, "one that the tenant has no record of")
}

package audit_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/actor"
	"agentruntime/internal/record/audit"
)

// large appends n records of 1 MB each: half in the input, half in the details.
func large(t *testing.T, tr *trail, tenant uuid.UUID, n int) {
	t.Helper()
	text := json.RawMessage(`{"note":"` + strings.Repeat("x", 500_000) + `"}`)
	for range n {
		r := audit.Record{TenantID: tenant, ActorType: actor.Key, Action: audit.RunBlocked, Input: text, Details: text}
		require.NoError(t, audit.Append(t.Context(), tr.db.Tenant(tenant), r))
	}
}

func TestPageOfLargeRecordsEndsAtItsBytes(t *testing.T) {
	t.Parallel()
	tr := newTrail(t, audit.Config{})
	tenant := tr.tenant(t)
	const n = 15
	large(t, tr, tenant, n)
	var before *uuid.UUID
	seen := map[uuid.UUID]bool{}
	for more := true; more; {
		page, again, err := tr.List(t.Context(), tenant, audit.Filter{}, before, 500)
		require.NoError(t, err)
		require.NotEmpty(t, page)
		size := 0
		for _, e := range page {
			require.False(t, seen[e.ID])
			seen[e.ID] = true
			size += len(e.Input) + len(e.Details)
		}
		require.Less(t, size, 5<<20+500_000)
		before, more = &page[len(page)-1].ID, again
	}
	require.Len(t, seen, n)
}

func TestExportOfLargeRecordsHasThemAll(t *testing.T) {
	t.Parallel()
	tr := newTrail(t, audit.Config{})
	tenant := tr.tenant(t)
	const n = 6
	large(t, tr, tenant, n)
	x, err := tr.NDJSON(t.Context(), tenant, audit.Filter{})
	require.NoError(t, err)
	var file bytes.Buffer
	require.NoError(t, x.WriteTo(t.Context(), &file))
	require.Equal(t, n, strings.Count(file.String(), `"run.blocked"`))
}

package customer_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/record/event"
	"agentruntime/internal/tenant/customer"
)

func TestErasureCountsWhatItErasesAlsoAfterAFault(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	ada := o.made(customer.Identity{ExternalID: new("u1"), Email: new("ada@example.com"), Name: new("Ada Canary"), Tags: []string{"vip"}, Metadata: json.RawMessage(`{"x":"canary"}`)})
	twin := o.made(customer.Identity{ExternalID: new("u2")})
	_, err := o.Merge(t.Context(), o.who, "u1", "u2")
	require.NoError(t, err)
	o.letters.has, o.notes.has, o.notes.waits = 250, 1, true
	o.notes.since = 2

	_, err = o.Erase(t.Context(), o.who, "nobody", nil)
	refused(t, fault.CodeCustomerNotFound, err)
	o.failing = errors.New("the engine is away")
	e, err := o.Erase(t.Context(), o.who, "u2", nil)
	require.NoError(t, err)
	require.Equal(t, ada.ID, e.CustomerID)
	require.False(t, e.Completed())
	for _, reference := range []string{"u1", "u2", ada.ID.String(), twin.ID.String()} {
		_, err := o.Get(t.Context(), o.who.TenantID, reference)
		refused(t, fault.CodeCustomerNotFound, err)
	}
	for _, table := range []string{"customers", "customer_identifiers", "customer_terms", "customer_tags"} {
		require.Zero(t, o.count("SELECT count(*) FROM "+table), table)
	}
	_, err = o.Erase(t.Context(), o.who, "u1", nil)
	refused(t, fault.CodeCustomerNotFound, err)

	ref := flow.CustomerRef{TenantID: o.who.TenantID, CustomerID: ada.ID}
	require.NoError(t, o.StartErasures(t.Context()))
	require.Equal(t, []flow.CustomerRef{ref}, o.started, "one whose start failed is started later")
	o.notes.fails = errors.New("postgres is away")
	faults, steps := 0, 0
	for step := (flow.EraseStep{}); !step.Waits; steps++ {
		require.Less(t, steps, 20)
		if step, err = o.EraseNext(t.Context(), ref); err != nil {
			faults++
		}
	}
	require.Equal(t, 1, faults)
	require.ElementsMatch(t, []string{"u1", "u2", ada.ID.String(), twin.ID.String()}, o.letters.names)
	require.Equal(t, []string{ada.ID.String()}, o.letters.late, "a new customer may have the other names")
	e, err = o.Erasure(t.Context(), o.who.TenantID, ada.ID)
	require.NoError(t, err)
	require.False(t, e.Completed(), "a call is under way")
	require.Equal(t, []event.ErasedKind{{Kind: "letters", Count: 250}, {Kind: "notes", Count: 3}}, e.Erased)

	o.notes.waits = false
	for range 2 { // a step that is repeated changes nothing
		step, err := o.EraseNext(t.Context(), ref)
		require.NoError(t, err)
		require.True(t, step.Done)
	}
	e, err = o.Erasure(t.Context(), o.who.TenantID, ada.ID)
	require.NoError(t, err)
	require.True(t, e.Completed())
	require.Equal(t, 1, o.count("SELECT count(*) FROM events WHERE type = 'customer.erased'"))
	require.Equal(t, 1, o.count("SELECT count(*) FROM audit_records WHERE action = 'customer.erasure_completed'"))
	require.Zero(t, o.count("SELECT count(*) FROM customer_erasures e WHERE e::text LIKE '%u1%'"))
	require.Zero(t, o.count("SELECT count(*) FROM audit_records r WHERE r::text ILIKE '%canary%' OR r::text LIKE '%ada@%'"))
	_, err = o.Erasure(t.Context(), o.tenant().TenantID, ada.ID)
	refused(t, fault.CodeCustomerNotFound, err)
	require.NoError(t, o.StartErasures(t.Context()))
	require.Len(t, o.started, 1, "a completed one is not started again")

	again := o.made(customer.Identity{ExternalID: new("u1"), Email: new("ada@example.com")})
	require.NotEqual(t, ada.ID, again.ID, "the identifiers are free")
}

// Erasures that wait for calls are open for long. They keep no later one from its start, and neither
// does one whose start fails.
func TestErasureIsStartedBehindManyThatWait(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.exec(`INSERT INTO customer_erasures (tenant_id, customer_id, names, requested_by, requested_at)
		SELECT $1, gen_random_uuid(), '{x}', 'user:x', now() - n * interval '1 second' FROM generate_series(1, 120) n`, o.who.TenantID)
	o.failing = errors.New("the engine is away")
	for _, n := range []int{99, 119, 219} {
		require.NoError(t, o.StartErasures(t.Context()))
		require.Len(t, o.started, n)
	}
}

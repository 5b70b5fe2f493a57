package policy_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/policy"
	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/kernel/governance"
)

func looksUp(verbName string, lookups ...governance.Lookup) policy.Draft {
	if len(lookups) == 0 {
		lookups = []governance.Lookup{{Name: "order", Verb: verbName, Args: json.RawMessage(`{"order_id":{"field":"args.order_id"}}`)}}
	}
	return policy.Draft{
		Name: "Looks up", Action: "block", Matchers: verbs("shop:create_refund"), Lookups: lookups,
		Conditions: []governance.Condition{when("lookup.order.status", governance.OpNotEquals, `"paid"`)},
	}
}

func TestLookupsOfAPolicyAreKept(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.create(t, looksUp("shop:get_order"))
	read, warnings, err := b.Get(t.Context(), b.ours, p.ID)
	require.NoError(t, err)
	require.Len(t, warnings, 1)
	require.Equal(t, policy.LookupNotConnected, warnings[0].Code)
	require.Equal(t, p.Lookups, read.Lookups)
	v := b.decide(t, "shop:create_refund")
	require.Contains(t, v.Reason, "lookup: ")

	name := "Renamed"
	changed, _, err := b.Change(t.Context(), by(b.ours), p.ID, policy.Patch{Name: &name}, nil)
	require.NoError(t, err)
	require.Equal(t, p.Lookups, changed.Lookups, "what a PATCH does not name stays")
	changed, _, err = b.Change(t.Context(), by(b.ours), p.ID, policy.Patch{Lookups: []governance.Lookup{}, Conditions: []governance.Condition{}}, nil)
	require.NoError(t, err)
	require.Empty(t, changed.Lookups)
	restored, _, err := b.Restore(t.Context(), by(b.ours), p.ID, 1)
	require.NoError(t, err)
	require.Equal(t, p.Lookups, restored.Lookups)
	versions, _, err := b.Versions(t.Context(), b.ours, p.ID, 0, 10)
	require.NoError(t, err)
	require.Equal(t, p.Lookups, versions[len(versions)-1].Policy.Lookups)
	require.Empty(t, versions[1].Policy.Lookups)
}

func TestLookupsMustRead(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, name := range []string{"shop:create_order", "shop:create_refund"} {
		_, _, err := b.Create(t.Context(), by(b.ours), looksUp(name))
		require.True(t, fault.HasCode(err, fault.CodeValidation), name)
		require.Equal(t, "/lookups/0/verb", fault.As(err).Details[0].Path)
	}
	// One that became a write can be switched off, and not on again.
	p := b.create(t, looksUp("shop:get_order"))
	b.exec(t, `UPDATE verbs SET operation_type = 'write' WHERE name = 'get_order'`)
	_, warnings, err := b.Get(t.Context(), b.ours, p.ID)
	require.NoError(t, err)
	require.Equal(t, policy.LookupNotRead, warnings[0].Code)
	on, off := true, false
	_, _, err = b.Change(t.Context(), by(b.ours), p.ID, policy.Patch{Enabled: &off}, nil)
	require.NoError(t, err)
	_, _, err = b.Change(t.Context(), by(b.ours), p.ID, policy.Patch{Enabled: &on}, nil)
	require.True(t, fault.HasCode(err, fault.CodeValidation))
}

func TestWarningsAboutLookups(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	codes := func(d policy.Draft) (codes []policy.WarningCode) {
		_, warnings, err := b.Create(t.Context(), by(b.ours), d)
		require.NoError(t, err)
		for _, w := range warnings {
			codes = append(codes, w.Code)
		}
		return codes
	}
	require.Equal(t, []policy.WarningCode{policy.LookupNotConnected}, codes(looksUp("shop:get_order")))
	require.Equal(t, []policy.WarningCode{policy.LookupUnknownVerb}, codes(looksUp("shop:get_nothing")))
	require.Equal(t, []policy.WarningCode{policy.LookupNotConnected, policy.LookupNotConnected, policy.LookupUnused}, codes(looksUp("",
		governance.Lookup{Name: "order", Verb: "shop:get_order", Args: json.RawMessage(`{"order_id":"o1"}`)},
		governance.Lookup{Name: "other", Verb: "shop:get_order", Args: json.RawMessage(`{"order_id":"o1"}`)})))
	for args, want := range map[string]string{
		``:                                    "/args/order_id is required",
		`{"order_id":5}`:                      "/args/order_id must be string",
		`{"order_id":{"x":null}}`:             "/args/order_id must be string",
		`{"order":{"field":"args.order_id"}}`: "/args/order is not known",
		`{"order_id":{"field":"args.order_id"},"field":"x"}`:                      "/args/field is not known",
		`{"order_id":{"field":"args.amount"}}`:                                    "",
		`{"order_id":{"field":"args.order_id"},"more":[{"field":"customer_id"}]}`: "/args/more is not known",
	} {
		_, warnings, err := b.Create(t.Context(), by(b.ours), looksUp("", governance.Lookup{Name: "order", Verb: "shop:get_order", Args: json.RawMessage(args)}))
		require.NoError(t, err)
		if want == "" {
			require.NotEqual(t, policy.LookupArgsMisfit, warnings[0].Code, args)
			continue
		}
		require.Equal(t, policy.LookupArgsMisfit, warnings[0].Code, args)
		require.Contains(t, warnings[0].Message, want, args)
	}
}

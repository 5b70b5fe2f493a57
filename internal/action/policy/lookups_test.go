package policy_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/policy"
	"agentruntime/internal/base/fault"
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

// The answers of look-ups are gone, and what was decided by them is not. So a stored look-up does not
// hide what a candidate changes.
func TestSimulationTakesStoredLookupsFromWhatWasDecided(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.create(t, looksUp("shop:get_order"))
	decided := func(name, decision string) string {
		id := b.ran(t, b.ours, b.now.Add(-time.Hour), name, `{"order_id":"1"}`, `{}`)
		b.exec(t, "UPDATE runs SET decision = $2 WHERE id = $1", id, decision)
		return id.String()
	}
	approve := policy.Draft{Name: "Approve", Action: "require_approval", Matchers: verbs("shop:create_refund")}
	b.create(t, approve)
	decided("shop:create_refund", "block")
	decided("shop:create_refund", "")
	held := decided("shop:create_refund", "pending_approval")
	other := decided("shop:create_refund", "allow") // no policy says so today
	decided("shop:list_orders", "allow")
	m := b.simulate(t, policy.Candidate{Draft: block("No refunds", "shop:create_refund")})
	require.Equal(t, 4, m.LookupsInDoubt)
	require.ElementsMatch(t, []string{held, other}, executionsOf(m.Newly[policy.Blocked]))
	from := []policy.Effect{m.Newly[policy.Blocked].Samples[0].From, m.Newly[policy.Blocked].Samples[1].From}
	require.ElementsMatch(t, []policy.Effect{policy.Held, policy.Allowed}, from)
	require.Contains(t, codes(m.Warnings), policy.LookupsInDoubt)
	// Its own look-ups count on the strict side.
	own := looksUp("shop:get_order")
	own.Name, own.Conditions[0].Value = "Another", json.RawMessage(`"sent"`)
	m = b.simulate(t, policy.Candidate{Draft: own})
	require.ElementsMatch(t, []string{held, other}, executionsOf(m.Newly[policy.Blocked]))
	// A candidate that changes nothing changes nothing.
	m = b.simulate(t, policy.Candidate{Draft: block("No orders", "shop:create_order")})
	require.Equal(t, 4, m.LookupsInDoubt)
	require.Equal(t, 5, m.Unchanged)
	require.Zero(t, b.simulateOther(t).LookupsInDoubt)
}

// The document of the shop lists what an order has.
func TestLookupOfAFieldThatTheAnswerDoesNotListGetsAWarning(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	warned := func(c governance.Condition) (messages []string) {
		d := looksUp("shop:get_order")
		d.Conditions = []governance.Condition{c}
		p, warnings, err := b.Create(t.Context(), by(b.ours), d)
		require.NoError(t, err)
		_, again, err := b.Get(t.Context(), b.ours, p.ID)
		require.NoError(t, err)
		for _, w := range again {
			if w.Code == policy.LookupUnlistedField {
				require.Contains(t, warnings, w)
				messages = append(messages, w.Message)
			}
		}
		return messages
	}
	require.Empty(t, warned(when("lookup.order.status", governance.OpNotEquals, `"paid"`)))
	require.Equal(t, []string{"Condition 0 asks for lookup.order.state, which the schema of the answer of shop:get_order does not list."},
		warned(when("lookup.order.state", governance.OpNotEquals, `"paid"`)))
	require.Equal(t, []string{"Condition 0/any/1 asks for lookup.order.owner, which the schema of the answer of shop:get_order does not list."},
		warned(governance.Condition{Any: []governance.Condition{
			when("lookup.order.status", governance.OpEquals, `"open"`), {Field: "customer_id", Operator: governance.OpEquals, ValueField: "lookup.order.owner"},
		}}))
	// Of a verb from before answers were kept, nothing is known.
	b.exec(t, `DELETE FROM verb_answers`)
	require.Empty(t, warned(when("lookup.order.state", governance.OpNotEquals, `"paid"`)))
}

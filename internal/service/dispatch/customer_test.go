package dispatch_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/run"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/tenant/customer"
)

// noErasures starts none.
type noErasures struct{}

func (noErasures) StartErasure(context.Context, flow.CustomerRef) error { return nil }

// judged is a target whose calls are judged.
type judged interface {
	run.Target
	Call(args json.RawMessage, about governance.Context) governance.Call
}

func judgedOf(t *testing.T, target run.Target) judged {
	t.Helper()
	j, ok := target.(judged)
	require.True(t, ok)
	return j
}

// The ids of a customer name one customer: credentials and conditions are the same by each.
func TestCallForACustomerIsTheSameByEachOfTheirIDs(t *testing.T) {
	t.Parallel()
	w := newTools(t)
	customers, err := customer.New(customer.Deps{DB: w.db.Pool, Workflows: noErasures{}, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	made := func(external string, tags ...string) customer.Customer {
		c, _, err := customers.Upsert(t.Context(), w.by, customer.Identity{ExternalID: &external, Tags: tags})
		require.NoError(t, err)
		return c
	}
	ada, twin := made("u1", "vip"), made("u2")
	w.credential(t, "", "the-key-of-the-tenant")
	w.credential(t, "u2", "the-customers-own-key")
	shared := *w.target(t, "say", "").CredentialID()
	require.Equal(t, shared, *w.target(t, "say", "u1").CredentialID())
	own := *w.target(t, "say", twin.ID.String()).CredentialID()
	require.NotEqual(t, shared, own, "stored by the external id, called by ours")
	_, err = customers.Merge(t.Context(), w.by, "u1", "u2")
	require.NoError(t, err)
	name := verb.Name{Provider: "tools", Verb: "say"}
	vip := []governance.Condition{{Field: "customer.tags", Operator: governance.OpContains, Value: json.RawMessage(`"vip"`)}}
	for _, text := range []string{"u1", "u2", ada.ID.String(), twin.ID.String()} {
		read, err := w.Target(t.Context(), w.by.TenantID, name, run.Account{Customer: text}, nil)
		require.NoError(t, err)
		taken, err := w.TargetRead(t.Context(), w.by.TenantID, name, run.Account{Customer: text}, nil, w.asked(t, name, &text, nil))
		require.NoError(t, err)
		for _, target := range []judged{judgedOf(t, read), judgedOf(t, taken)} {
			require.ElementsMatch(t, []string{"u1", "u2", ada.ID.String(), twin.ID.String()}, target.CustomerNames())
			require.ElementsMatch(t, target.CustomerNames(), target.Call(nil, governance.Context{CustomerID: &text}).Context.CustomerNames, "windows count by all of them")
			require.True(t, target.Meets(vip, json.RawMessage(`{}`), governance.Context{CustomerID: &text}))
		}
		require.Equal(t, own, *read.CredentialID())
		require.Equal(t, own, *taken.CredentialID())
	}
	nobody := w.target(t, "say", "u3")
	require.Equal(t, []string{"u3"}, nobody.CustomerNames())
	require.False(t, nobody.Meets(vip, json.RawMessage(`{}`), governance.Context{}))
}

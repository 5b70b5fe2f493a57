package flow_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/flow"
)

// Workflows that run have these ids, so the form of an id never changes.
func TestWorkflowIDsSayWhatPeopleKnow(t *testing.T) {
	t.Parallel()
	tenant, id := uuid.MustParse("0199a1ef-7c20-7a11-8f00-5d9e2b6c1a40"), uuid.MustParse("0199a1ef-7c20-7a11-8f00-5d9e2b6c1a41")
	other := uuid.MustParse("0199a1ef-7c20-7a11-8f00-5d9e2b6c1a42")
	for want, got := range map[string]string{
		"run/order-2026-0001/":                 flow.RunWorkflowID(tenant, "order-2026-0001"),
		"run/a-b-c---:.-/":                     flow.RunWorkflowID(tenant, "a/b c \u00fc*:.-"),
		"run/" + strings.Repeat("k", 80) + "/": flow.RunWorkflowID(tenant, strings.Repeat("k", 255)),
		"map/exec_" + id.String() + "/":        flow.MapWorkflowID(flow.MapRef{TenantID: tenant, ID: id, Attempt: 1}),
		"message/exec_" + id.String() + "/":    flow.TurnWorkflowID(flow.TurnRef{TenantID: tenant, ID: id}),
		"changes/exec_" + id.String() + "/":    flow.ApplyWorkflowID(flow.ApplyRef{TenantID: tenant, ID: id}),
		"delivery/evt_" + id.String() + "/":    flow.DeliveryRef{TenantID: tenant, WebhookID: other, EventID: id, Round: 1}.WorkflowID(),
		"erasure/" + id.String() + "/":         flow.ErasureWorkflowID(flow.CustomerRef{TenantID: tenant, CustomerID: id}),
	} {
		require.True(t, strings.HasPrefix(got, want), "%s begins with %s", got, want)
		require.Regexp(t, `^[a-z]+/[A-Za-z0-9_.:-]{1,80}/[0-9a-f]{16}$`, got)
	}
}

func TestWorkflowIDsDifferWhereTheWorkDoes(t *testing.T) {
	t.Parallel()
	tenant, other, id := uuid.New(), uuid.New(), uuid.New()
	seen := map[string]bool{}
	for _, got := range []string{
		flow.RunWorkflowID(tenant, "order-1"), flow.RunWorkflowID(other, "order-1"), flow.RunWorkflowID(tenant, "order-2"),
		flow.RunWorkflowID(tenant, "a b"), flow.RunWorkflowID(tenant, "a-b"),
		flow.RunWorkflowID(tenant, strings.Repeat("k", 80)+"1"), flow.RunWorkflowID(tenant, strings.Repeat("k", 80)+"2"),
		flow.MapWorkflowID(flow.MapRef{TenantID: tenant, ID: id, Attempt: 1}), flow.MapWorkflowID(flow.MapRef{TenantID: tenant, ID: id, Attempt: 2}),
		flow.DeliveryRef{TenantID: tenant, WebhookID: id, EventID: other, Round: 1}.WorkflowID(), flow.DeliveryRef{TenantID: tenant, WebhookID: other, EventID: other, Round: 1}.WorkflowID(),
		flow.DeliveryRef{TenantID: tenant, WebhookID: id, EventID: other, Round: 2}.WorkflowID(),
	} {
		require.False(t, seen[got], got)
		seen[got] = true
	}
}

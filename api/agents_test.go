package api_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAgentWithAnUnknownVerbIsStoredWithAWarning(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	type agent struct {
		ID       string
		Warnings []struct{ Path, Rule, Message string }
	}
	var made, read agent
	s.do(t, "user", http.MethodPost, "/v1/agents",
		`{"name":"Helper","tools":{"allow":["shop:*","shop:create_ordr","tool:*","shop:create_order","tool:escalate"]}}`).into(t, http.StatusCreated, &made)
	require.Len(t, made.Warnings, 3, "the provider is not there yet")
	require.Equal(t, "/tools/allow/0", made.Warnings[0].Path)
	require.Equal(t, "unknown_tool", made.Warnings[0].Rule)
	require.Contains(t, made.Warnings[0].Message, "There is no provider shop in it.")

	s.importRuled(t, "user", "", shopDocument, http.StatusCreated)
	s.do(t, "user", http.MethodGet, "/v1/agents/"+made.ID, "").into(t, http.StatusOK, &read)
	require.Len(t, read.Warnings, 2)
	require.Equal(t, "/tools/allow/1", read.Warnings[0].Path)
	require.Contains(t, read.Warnings[0].Message, "Did you mean shop:create_order?")
	require.Equal(t, "no_guard", read.Warnings[1].Rule, "the tenant has no policy")
}

package wire_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/api/wire"
	"agentruntime/internal/base/fault"
)

func TestUnknownQueryParametersAreNamedBesideThoseThatAreKnown(t *testing.T) {
	t.Parallel()
	c := &wire.Call{Request: httptest.NewRequest(http.MethodGet, "/?limit=1&providers=shop", nil)}
	require.NoError(t, c.CheckQuery([]string{"limit", "providers"}))
	for says, known := range map[string][]string{
		"Unknown query parameter: this endpoint takes provider, limit. Did you mean provider?": {"provider", "limit"},
		"Unknown query parameter: this endpoint takes none.":                                   nil,
	} {
		f := fault.As(c.CheckQuery(known))
		require.NotNil(t, f)
		require.Equal(t, fault.CodeValidation, f.Code)
		last := f.Details[len(f.Details)-1]
		require.Equal(t, "query.providers", last.Path)
		require.Equal(t, says, last.Message)
	}
}

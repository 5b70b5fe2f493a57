package api_test

import (
	"net/http"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// The message of an error with one fault names the place of it: a caller may read nothing else.
func TestMalformedGoalIsRefusedWithItsPlace(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	path := "/v1/agents/" + uuid.NewString() + "/goals"
	for body, message := range map[string]string{
		`{"goal":"g","completion_criteria":[{"id":"a"}]}`:                                    "completion_criteria/0/description is required, and must not be empty",
		`{"goal":"g","completion_criteria":[{"id":"a","description":"d","check":".facts"}]}`: "completion_criteria/0/check must be one expression ${ … } and nothing beside it",
	} {
		a := s.do(t, "agent", http.MethodPost, path, body)
		require.Equal(t, http.StatusBadRequest, a.status, a.body)
		require.Contains(t, a.body, `"message":"`+message+`","requestId"`)
	}
}

package dispatch_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/run"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/providererror"
)

func TestWordsOfAProviderAreMaskedAsResultsAre(t *testing.T) {
	t.Parallel()
	w := newTools(t)
	w.credential(t, "", "key-of-the-tenant")
	args := json.RawMessage(`{"a":"key-of-the-tenant"}`)
	target, err := w.Target(t.Context(), w.by.TenantID, verb.Name{Provider: "tools", Verb: "say"}, run.Account{}, args)
	require.NoError(t, err)
	for name, body := range map[string]string{
		"a whole value":   `{"message":"no","given":"key-of-the-tenant"}`,
		"within a text":   `{"message":"The value key-of-the-tenant is not known."}`,
		"within no JSON":  `The value key-of-the-tenant is not known.`,
		"by its name":     `{"message":"no","password":"key-of-the-tenant"}`,
		"encoded":         `{"message":"a2V5LW9mLXRoZS10ZW5hbnQ="}`,
		"in half of JSON": `{"message":"key-of-the-tenant`,
	} {
		said := target.Words(providererror.Answer{Status: 400, Media: "text/plain", Body: []byte(body), Whole: true, RequestID: "key-of-the-tenant"})
		raw, err := json.Marshal(said)
		require.NoError(t, err)
		require.NotContains(t, string(raw), "key-of-the-tenant", name)
		require.NotContains(t, string(raw), "a2V5LW9mLXRoZS10ZW5hbnQ", name)
	}
}

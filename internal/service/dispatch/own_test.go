package dispatch_test

import (
	"encoding/json"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/run"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/maps/execution"
	"agentruntime/internal/provider/vault"
)

func (w *tools) store(t *testing.T, by actor.Actor, provider, kind, data string) vault.Credential {
	t.Helper()
	c, err := w.vault.Create(t.Context(), by, vault.New{Provider: provider, Type: kind, Data: json.RawMessage(data)})
	require.NoError(t, err)
	return c
}

// shown returns everything that others see of a call with the arguments.
func (w *tools) shown(t *testing.T, args string) []string {
	t.Helper()
	name := verb.Name{Provider: "tools", Verb: "say"}
	target, err := w.Target(t.Context(), w.by.TenantID, name, run.Account{}, json.RawMessage(args))
	require.NoError(t, err)
	call, err := target.Prepare(t.Context(), json.RawMessage(args))
	require.NoError(t, err)
	texts := w.Mask(t.Context(), w.by.TenantID, name, run.Texts{Args: json.RawMessage(args)})
	gone := w.Mask(t.Context(), w.by.TenantID, verb.Name{Provider: "gone", Verb: "say"}, run.Texts{Args: json.RawMessage(args)})
	steps := []execution.ShownCall{{Verb: "tools:say", Args: json.RawMessage(args)}, {Verb: "gone:say", Args: json.RawMessage(args)}, {Values: []json.RawMessage{json.RawMessage(args), nil}}}
	w.MaskCalls(t.Context(), w.by.TenantID, steps)
	b := &db.Batch{}
	own, err := w.QueueOwn(t.Context(), b, w.by.TenantID, json.RawMessage(args))
	require.NoError(t, err)
	if b.Len() > 0 {
		require.NoError(t, w.db.Send(t.Context(), w.by.TenantID, b))
	}
	require.Nil(t, steps[2].Values[1])
	require.Nil(t, steps[0].Before)
	return []string{
		string(own()), string(steps[2].Values[0]),
		string(target.Mask(json.RawMessage(args))), string(call.Preview(json.RawMessage(args))), string(texts.Args), string(gone.Args),
		string(w.MaskOwn(t.Context(), w.by.TenantID, json.RawMessage(args))), string(steps[0].Args), string(steps[1].Args),
	}
}

func TestOwnSecretsInArgumentsAreMasked(t *testing.T) {
	t.Parallel()
	w := newTools(t)
	w.credential(t, "", "key-of-the-tenant")
	w.store(t, w.by, "other", "bearer", `{"token":"token-of-16chars"}`)
	w.store(t, w.by, "other", "basic", `{"username":"someone@example.com","password":"a-long-password-1"}`)
	w.store(t, w.by, "other", "basic", `{"username":"sk_live_0123456789","password":""}`)
	w.store(t, w.by, "other", "custom_header", `{"headers":{"X-A":"Bearer header-token-0001"}}`)
	w.store(t, w.by, "other", "api_key", `{"key":"fifteen-letters"}`)
	stranger := actor.Actor{Kind: actor.Key, TenantID: uuid.New(), ID: uuid.New()}
	require.NoError(t, dbsqlc.New().InsertTenant(t.Context(), w.db.Tenant(stranger.TenantID), dbsqlc.InsertTenantParams{ID: stranger.TenantID, Name: "s"}))
	w.store(t, stranger, "tools", "api_key", `{"key":"key-of-another-tenant"}`)
	for name, tt := range map[string]struct {
		value  string
		masked bool
	}{
		"credential of the call":   {"key-of-the-tenant", true},
		"of another provider":      {"token-of-16chars", true},
		"a password":               {"a-long-password-1", true},
		"a user name alone":        {"sk_live_0123456789", true},
		"a header's value":         {"Bearer header-token-0001", true},
		"a header's token":         {"header-token-0001", true},
		"a user name":              {"someone@example.com", false},
		"15 characters":            {"fifteen-letters", false},
		"a part of a value":        {"it is key-of-the-tenant", false},
		"another tenant's":         {"key-of-another-tenant", false},
		"nobody's, and as long":    {"key-of-the-tenanT", false},
		"of the call, other cases": {"KEY-OF-THE-TENANT", false},
	} {
		for _, args := range []string{`{"a":"` + tt.value + `","b":1}`, `{"a":{"b":[1,"` + tt.value + `"]}}`} {
			for i, shown := range w.shown(t, args) {
				if tt.masked {
					require.NotContains(t, shown, tt.value, "%s, %d", name, i)
					require.Contains(t, shown, "[masked]", "%s, %d", name, i)
				} else {
					require.Contains(t, shown, tt.value, "%s, %d", name, i)
				}
			}
		}
	}
}

func TestOwnSecretsFollowRotationAndDeletion(t *testing.T) {
	t.Parallel()
	w := newTools(t)
	w.credential(t, "", "s3cret-value")
	c := w.store(t, w.by, "other", "api_key", `{"key":"first-secret-value"}`)
	masked := func(value string) bool {
		args := json.RawMessage(`{"a":"` + value + `"}`)
		return string(w.MaskOwn(t.Context(), w.by.TenantID, args)) != string(args)
	}
	require.True(t, masked("first-secret-value"))
	_, err := w.vault.Rotate(t.Context(), w.by, c.ID, json.RawMessage(`{"key":"second-secret-value"}`), nil)
	require.NoError(t, err)
	require.False(t, masked("first-secret-value"))
	require.True(t, masked("second-secret-value"))
	require.NoError(t, w.vault.Delete(t.Context(), w.by, c.ID, nil))
	require.False(t, masked("second-secret-value"))
}

// The calls of steps are masked whole where their verb is not known, or cannot be read.
func TestCallsOfAnUnknownVerbAreMaskedWhole(t *testing.T) {
	t.Parallel()
	w := newTools(t)
	text := json.RawMessage(`{"a":"plain","n":7}`)
	shown := func(verb string) execution.ShownCall {
		calls := []execution.ShownCall{{Verb: verb, Args: text, Result: text, Before: text}}
		require.True(t, w.MaskCalls(t.Context(), w.by.TenantID, calls))
		return calls[0]
	}
	const whole = `{"a":"[masked]","n":0}`
	for _, verb := range []string{"tools:say", "gone:say"} {
		require.JSONEq(t, string(text), string(shown(verb).Args), verb)
		require.JSONEq(t, string(text), string(shown(verb).Result), verb)
		require.JSONEq(t, whole, string(shown(verb).Before), "nobody knows which verb has read it")
		require.Nil(t, shown(verb).After)
	}
	none := shown("")
	require.JSONEq(t, whole, string(none.Args))
	require.JSONEq(t, whole, string(none.Result))
	w.db.Close()
	closed := []execution.ShownCall{{Verb: "tools:say", Args: text, Result: text}}
	require.False(t, w.MaskCalls(t.Context(), w.by.TenantID, closed), "the verb cannot be read")
	require.JSONEq(t, whole, string(closed[0].Args))
	require.JSONEq(t, whole, string(closed[0].Result))
	calls := []execution.ShownCall{{Values: []json.RawMessage{json.RawMessage(`{"a":"as long as a secret","n":7}`), json.RawMessage(`"a text alone"`), nil}}}
	require.False(t, w.MaskCalls(t.Context(), w.by.TenantID, calls))
	require.JSONEq(t, whole, string(calls[0].Values[0]), "nobody knows which values are secrets")
	require.JSONEq(t, `"[masked]"`, string(calls[0].Values[1]))
	require.Nil(t, calls[0].Values[2])
	calls = []execution.ShownCall{{Values: []json.RawMessage{text}}}
	require.True(t, w.MaskCalls(t.Context(), w.by.TenantID, calls), "no value is long enough for a secret, so nothing is read")
	require.JSONEq(t, string(text), string(calls[0].Values[0]))
}

func TestOwnSecretsUnknownMaskWhatMayBeOne(t *testing.T) {
	t.Parallel()
	w := newTools(t)
	w.db.Close()
	got := w.MaskOwn(t.Context(), w.by.TenantID, json.RawMessage(`{"a":"0123456789abcdef","b":"short","c":1}`))
	require.JSONEq(t, `{"a":"[masked]","b":"short","c":1}`, string(got))
}

// A value of a condition is compared in the clear, and told masked.
func TestOwnSecretsAreJudgedInTheClear(t *testing.T) {
	t.Parallel()
	w := newTools(t)
	w.credential(t, "", "key-of-the-tenant")
	target, err := w.Target(t.Context(), w.by.TenantID, verb.Name{Provider: "tools", Verb: "say"}, run.Account{}, json.RawMessage(`{"a":"key-of-the-tenant"}`))
	require.NoError(t, err)
	met := []governance.Condition{{Field: "args.a", Operator: "equals", Value: json.RawMessage(`"key-of-the-tenant"`)}}
	require.True(t, target.Meets(met, json.RawMessage(`{"a":"key-of-the-tenant"}`), governance.Context{}))
}

// asked returns what call_target returns for a call of the tenant.
func (w *tools) asked(t *testing.T, name verb.Name, customer *string, digests [][]byte) json.RawMessage {
	t.Helper()
	var read json.RawMessage
	row := w.db.Tenant(w.by.TenantID).QueryRow(t.Context(), `SELECT call_target($1, $2, $3, $4, NULL, $5)`, w.by.TenantID, name.Provider, name.Verb, customer, digests)
	require.NoError(t, row.Scan(&read))
	return read
}

func TestTargetReadIsTheTargetOfTheRead(t *testing.T) {
	t.Parallel()
	w := newTools(t)
	w.credential(t, "", "key-of-the-tenant")
	w.credential(t, "cus_1", "key-of-the-customer")
	key, err := w.vault.Key(t.Context(), w.by.TenantID)
	require.NoError(t, err)
	args := json.RawMessage(`{"pin":"1234","a":"key-of-the-tenant","b":"nobodys-secret-value"}`)
	name := verb.Name{Provider: "tools", Verb: "say"}
	for _, customer := range []string{"", "cus_1", "cus_2"} {
		want, err := w.Target(t.Context(), w.by.TenantID, name, run.Account{Customer: customer}, args)
		require.NoError(t, err)
		for _, digests := range [][][]byte{w.Digests(key, args), nil} {
			got, err := w.TargetRead(t.Context(), w.by.TenantID, name, run.Account{Customer: customer}, args, w.asked(t, name, &customer, digests))
			require.NoError(t, err)
			require.Equal(t, want.CredentialID(), got.CredentialID())
			require.Equal(t, want.SchemaHash(), got.SchemaHash())
			require.Equal(t, want.PolicyVersion(), got.PolicyVersion())
			require.True(t, want.Read().ProviderAt.Equal(*got.Read().ProviderAt))
			require.True(t, want.Read().CredentialAt.Equal(*got.Read().CredentialAt))
			require.JSONEq(t, `{"pin":"[masked]","a":"[masked]","b":"nobodys-secret-value"}`, string(got.Mask(args)))
			texts := run.Texts{Args: args, Metadata: json.RawMessage(`{"token":"t"}`), Result: json.RawMessage(`{"token":"t","n":1}`)}
			require.Equal(t, w.Mask(t.Context(), w.by.TenantID, name, texts),
				w.MaskRead(t.Context(), w.by.TenantID, name, run.Account{Customer: customer}, texts, w.asked(t, name, &customer, digests)))
			call, err := got.Prepare(t.Context(), args)
			require.NoError(t, err)
			require.Equal(t, 200, call.Send(t.Context(), "", nil).Status)
		}
	}
	missing := verb.Name{Provider: "tools", Verb: "gone"}
	_, err = w.TargetRead(t.Context(), w.by.TenantID, missing, run.Account{}, args, w.asked(t, missing, nil, [][]byte{}))
	require.True(t, fault.HasCode(err, fault.CodeVerbNotFound), "%v", err)
	gone := run.Texts{Args: args}
	require.Equal(t, w.Mask(t.Context(), w.by.TenantID, missing, gone),
		w.MaskRead(t.Context(), w.by.TenantID, missing, run.Account{}, gone, w.asked(t, missing, nil, nil)))
}

func TestTargetReadWithoutCredentialSaysSo(t *testing.T) {
	t.Parallel()
	w := newTools(t)
	name := verb.Name{Provider: "tools", Verb: "say"}
	got, err := w.TargetRead(t.Context(), w.by.TenantID, name, run.Account{}, json.RawMessage(`{}`), w.asked(t, name, nil, [][]byte{}))
	require.NoError(t, err)
	require.Equal(t, fault.CodeProviderNotConnected, got.Connected().Code)
}

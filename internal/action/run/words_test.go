package run_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/run"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/attempt"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/provider/providererror"
)

// says makes the provider answer so.
func (r *rig) says(status int, body string) {
	r.provider.replies(func(int64) run.Answer {
		return run.Answer{
			Phase: attempt.Answered, Status: status, Complete: true, Result: json.RawMessage(body), RetryAfter: 90 * time.Second,
			Said: providererror.Answer{Status: status, Media: "application/json", Body: []byte(body), Whole: true, RetryAfter: 90 * time.Second, RequestID: "req_9"},
		}
	})
}

func TestRefusalSaysWhatTheProviderSaid(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		verb    string
		status  int
		body    string
		code    fault.Code
		message string
	}{
		"refused":      {"pay", 400, `{"error":{"code":"E1","message":"Non-pending order cannot be cancelled."}}`, fault.CodeProviderRejected, "The provider refused the call (400): Non-pending order cannot be cancelled."},
		"no full stop": {"pay", 404, `{"error":"no such order"}`, fault.CodeProviderRejected, "The provider refused the call (404): no such order."},
		"says nothing": {"pay", 404, `{}`, fault.CodeProviderRejected, "The provider refused the call (404)."},
		"code only":    {"pay", 422, `{"code":"E7"}`, fault.CodeProviderRejected, "The provider refused the call (422): E7."},
		"very long":    {"pay", 400, `{"message":"` + strings.Repeat("ä", 400) + `"}`, fault.CodeProviderRejected, "The provider refused the call (400): " + strings.Repeat("ä", 148) + "…"},
		"rate limited": {"pay", 429, `{"message":"slow down"}`, fault.CodeProviderRejected, "The provider's rate limit refused the call (429): slow down."},
		"failed":       {"pay", 500, `{"message":"broken"}`, fault.CodeProviderError, "The provider failed (500): broken."},
		"may have acted": {"pay", 502, `{"message":"broken"}`, fault.CodeOutcomeUnknown, "The provider's last answer was 502, but the call may have taken effect. " +
			"It is not sent again under this id. Look at the provider, then settle it with POST /v1/executions/{id}/resolve. The provider said: broken."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.says(c.status, c.body)
			for range 2 { // the second is a repeat of the stored failure, but for the rate limit
				f := r.must(r.do(c.verb, "one", `{}`)).Fault()
				require.Equal(t, c.code, f.Code)
				require.Equal(t, c.message, f.Message)
				var said providererror.Error
				require.NoError(t, json.Unmarshal(f.ProviderError, &said))
				require.Equal(t, c.status, said.Status)
				require.JSONEq(t, c.body, string(said.Body))
				require.Equal(t, "req_9", said.RequestID)
				require.EqualValues(t, 90_000, said.RetryAfterMS)
				if c.code != fault.CodeOutcomeUnknown {
					require.Equal(t, 90*time.Second, f.RetryAfter)
				}
			}
			got, err := r.Get(t.Context(), r.caller(), "one")
			require.NoError(t, err)
			require.Equal(t, c.message, got.Fault().Message)
			require.NotContains(t, r.text(`SELECT error_message || provider_error || (SELECT string_agg(details::text, '') FROM audit_records) FROM runs`), c.body)
		})
	}
}

func TestWordsOfTheProviderLieSealedAndAreErasedWithTheResult(t *testing.T) {
	t.Parallel()
	for name, erase := range map[string]func(*rig){
		"by age": func(r *rig) { r.pass(31) },
		"by the customer": func(r *rig) {
			require.NoError(r.t, r.db.InTenant(r.t.Context(), r.tenant, func(tx pgx.Tx) error {
				_, _, err := r.EraseOf(r.t.Context(), tx, r.tenant, []string{"ada"}, time.Now().Add(time.Hour), 10)
				return err
			}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.says(400, `{"message":"unmistakable words"}`)
			r.must(r.do("pay", "one", `{}`, func(q *run.Request) { q.Metadata = json.RawMessage(`{"customer_id":"ada"}`) }))
			for _, table := range []string{"runs", "audit_records", "events"} {
				require.Zero(t, r.count(`SELECT count(*) FROM `+table+` x WHERE x::text LIKE '%unmistakable%'`), table)
			}
			require.Equal(t, 1, r.count(`SELECT count(*) FROM runs WHERE provider_error IS NOT NULL`))
			erase(r)
			require.Equal(t, 1, r.erased())
			require.Zero(t, r.count(`SELECT count(*) FROM runs WHERE provider_error IS NOT NULL`))
			got, err := r.Get(t.Context(), r.caller(), "one")
			require.NoError(t, err)
			require.Nil(t, got.ProviderError)
		})
	}
}

// A run under an id that is free again has none of the words that the run before it got.
func TestRunThatIsClaimedAgainHasNoWordsOfBefore(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.must(r.do("refund", "one", `{}`))
	r.admin(`UPDATE runs SET provider_error = 'unmistakable words'`)
	r.policies(rule(governance.ActionRequireApproval, "refund"))
	r.must(r.do("refund", "one", `{}`))
	require.Equal(t, 1, r.count(`SELECT count(*) FROM runs WHERE attempt > 1 AND state = 'pending_approval'`), "the same run again, which has no end yet")
	require.Zero(t, r.count(`SELECT count(*) FROM runs WHERE provider_error IS NOT NULL`))
}

func TestResolvedOutcomeSaysWhatThePersonSaid(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.says(502, `{"message":"broken"}`)
	r.must(r.do("pay", "one", `{}`))
	done, err := r.Resolve(t.Context(), actor.Actor{Kind: actor.User, TenantID: r.tenant, ID: r.user("owner")}, "one", run.Resolution{Reason: "not there"})
	require.NoError(t, err)
	require.Equal(t, "An operator settled this run as failed: not there", done.Fault().Message)
}

func TestResultHasNoWords(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	out := r.must(r.do("pay", "one", `{}`))
	require.Nil(t, out.Run.ProviderError)
	require.Zero(t, r.count(`SELECT count(*) FROM runs WHERE provider_error IS NOT NULL`))
}

package bounds

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// filling is one resource whose quota a tenant fills.
type filling struct {
	quota string
	most  int
	// had is how many a connected tenant has before.
	had int
	// before prepares the tenant; nil for nothing.
	before func(t *testing.T, tenant *rig.Tenant)
	// create makes the n-th one. The call must not depend on the others.
	create func(t *testing.T, tenant *rig.Tenant, n int) rig.Answer
	// free removes one; made is the answer to a creation.
	free func(t *testing.T, tenant *rig.Tenant, made rig.Answer)
}

func idOf(t *testing.T, made rig.Answer) string {
	t.Helper()
	var data struct{ ID string }
	made.Data(t, &data)
	return data.ID
}

func remove(path string) func(*testing.T, *rig.Tenant, rig.Answer) {
	return func(t *testing.T, tenant *rig.Tenant, made rig.Answer) {
		t.Helper()
		status(t, tenant.User.Do(http.MethodDelete, path+idOf(t, made), nil), http.StatusOK)
	}
}

func reject(t *testing.T, tenant *rig.Tenant, approvalID string) {
	t.Helper()
	status(t, tenant.User.Decide(approvalID, "reject", m{"reason": "no"}), http.StatusOK)
}

func fillings() []filling {
	post := func(path string, body func(n int) m) func(*testing.T, *rig.Tenant, int) rig.Answer {
		return func(_ *testing.T, tenant *rig.Tenant, n int) rig.Answer {
			return tenant.User.Do(http.MethodPost, path, body(n))
		}
	}
	return []filling{
		{"keys", 4, 1, nil, post("/v1/api-keys", func(int) m { return m{"name": "k", "permissions": []string{"actions:run"}} }), remove("/v1/api-keys/")},
		{"users", 4, 1, nil, post("/v1/users", func(int) m { return m{"email": uuid.NewString() + "@example.com", "role": "member"} }), remove("/v1/users/")},
		{"credentials", 4, 1, nil, post("/v1/credentials", func(int) m { return m{"provider": "bank", "type": "bearer", "data": m{"token": "t"}} }), remove("/v1/credentials/")},
		{"customers", 4, 0, nil, post("/v1/customers", func(n int) m { return m{"external_id": uuid.NewString()} }), remove("/v1/customers/")},
		{"webhooks", 4, 0, nil, post("/v1/webhooks", func(int) m { return m{"url": "https://example.com", "events": []string{"*"}, "enabled": false} }), remove("/v1/webhooks/")},
		{"policies", 4, 0, nil, post("/v1/policies", func(n int) m { return rig.Policy(fmt.Sprint("p", n), "notify", "bank:*", nil) }), remove("/v1/policies/")},
		{"policy_windows", 3, 0, nil, post("/v1/policies", func(n int) m {
			return rig.Policy(fmt.Sprint("p", n), "block", "bank:*", m{"conditions": []m{
				{"window": m{"by": fmt.Sprint("args.n", n), "per": "1h", "count": true}, "operator": "greater", "value": 5},
			}})
		}), remove("/v1/policies/")},
		{"kill_switches", 4, 0, nil, post("/v1/kill-switch", func(i int) m {
			return m{"scope": "agent", "target": fmt.Sprintf("agent-%d", i), "reason": "r"}
		}), remove("/v1/kill-switch/")},
		{"grants", 4, 0, nil, post("/v1/grants", func(int) m {
			return m{"verb": "bank:pay_1", "max_uses": 1, "expires_at": time.Now().Add(time.Hour).UTC().Format(time.RFC3339), "reason": "r"}
		}), remove("/v1/grants/")},
		{
			"providers", 2, 1, nil,
			func(_ *testing.T, tenant *rig.Tenant, n int) rig.Answer {
				for {
					a := tenant.User.Do(http.MethodPost, "/v1/providers", m{"slug": fmt.Sprint("other-", n), "name": "o", "domain": "d", "base_url": "http://127.0.0.1:9", "openapi": document(1)})
					if a.Status != http.StatusServiceUnavailable { // imports take turns
						return a
					}
				}
			},
			func(t *testing.T, tenant *rig.Tenant, made rig.Answer) {
				t.Helper()
				var data struct{ Slug string }
				made.Data(t, &data)
				status(t, tenant.User.Do(http.MethodDelete, "/v1/providers/"+data.Slug, nil), http.StatusOK)
			},
		},
		{
			"held", 4, 0,
			func(t *testing.T, tenant *rig.Tenant) {
				t.Helper()
				tenant.User.NewPolicy(t, rig.RequireApproval("gate", "bank:*", nil))
			},
			func(_ *testing.T, tenant *rig.Tenant, n int) rig.Answer {
				return tenant.Runtime.Run("bank:pay_1", m{"n": n}, fmt.Sprint("held-", n))
			},
			func(t *testing.T, tenant *rig.Tenant, made rig.Answer) {
				t.Helper()
				reject(t, tenant, made.Envelope(t).Error.ApprovalID)
			},
		},
		{
			"dry_runs", 4, 0, nil,
			func(_ *testing.T, tenant *rig.Tenant, n int) rig.Answer {
				return tenant.Runtime.Do(http.MethodPost, "/v1/runtime/actions/run", m{"verb": "bank:pay_1", "args": m{"n": n}, "dryRun": true})
			},
			func(t *testing.T, tenant *rig.Tenant, made rig.Answer) {
				t.Helper()
				var data rig.RunData
				made.Data(t, &data)
				reject(t, tenant, data.ApprovalID)
			},
		},
		{"maps", 4, 0, nil, post("/v1/maps", func(int) m { return waitingMap() }), remove("/v1/maps/")},
		{
			"map_executions", 4, 0,
			func(t *testing.T, tenant *rig.Tenant) {
				t.Helper()
				status(t, tenant.User.Do(http.MethodPost, "/v1/maps?publish=true", waitingMap()), http.StatusCreated)
			},
			func(t *testing.T, tenant *rig.Tenant, n int) rig.Answer {
				t.Helper()
				var list []struct{ ID string }
				tenant.User.Do(http.MethodGet, "/v1/maps", nil).Data(t, &list)
				return tenant.Runtime.Do(http.MethodPost, "/v1/maps/"+list[0].ID+"/trigger", m{"session_id": fmt.Sprint("s-", n)}, "Prefer: wait=0")
			},
			func(t *testing.T, tenant *rig.Tenant, made rig.Answer) {
				t.Helper()
				path := made.Header.Get("Location")
				status(t, tenant.Runtime.Do(http.MethodPost, path+"/cancel", nil), http.StatusOK)
				status(t, tenant.Runtime.Do(http.MethodGet, path, nil, "Prefer: wait=60"), http.StatusOK)
			},
		},
	}
}

// waitingMap is a Map that waits for an hour.
func waitingMap() m {
	return m{"schema_version": "1", "name": "Waits", "steps": []m{{"id": "w", "type": "wait", "for": "1h"}}}
}

// refusedBy reports whether the answer is the refusal of the quota, which names it and its
// limit.
func refusedBy(t *testing.T, a rig.Answer, f filling) bool {
	t.Helper()
	require.NotEqual(t, http.StatusServiceUnavailable, a.Status, "%s", a.Body)
	e := a.Envelope(t)
	if e.Error == nil || e.Error.Code != "QUOTA_EXCEEDED" {
		return false
	}
	require.Equal(t, http.StatusForbidden, a.Status)
	require.Contains(t, e.Error.Message, fmt.Sprintf("quota %s: at most %d ", f.quota, f.most))
	return true
}

func TestQuotaIsExactAmongCreationsAtOnce(t *testing.T) {
	t.Parallel()
	for _, f := range fillings() {
		t.Run(f.quota, func(t *testing.T) {
			t.Parallel()
			tenant, neighbour := connected(t), connected(t)
			if f.before != nil {
				f.before(t, tenant)
				f.before(t, neighbour)
			}
			var made []rig.Answer
			for _, a := range together(12, func(i int) rig.Answer { return f.create(t, tenant, i) }) {
				if !refusedBy(t, a, f) {
					made = append(made, a)
				}
			}
			require.Equal(t, f.most, f.had+len(made))
			require.True(t, refusedBy(t, f.create(t, tenant, 12), f))
			require.False(t, refusedBy(t, f.create(t, neighbour, 0), f), "another tenant has a quota of its own")

			f.free(t, tenant, made[0])
			// The id of the call that was refused is free.
			require.False(t, refusedBy(t, f.create(t, tenant, 12), f))
			require.True(t, refusedBy(t, f.create(t, tenant, 13), f))
		})
	}
}

// What people end is bounded too: to end it is never refused, the next creation is.
func TestWhatHasEndedIsBounded(t *testing.T) {
	t.Parallel()
	for ended, creation := range map[string]string{"revoked_keys": "keys", "removed_users": "users", "ended_grants": "grants"} {
		t.Run(ended, func(t *testing.T) {
			t.Parallel()
			f := fillings()[slices.IndexFunc(fillings(), func(f filling) bool { return f.quota == creation })]
			tenant, neighbour := connected(t), connected(t)
			for n := range 4 {
				made := f.create(t, tenant, n)
				status(t, made, http.StatusCreated)
				f.free(t, tenant, made)
			}
			f.quota, f.most = ended, 3
			require.True(t, refusedBy(t, f.create(t, tenant, 4), f))
			status(t, f.create(t, neighbour, 0), http.StatusCreated)
		})
	}
}

// What Maps keep is bounded over all executions of a tenant: the next one is refused, a small one too.
func TestValuesThatMapsKeepAreBounded(t *testing.T) {
	t.Parallel()
	publish := func(tenant *rig.Tenant, expr string) (trigger string) {
		a := tenant.User.Do(http.MethodPost, "/v1/maps?publish=true", m{"schema_version": "1", "name": "Keeps", "output": "${1}", "steps": []m{
			{"id": "one", "type": "transform", "expr": expr}, {"id": "two", "type": "transform", "expr": expr},
		}})
		status(t, a, http.StatusCreated)
		return "/v1/maps/" + idOf(t, a) + "/trigger"
	}
	run := func(tenant *rig.Tenant, trigger string) rig.Answer {
		return tenant.Runtime.Do(http.MethodPost, trigger, m{"payload": m{}}, "Prefer: wait=60")
	}
	tenant, neighbour := connected(t), connected(t)
	small, large := publish(tenant, "${1}"), publish(tenant, `${"x" * 3000000}`)
	for range 3 {
		status(t, run(tenant, small), http.StatusOK)
		status(t, run(tenant, large), http.StatusOK)
	}
	full := filling{quota: "map_value_bytes", most: 16 << 20}
	require.True(t, refusedBy(t, run(tenant, large), full))
	require.True(t, refusedBy(t, run(tenant, small), full))
	status(t, run(neighbour, publish(neighbour, `${"x" * 3000000}`)), http.StatusOK)
}

func TestKillSwitchIsSetWhateverWasLifted(t *testing.T) {
	t.Parallel()
	tenant := connected(t)
	for n := range 6 {
		a := tenant.User.Do(http.MethodPost, "/v1/kill-switch", m{"scope": "agent", "target": fmt.Sprint("agent-", n), "reason": "r"})
		status(t, a, http.StatusCreated)
		status(t, tenant.User.Do(http.MethodDelete, "/v1/kill-switch/"+idOf(t, a), nil), http.StatusOK)
	}
	status(t, tenant.User.Do(http.MethodPost, "/v1/kill-switch", m{"scope": "tenant", "reason": "r"}), http.StatusCreated)
	var list []struct{ Target string }
	tenant.User.Do(http.MethodGet, "/v1/kill-switch?status=all", nil).Data(t, &list)
	require.Equal(t, []struct{ Target string }{{""}, {"agent-5"}, {"agent-4"}, {"agent-3"}}, list, "those that were lifted first are forgotten")
}

func TestQuotaOfVerbsCountsAllProviders(t *testing.T) {
	t.Parallel()
	tenant := connected(t)
	load := func(verbs int) rig.Answer {
		return tenant.User.Do(http.MethodPost, "/v1/providers", m{"slug": "other", "name": "o", "domain": "d", "base_url": "http://127.0.0.1:9", "openapi": document(verbs)})
	}
	a := load(60)
	require.Equal(t, "QUOTA_EXCEEDED", a.Code(t))
	require.Contains(t, string(a.Body), "quota verbs: at most 60 ")
	status(t, tenant.User.Do(http.MethodGet, "/v1/providers/other", nil), http.StatusNotFound)
	status(t, load(59), http.StatusCreated)
	status(t, load(59), http.StatusOK)
	require.Equal(t, "QUOTA_EXCEEDED", load(60).Code(t), "the import that replaces counts too")
}

func TestLoginBeyondTheQuotaEndsTheOldestSession(t *testing.T) {
	t.Parallel()
	s := sharedDev().For(t)
	tenant := s.NewTenant(rig.Address())
	path := "/v1/approvals?" + url.Values{"limit": {"1"}}.Encode()
	sessions := []*rig.Client{tenant.User}
	for range 3 {
		sessions = append(sessions, s.LogIn(tenant.Email, tenant.Password))
	}
	status(t, sessions[0].Do(http.MethodGet, path, nil), http.StatusUnauthorized)
	for _, c := range sessions[1:] {
		status(t, c.Do(http.MethodGet, path, nil), http.StatusOK)
	}
}

func TestQuotasAreCheckedAtStart(t *testing.T) {
	t.Parallel()
	binary := rig.Binary(t, rig.Build{Command: "agentruntime"})
	p := rig.Start(t, "api", binary, []string{
		"ENV=development", "LISTEN=127.0.0.1:0", "QUOTAS=kyes=3", "DATABASE_URL=postgres://nobody@127.0.0.1:9/none", "VAULT_KEYS=a:" + strings.Repeat("A", 43) + "=",
		"TEMPORAL_CODEC_KEY=" + strings.Repeat("A", 43) + "=", "API_KEY_PEPPER=" + strings.Repeat("A", 43) + "=",
		"JWT_SIGNING_SEED=" + strings.Repeat("A", 43) + "=", "AUDIT_SIGNING_KEY=" + strings.Repeat("A", 43) + "=",
	}, "api")
	<-p.Done()
	require.Contains(t, p.Log(), `QUOTAS: no such resource "kyes"`)
}

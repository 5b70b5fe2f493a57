//go:build conformance

package conformance

import (
	"net/http"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// limits fills the windows of a tenant and of an address, and tries every endpoint with them.
func (j *journey) limits() {
	const path, own = "/v1/rate-limits", "limited@example.com"
	all := func(n int) object {
		return object{"requests_per_minute": n, "requests_per_hour": n, "requests_per_day": n}
	}
	j.refused(j.user, 403, "PLAN_REQUIRED", http.MethodPut, path, all(2_000_000_000))
	j.post(j.none, 201, "/v1/auth/signup", object{"email": own, "password": password})
	full := j.logIn(own)
	var key struct{ Key string }
	j.post(full, 201, "/v1/api-keys", object{"name": "k", "permissions": []string{"actions:run"}}).Data(j.t, &key)
	j.call(full, 200, http.MethodPut, path, all(1))
	full.Key = key.Key // where an endpoint takes no key, the token counts
	for _, op := range j.w.ops {
		if !slices.Contains(op.answers, "429 RATE_LIMITED") {
			continue
		}
		caller, headers := full, []string(nil)
		if op.public {
			caller, headers = j.none, []string{"X-Forwarded-For: 203.0.113.9"}
		}
		j.untilFull(caller, op, headers)
	}
}

// untilFull calls until the window is full, which it is at the first call of most endpoints.
func (j *journey) untilFull(c *rig.Client, op operation, headers []string) {
	j.t.Helper()
	rig.Until(j.t, time.Minute, op.method+" "+op.path+" meets a full window", func() bool {
		a := c.Do(op.method, op.some(), nil, headers...)
		require.NoError(j.t, a.Err)
		return a.Status == http.StatusTooManyRequests && a.Code(j.t) == "RATE_LIMITED"
	})
}

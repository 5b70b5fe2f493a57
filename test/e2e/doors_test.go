package e2e

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// withProduct runs a command of the product. It returns what it printed.
func withProduct(t *testing.T, env []string, in string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), rig.Binary(t, rig.Build{Command: "agentruntime"}), args...)
	cmd.Env, cmd.Stdin = env, strings.NewReader(in)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Where sign-up is closed, strangers get one answer for each address. The operator makes the owner.
func TestClosedInstallationTakesTheOwnersOfItsOperatorOnly(t *testing.T) {
	t.Parallel()
	s := sharedSplit().first.For(t)
	known := newTenant(s)
	closed := s.StartAPI("api-closed", "SIGNUP=closed")
	c := &rig.Client{Base: closed.APIURL, HTTP: rig.NewHTTP()}

	refusals := map[string]bool{}
	for _, email := range []string{known.Email, rig.Address()} {
		a := c.Do(http.MethodPost, "/v1/auth/signup", map[string]string{"email": email, "password": "correct horse"})
		e := requireCode(t, a, http.StatusForbidden, "SIGNUP_CLOSED")
		refusals[e.Error.Message] = true
	}
	require.Len(t, refusals, 1)

	email := rig.Address()
	key := "Lf4S1nVtZ0ahXkQ9cJ7mYw2rGdB8uEoT5pKi3NxHsRg="
	env := []string{"DATABASE_URL=" + s.AppDatabaseURL, "API_KEY_PEPPER=" + key, "JWT_SIGNING_SEED=" + key}
	out, err := withProduct(t, env, "correct horse\n", "owner", "create", "--email", email, "--tenant", "Acme")
	require.NoError(t, err, out)
	var made struct {
		UserID   string `json:"user_id"`
		TenantID string `json:"tenant_id"`
	}
	require.NoError(t, json.Unmarshal([]byte(out), &made), out)
	var in struct {
		Token string
		User  struct {
			ID       string `json:"id"`
			TenantID string `json:"tenantId"`
		}
	}
	c.Do(http.MethodPost, "/v1/auth/login", map[string]string{"email": email, "password": "correct horse"}).Data(t, &in)
	require.Equal(t, made.UserID, in.User.ID)
	require.Equal(t, made.TenantID, in.User.TenantID)
	owner := &rig.Client{Base: closed.APIURL, Token: in.Token, HTTP: rig.NewHTTP()}
	requireCode(t, owner.Do(http.MethodPost, "/v1/users", map[string]string{"email": rig.Address(), "role": "member"}), http.StatusForbidden, "SIGNUP_CLOSED")
}

// A process that finds a database without tables says which command makes them.
func TestProcessBeforeMigrateSaysSo(t *testing.T) {
	t.Parallel()
	s := sharedSplit().first.For(t)
	name := "empty_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	admin, err := pgx.Connect(t.Context(), s.DatabaseURL)
	require.NoError(t, err)
	defer admin.Close(t.Context())
	_, err = admin.Exec(t.Context(), "CREATE DATABASE "+name)
	require.NoError(t, err)
	address, err := url.Parse(s.AppDatabaseURL)
	require.NoError(t, err)
	address.Path = "/" + name
	const key = "Lf4S1nVtZ0ahXkQ9cJ7mYw2rGdB8uEoT5pKi3NxHsRg="
	env := []string{
		"ENV=development", "LISTEN=127.0.0.1:0", "DATABASE_URL=" + address.String(), "TEMPORAL_ADDRESS=" + s.TemporalAddress, "VAULT_KEYS=v1:" + key,
		"API_KEY_PEPPER=" + key, "JWT_SIGNING_SEED=" + key, "TEMPORAL_CODEC_KEY=" + key, "AUDIT_SIGNING_KEY=" + key,
	}
	for _, command := range []string{"api", "worker"} {
		out, err := withProduct(t, env, "", command)
		require.Error(t, err, command)
		require.Contains(t, out, "run `agentruntime migrate`", command)
		require.NotContains(t, out, "does not exist", command)
	}
}

// However a verb is spelled, it is one verb: for the fence, policies, switches and grants.
func TestVerbInAnySpellingIsOneVerb(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		g.open()
		id := uuid.NewString()
		args := map[string]any{"id": id}
		require.Equal(t, "executed", requireRun(t, tenant.Runtime.Run("Gate:Create_Thing", args, id)).FenceStatus)
		for _, name := range []string{"gate:create_thing", "gate__create_thing", "GATE__CREATE_THING"} {
			require.Equal(t, "cached", requireRun(t, tenant.Runtime.Run(name, args, id)).FenceStatus, name)
		}
		require.Len(t, g.of(id), 1)
		tenant.User.NewPolicy(t, rig.Policy("no", "block", "Gate__Delete_*", nil))
		requireCode(t, tenant.Runtime.Run("gate:delete_thing", args, ""), http.StatusForbidden, "GOVERNANCE_BLOCKED")
		var set struct{ ID, Target string }
		tenant.User.Do(http.MethodPost, "/v1/kill-switch", map[string]string{"scope": "verb", "target": "Gate__Get_Thing", "reason": "stop"}).Data(t, &set)
		require.Equal(t, "gate:get_thing", set.Target)
		requireCode(t, tenant.Runtime.Run("gate:get_thing", args, ""), http.StatusForbidden, "GOVERNANCE_BLOCKED")

		// Who names something that is not there is told what is near.
		for verb, want := range map[string]string{
			"gate:create_thin":       "Did you mean gate:create_thing?",
			"gates:create_thing":     "There is no provider gates in it. Did you mean gate:create_thing?",
			"gatehouse:create_thing": "There is no provider gatehouse in it. Did you mean gate:create_thing?",
		} {
			e := requireCode(t, tenant.Runtime.Run(verb, args, ""), http.StatusNotFound, "VERB_NOT_FOUND")
			require.Contains(t, e.Error.Message, want, verb)
		}
		for name, c := range map[string]struct {
			path, code, want string
			body             map[string]any
		}{
			"a grant":         {"/v1/grants", "VERB_NOT_FOUND", "Did you mean gate:create_thing?", map[string]any{"verb": "gate:create_thin", "max_uses": 1, "reason": "r", "expires_at": time.Now().Add(time.Hour), "conditions": []any{}}},
			"a switched verb": {"/v1/kill-switch", "VERB_NOT_FOUND", "Did you mean gate:create_thing?", map[string]any{"scope": "verb", "target": "Gate:create_thin", "reason": "r"}},
			"a switch":        {"/v1/kill-switch", "PROVIDER_NOT_FOUND", "Did you mean gate?", map[string]any{"scope": "provider", "target": "gat", "reason": "r"}},
			"a scope":         {"/v1/kill-switch", "VALIDATION_ERROR", "Did you mean provider?", map[string]any{"scope": "providers", "target": "gate", "reason": "r"}},
			"a role":          {"/v1/users", "VALIDATION_ERROR", "Did you mean approver?", map[string]any{"email": rig.Address(), "role": "aprover"}},
			"a policy":        {"/v1/policies", "VALIDATION_ERROR", "did you mean require_approval?", map[string]any{"name": "p", "verbMatchers": []any{}, "action": map[string]any{"type": "requires_approval"}}},
			"a credential":    {"/v1/credentials", "VALIDATION_ERROR", "Did you mean bearer?", map[string]any{"provider": "gate", "type": "baerer", "data": map[string]string{"token": "t"}}},
			"an agent":        {"/v1/agents", "VALIDATION_ERROR", "did you mean conversational?", map[string]any{"name": "a", "executionMode": "conversation"}},
		} {
			status := http.StatusNotFound
			if c.code == "VALIDATION_ERROR" {
				status = http.StatusBadRequest
			}
			e := requireCode(t, tenant.User.Do(http.MethodPost, c.path, c.body), status, c.code)
			require.Contains(t, e.Error.Message, c.want, name)
		}
		for _, path := range []string{"/v1/providers/gat", "/v1/providers/gat/document", "/v1/providers/gat/verbs"} {
			e := requireCode(t, tenant.User.Do(http.MethodGet, path, nil), http.StatusNotFound, "PROVIDER_NOT_FOUND")
			require.Contains(t, e.Error.Message, "Did you mean gate?", path)
		}
		e := requireCode(t, tenant.User.Do(http.MethodPatch, "/v1/providers/gate/verbs/create_thin", map[string]any{"egress": true}), http.StatusNotFound, "VERB_NOT_FOUND")
		require.Contains(t, e.Error.Message, "Did you mean gate:create_thing?")
		e = requireCode(t, tenant.Runtime.Do(http.MethodPost, "/v1/runtime/actions/run", map[string]any{"verb": "gate:get_thing", "arg": args}), http.StatusBadRequest, "VALIDATION_ERROR")
		require.Contains(t, e.Error.Message, "did you mean args?")
	})
}

// A client that can set one header only sends the key as a token.
func TestKeyAsBearerTokenCounts(t *testing.T) {
	t.Parallel()
	s := sharedDev().For(t)
	tenant := newTenant(s)
	other, _ := newKey(t, tenant)
	key := tenant.Runtime.Key
	c := &rig.Client{Base: s.APIURL, HTTP: rig.NewHTTP()}
	const path = "/v1/runtime/actions/catalog"
	require.Equal(t, http.StatusOK, c.Do(http.MethodGet, path, nil, "Authorization: Bearer "+key).Status)
	require.Equal(t, http.StatusOK, c.Do(http.MethodGet, path, nil, "Authorization: bearer "+key, "X-API-Key: "+key).Status)
	e := requireCode(t, c.Do(http.MethodGet, path, nil, "Authorization: Bearer "+key, "X-API-Key: "+other.Key), http.StatusUnauthorized, "UNAUTHENTICATED")
	require.Contains(t, e.Error.Message, "X-API-Key and Authorization")
	requireCode(t, c.Do(http.MethodGet, "/v1/users", nil, "Authorization: Bearer "+key), http.StatusForbidden, "INSUFFICIENT_PERMISSIONS")
	requireCode(t, c.Do(http.MethodGet, path, nil, "Authorization: Bearer "+key[:len(key)-1]), http.StatusUnauthorized, "INVALID_API_KEY")
}

// A client that throws on errors asks for a held call to be no error.
func TestHeldCallRespondsAsync(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		g, tenant := connected(t, s)
		g.open()
		type answer struct {
			Status, Decision, Message string
			FenceStatus               string `json:"fence_status"`
			GovernanceStatus          string `json:"governance_status"`
			ApprovedBy                string `json:"approved_by"`
			ApprovalID                string `json:"approval_id"`
		}
		read := func(a rig.Answer, status int) (d answer) {
			t.Helper()
			require.Equal(t, status, a.Status, "%s", a.Body)
			a.Data(t, &d)
			return d
		}
		const async = "Prefer: wait=20, respond-async"
		tenant.User.NewPolicy(t, rig.RequireApproval("hold", "gate:create_thing", map[string]any{"self_approval": true}))
		tenant.User.NewPolicy(t, rig.Policy("no", "block", "gate:delete_thing", nil))
		id := uuid.NewString()

		held := read(createNow(tenant.Runtime, id, "", async), http.StatusAccepted)
		require.NotEmpty(t, held.ApprovalID)
		require.Equal(t, answer{Status: "pending_approval", Decision: "pending_approval", FenceStatus: "started", GovernanceStatus: "pending", ApprovalID: held.ApprovalID, Message: held.Message}, held)
		require.Equal(t, "cached", read(createNow(tenant.Runtime, id, "", async), http.StatusAccepted).FenceStatus)
		requireCode(t, createNow(tenant.Runtime, id, ""), http.StatusForbidden, "GOVERNANCE_BLOCKED")
		shown := read(tenant.Runtime.Do(http.MethodGet, "/v1/executions/"+id, nil), http.StatusOK)
		require.Equal(t, "started", shown.FenceStatus)
		require.Empty(t, shown.ApprovedBy)

		require.Equal(t, http.StatusOK, tenant.User.Decide(held.ApprovalID, "approve", nil).Status)
		awaitStatus(t, tenant.Runtime, id, "executed")
		shown = read(tenant.Runtime.Do(http.MethodGet, "/v1/executions/"+id, nil), http.StatusOK)
		require.Empty(t, shown.FenceStatus)
		require.Equal(t, "person", shown.ApprovedBy)
		again := read(createNow(tenant.Runtime, id, "", async), http.StatusOK)
		require.Equal(t, "cached", again.FenceStatus)
		require.Equal(t, "person", again.ApprovedBy)

		// A repeat with other arguments says so before all else.
		other := read(tenant.Runtime.Run("gate:create_thing", map[string]any{"id": "another"}, id), http.StatusOK)
		require.True(t, strings.HasPrefix(other.Message, "The arguments of this call were not used: the run of this id has others at /args/id"), other.Message)

		// A block is an error, and a call that nobody held is the policies'.
		requireCode(t, tenant.Runtime.Do(http.MethodPost, "/v1/runtime/actions/run", map[string]any{"verb": "gate:delete_thing", "args": map[string]any{"id": id}}, async), http.StatusForbidden, "GOVERNANCE_BLOCKED")
		require.Equal(t, "policy", read(tenant.Runtime.Run("gate:get_thing", map[string]any{"id": id}, ""), http.StatusOK).ApprovedBy)
	})
}

// One list has executions of all kinds, in the order of their beginning, by one cursor.
func TestExecutionsOfAllKindsAreOneList(t *testing.T) {
	t.Parallel()
	s := sharedDev().For(t)
	session := uuid.NewString()
	runtime := &rig.Client{Base: s.APIURL, Key: s.RuntimeKey, HTTP: rig.NewHTTP()}
	agent := &rig.Client{Base: s.APIURL, Key: s.AgentKey, HTTP: rig.NewHTTP()}
	var in struct{ Token string }
	runtime.Do(http.MethodPost, "/v1/auth/login", map[string]string{"email": s.Email, "password": s.Password}).Data(t, &in)
	user := &rig.Client{Base: s.APIURL, Token: in.Token, HTTP: rig.NewHTTP()}

	own, like := "own-"+session, "exec_fff"+session
	for _, id := range []string{own, like, ""} {
		call := map[string]any{"verb": "shop:get_order", "args": map[string]any{"order_id": "ord_1001"}, "session_id": session}
		if id != "" {
			call["execution_id"] = id
		}
		requireRun(t, runtime.Do(http.MethodPost, "/v1/runtime/actions/run", call))
	}
	require.Equal(t, http.StatusOK, runtime.Do(http.MethodPost, "/v1/maps/"+s.MapID+"/trigger", map[string]any{"session_id": session, "payload": map[string]any{"order_id": "ord_1001"}}).Status)
	require.Equal(t, http.StatusOK, agent.Do(http.MethodPost, "/v1/agents/"+s.AgentID+"/message", map[string]any{"message": "Where is order 1001?", "session_id": session}).Status)

	type item struct {
		ExecutionID string `json:"execution_id"`
		Kind        string `json:"kind"`
		CreatedAt   string `json:"created_at"`
	}
	list := func(query string) (all []item) {
		t.Helper()
		for cursor := ""; ; {
			a := user.Do(http.MethodGet, "/v1/executions?"+query+"&session_id="+session+cursor, nil)
			require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
			var page []item
			a.Data(t, &page)
			all = append(all, page...)
			var p struct {
				Next *string `json:"next_cursor"`
			}
			require.NoError(t, json.Unmarshal(a.Envelope(t).Pagination, &p))
			if p.Next == nil {
				return all
			}
			cursor = "&cursor=" + url.QueryEscape(*p.Next)
		}
	}
	all := list("kind=all&limit=1")
	require.Equal(t, all, list("kind=all"))
	var each []item
	kinds := map[string]bool{}
	for _, kind := range []string{"action", "map", "message", "goal"} {
		each = append(each, list("kind="+kind)...)
	}
	require.ElementsMatch(t, each, all)
	for i, e := range all {
		kinds[e.Kind] = true
		require.False(t, i > 0 && all[i-1].CreatedAt < e.CreatedAt, "the newest first")
		require.Contains(t, list("kind=all&q="+e.ExecutionID[:len(e.ExecutionID)-2]), e)
	}
	require.Equal(t, map[string]bool{"action": true, "map": true, "message": true}, kinds)

	// A filter narrows all to the kinds that know it; a kind that does not know it refuses it.
	of := func(kind string) string {
		t.Helper()
		found := list("kind=" + kind)
		require.Len(t, found, 1)
		return found[0].ExecutionID
	}
	for query, kinds := range map[string][]string{
		"kind=all&verb=Shop__Get_Order": {"action"}, "kind=all&status=executed": {"action"}, "q=" + own: {"action"}, "q=exec_fff": {"action"},
		"kind=all&map_id=" + s.MapID: {"action", "map"}, "map_id=" + s.MapID: {"action"},
		"kind=all&agent_id=" + s.AgentID: {"action", "message"}, "agent_id=" + s.AgentID + "&verb=shop:get_order": {"action"},
		"kind=all&parent_execution_id=" + of("map"): {"action"}, "kind=all&parent_execution_id=" + of("message"): {"action"},
	} {
		found := map[string]bool{}
		for _, e := range list(query) {
			found[e.Kind] = true
			require.False(t, e.ExecutionID == own && strings.Contains(query, "_id="), "%s lists the call over HTTP", query)
		}
		require.ElementsMatch(t, kinds, slices.Collect(maps.Keys(found)), query)
	}
	var call struct {
		AgentID *string `json:"agent_id"`
		Parent  *string `json:"parent_execution_id"`
	}
	user.Do(http.MethodGet, "/v1/executions/"+list("agent_id=" + s.AgentID)[0].ExecutionID, nil).Data(t, &call)
	require.Equal(t, s.AgentID, *call.AgentID)
	require.Equal(t, of("message"), *call.Parent)
	for query, want := range map[string]string{
		"kind=map&agent_id=" + s.AgentID:                         "agent_id narrows executions of the kinds message, goal, action only",
		"kind=message&verb=shop:get_order&agent_id=" + s.AgentID: "narrows executions of the kinds",
		"kind=all&status=complete":                               "Did you mean completed?",
		"kind=al":                                                "Did you mean all?",
		"kind=all&sesion_id=x":                                   "Did you mean session_id?",
	} {
		e := requireCode(t, user.Do(http.MethodGet, "/v1/executions?"+query, nil), http.StatusBadRequest, "VALIDATION_ERROR")
		require.Contains(t, e.Error.Message, want, query)
	}
	require.Empty(t, list("kind=all&q=nothing-begins-so"))
	// A caller's name may begin as ours do.
	require.Equal(t, like, list("q=exec_fff")[0].ExecutionID)
}

// A credential for a provider that is not there is stored, and the answer says so.
func TestCredentialWithoutAProviderIsStoredWithAWarning(t *testing.T) {
	t.Parallel()
	_, tenant := connected(t, sharedDev().For(t))
	store := func(provider string) (made struct {
		Provider string
		Warnings []string
	},
	) {
		t.Helper()
		a := tenant.User.Do(http.MethodPost, "/v1/credentials", map[string]any{"provider": provider, "type": "bearer", "data": map[string]string{"token": "t"}})
		require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
		a.Data(t, &made)
		return made
	}
	require.Equal(t, []string{"Your catalog has no provider gaate. No call presents this credential until you import or enable it. Did you mean gate?"}, store("gaate").Warnings)
	require.Empty(t, store("gate").Warnings)
}

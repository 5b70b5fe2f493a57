package api

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/api/wire"
	"agentruntime/internal/action/desk"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/rate"
	"agentruntime/internal/base/verb"
)

// fakeDesk replaces the approval domain. It records the calls that it gets.
type fakeDesk struct {
	mu       sync.Mutex
	approver actor.Actor
	decided  map[string]desk.Input
	filter   desk.Filter
	grants   desk.GrantFilter
	granted  desk.NewGrant
	narrowed desk.GrantPatch
	next     string // what Mine answers
	more     bool
	err      error

	// full, where it is set, delays decisions until eight are being made at once.
	full          chan struct{}
	underWay, top int
}

func someApproval(id string) desk.Approval {
	return desk.Approval{
		ID: id, Kind: governance.ApprovalOfHold, ExecutionID: "e", WorkflowID: "run:e", Status: governance.ApprovalPending, Provider: "shop", Verb: "pay",
		Args: json.RawMessage(`{"n":1}`), RiskLevel: "high", Explanation: json.RawMessage("[]"), RunState: "claimed", CreatedAt: someday,
	}
}

func (*fakeDesk) Get(_ context.Context, _ uuid.UUID, id string) (desk.Detailed, error) {
	return desk.Detailed{Approval: someApproval(id)}, nil
}

func (d *fakeDesk) List(_ context.Context, _ uuid.UUID, f desk.Filter) ([]desk.Approval, bool, error) {
	d.filter = f
	return []desk.Approval{someApproval("appr_2"), someApproval("appr_1")}, d.more, nil
}

func (*fakeDesk) Counts(context.Context, uuid.UUID) (map[governance.ApprovalStatus]int64, error) {
	n := map[governance.ApprovalStatus]int64{}
	for i, status := range governance.ApprovalStatuses() {
		n[status] = int64(i + 1)
	}
	return n, nil
}

func (d *fakeDesk) Decide(_ context.Context, who actor.Actor, id string, in desk.Input) (desk.Detailed, error) {
	d.mu.Lock()
	d.approver, d.decided[id] = who, in
	d.underWay++
	d.top = max(d.top, d.underWay)
	if d.full != nil && len(d.decided) == decisionsAtATime {
		close(d.full)
	}
	d.mu.Unlock()
	if d.full != nil {
		<-d.full
	}
	d.mu.Lock()
	d.underWay--
	d.mu.Unlock()
	a := someApproval(id)
	a.Status = governance.ApprovalApproved
	switch id {
	case "appr_gone":
		return desk.Detailed{}, fault.New(fault.CodeApprovalNotFound, "")
	case "appr_broken":
		return desk.Detailed{}, errors.New("what nobody may see")
	}
	return desk.Detailed{Approval: a}, d.err
}

func (d *fakeDesk) CreateGrant(_ context.Context, who actor.Actor, in desk.NewGrant) (desk.Grant, error) {
	d.approver, d.granted = who, in
	return someGrant(), d.err
}

func (d *fakeDesk) Mine(_ context.Context, who actor.Actor, f desk.Filter) ([]desk.Approval, string, error) {
	d.approver, d.filter = who, f
	return nil, d.next, d.err
}

func (*fakeDesk) GetGrant(context.Context, uuid.UUID, uuid.UUID) (desk.Grant, error) {
	return someGrant(), nil
}

func (d *fakeDesk) Grants(_ context.Context, _ uuid.UUID, f desk.GrantFilter) ([]desk.Grant, bool, error) {
	d.grants = f
	return []desk.Grant{someGrant()}, d.more, nil
}

func (d *fakeDesk) RevokeGrant(_ context.Context, _ actor.Actor, id uuid.UUID, _ fault.Expect[desk.Grant]) error {
	if id == uuid.Nil {
		return fault.New(fault.CodeGrantNotFound, "")
	}
	return d.err
}

func (d *fakeDesk) NarrowGrant(_ context.Context, _ actor.Actor, _ uuid.UUID, p desk.GrantPatch) (desk.Grant, error) {
	d.narrowed = p
	return someGrant(), d.err
}

func someGrant() desk.Grant {
	return desk.Grant{
		ID: someKey, Verb: verb.Name{Provider: "shop", Verb: "pay"}, CreatedBy: someUser, CreatedAt: someday,
		ExpiresAt: someday.Add(time.Hour), MaxUses: 2,
	}
}

func newDesk() *fakeDesk { return &fakeDesk{decided: map[string]desk.Input{}} }

// anyAddress lets every address call as often as it likes.
func anyAddress() *rate.Addresses {
	addresses, err := rate.NewAddresses(rate.AddressConfig{PerMinute: rate.Most, Loopback: rate.Most})
	if err != nil {
		panic(err)
	}
	return addresses
}

func deskServer(d *fakeDesk) *Server { return bareServer(deskDeps(d)) }

func deskDeps(d *fakeDesk) Deps {
	who := &door{}
	return Deps{
		Auth: who, Revocations: who, Log: slog.New(slog.DiscardHandler), Approvals: d, Now: func() time.Time { return someday },
	}
}

// bareServer has some services only.
func bareServer(d Deps) *Server {
	s := assemble(d)
	s.parameters, _ = documentedParameters(openapiJSON)
	// The routes without the documentation, which takes long to compress under the race detector.
	mux := chi.NewRouter()
	for _, rt := range s.routes() {
		mux.Method(rt.method, rt.path, s.guarded(rt))
	}
	s.handler = wire.Middleware(d.Log, d.Now, nil, anyAddress(), mux)
	return s
}

func TestDecisionReachesTheDomain(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		path, body string
		want       desk.Input
	}{
		"approve":                {"approve", `{}`, desk.Input{Approve: true}},
		"approve without a body": {"approve", ``, desk.Input{Approve: true}},
		"approve with a reason":  {"approve", `{"reason":"r"}`, desk.Input{Approve: true, Reason: "r"}},
		"edit to nothing":        {"approve", `{"edited_args":{}}`, desk.Input{Approve: true, EditedArgs: json.RawMessage(`{}`)}},
		"edit as it is written": {
			"approve", `{"edited_args":{"n":9007199254740993,"N":1.0}}`,
			desk.Input{Approve: true, EditedArgs: json.RawMessage(`{"n":9007199254740993,"N":1.0}`)},
		},
		"edit of null":          {"approve", `{"edited_args":null}`, desk.Input{Approve: true}},
		"reject":                {"reject", `{}`, desk.Input{}},
		"reject without a body": {"reject", ``, desk.Input{}},
		"reject with a reason":  {"reject", `{"reason":"r"}`, desk.Input{Reason: "r"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk()
			w := ask(t, deskServer(d), http.MethodPost, "/v1/approvals/appr_1/"+tc.path, "jwt", tc.body)
			require.Equal(t, http.StatusOK, w.Code, w.Body)
			require.Equal(t, map[string]desk.Input{"appr_1": tc.want}, d.decided)
			require.Equal(t, actor.Actor{
				Kind: actor.User, TenantID: someTenant, ID: someUser, Role: "owner", RequestID: "req-1", SourceAddr: "192.0.2.7",
			}, d.approver)
			require.Contains(t, w.Body.String(), `"decisions":[]`)
			require.Contains(t, w.Body.String(), `"requirements":[]`)
			require.Contains(t, w.Body.String(), `"outcome":"running"`)
		})
	}
}

func TestMalformedDecisionIsRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ path, body, at string }{
		"unknown member":       {"appr_1/approve", `{"edited_arg":{}}`, "/edited_arg"},
		"edit and response":    {"appr_1/approve", `{"edited_args":{},"response":{}}`, "/response"},
		"long reason":          {"appr_1/approve", `{"reason":"` + strings.Repeat("ü", 2001) + `"}`, "/reason"},
		"rejection that edits": {"appr_1/reject", `{"edited_args":{}}`, "/edited_args"},
		"no batch":             {"batch", `{}`, "/decisions"},
		"empty batch":          {"batch", `{"decisions":[]}`, "/decisions"},
		"long batch":           {"batch", `{"decisions":[` + strings.Repeat(`{"id":"a","decision":"reject"},`, 100) + `{}]}`, "/decisions"},
		"twice in a batch":     {"batch", `{"decisions":[{"id":"a","decision":"reject"},{"id":"a","decision":"approve"}]}`, "/decisions/1/id"},
		"neither":              {"batch", `{"decisions":[{"id":"a","decision":"maybe"}]}`, "/decisions/0/decision"},
		"no decision":          {"batch", `{"decisions":[{"id":"a"}]}`, "/decisions/0/decision"},
		"no id":                {"batch", `{"decisions":[{"decision":"reject"}]}`, "/decisions/0/id"},
		"batch that edits":     {"batch", `{"decisions":[{"id":"a","decision":"approve","edited_args":{}}]}`, "/decisions/0/edited_args"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk()
			w := ask(t, deskServer(d), http.MethodPost, "/v1/approvals/"+tc.path, "jwt", tc.body)
			require.Equal(t, http.StatusBadRequest, w.Code, w.Body)
			require.Contains(t, w.Body.String(), `"path":"`+tc.at+`"`)
			require.Empty(t, d.decided, "something was decided all the same")
		})
	}
}

func TestKeyCannotDecide(t *testing.T) {
	t.Parallel()
	d := newDesk()
	for _, path := range []string{"POST /v1/approvals/appr_1/approve", "POST /v1/approvals/appr_1/reject", "POST /v1/approvals/batch", "POST /v1/grants", "DELETE /v1/grants/x"} {
		method, path, _ := strings.Cut(path, " ")
		w := ask(t, deskServer(d), method, path, "key", "")
		require.Equal(t, http.StatusForbidden, w.Code, "%s: %s", path, w.Body)
	}
	require.Empty(t, d.decided)
}

func TestBatchDecidesEightAtOnceAndAnswersInOrder(t *testing.T) {
	t.Parallel()
	d := newDesk()
	d.full = make(chan struct{})
	items := []string{`{"id":"appr_gone","decision":"Approve"}`, `{"id":"appr_broken","decision":"approve"}`}
	for i := range 20 {
		items = append(items, fmt.Sprintf(`{"id":"appr_%d","decision":"REJECT","reason":"r"}`, i))
	}
	w := ask(t, deskServer(d), http.MethodPost, "/v1/approvals/batch", "jwt", `{"decisions":[`+strings.Join(items, ",")+`]}`)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.Equal(t, 8, d.top)
	var answer struct{ Data batchView }
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
	require.Len(t, answer.Data.Results, 22)
	require.Equal(t, batchResult{ID: "appr_gone", Error: &batchError{fault.CodeApprovalNotFound, "No such approval."}}, answer.Data.Results[0])
	require.Equal(t, fault.CodeInternal, answer.Data.Results[1].Error.Code)
	require.NotContains(t, w.Body.String(), "what nobody may see")
	for i, r := range answer.Data.Results[2:] {
		require.Equal(t, batchResult{ID: fmt.Sprintf("appr_%d", i), Success: true, Status: "approved"}, r)
	}
	require.Equal(t, desk.Input{Approve: true}, d.decided["appr_gone"])
	require.Equal(t, desk.Input{Reason: "r"}, d.decided["appr_7"])
}

func TestApprovalListFilters(t *testing.T) {
	t.Parallel()
	until := someday.Add(time.Hour)
	for query, want := range map[string]desk.Filter{
		"":                                   {Limit: 100},
		"status=PENDING&limit=2":             {Status: governance.ApprovalPending, Limit: 2},
		"kind=dry_run&risk_level=High":       {Kind: governance.ApprovalOfDryRun, RiskLevel: "high", Limit: 100},
		"verb=shop:pay":                      {Provider: "shop", Verb: "pay", Limit: 100},
		"provider=shop":                      {Provider: "shop", Limit: 100},
		"execution_id=e%201":                 {ExecutionID: "e 1", Limit: 100},
		"policy_id=" + someKey.String():      {PolicyID: &someKey, Limit: 100},
		"requester=key:" + someKey.String():  {Requester: actor.CallerOf(&someKey, nil), Limit: 100},
		"requester=user:" + someKey.String(): {Requester: actor.CallerOf(nil, &someKey), Limit: 100},
		"from=" + someday.Format(time.RFC3339Nano) + "&to=" + until.Format(time.RFC3339Nano): {Since: &someday, Until: &until, Limit: 100},
	} {
		d := newDesk()
		w := ask(t, deskServer(d), http.MethodGet, "/v1/approvals?"+query, "key", "")
		require.Equal(t, http.StatusOK, w.Code, "%s: %s", query, w.Body)
		require.Equal(t, want, d.filter, query)
	}
	for query, code := range map[string]fault.Code{
		"status=open": fault.CodeValidation, "kind=x": fault.CodeValidation, "risk_level=x": fault.CodeValidation, "policy_id=x": fault.CodeValidation,
		"requester=" + someKey.String(): fault.CodeValidation, "requester=map:" + someKey.String(): fault.CodeValidation,
		"from=x": fault.CodeValidation, "verb=x": fault.CodeInvalidVerb, "limit=0": fault.CodeValidation, "cursor=%C3%A9": fault.CodeValidation,
		"cursor=" + base64.RawURLEncoding.EncodeToString([]byte("a\x00")): fault.CodeValidation, "provider=%00": fault.CodeValidation,
	} {
		w := ask(t, deskServer(newDesk()), http.MethodGet, "/v1/approvals?"+query, "jwt", "")
		require.Equal(t, http.StatusBadRequest, w.Code, "%s: %s", query, w.Body)
		require.Contains(t, w.Body.String(), code, query)
	}
}

// Of what waits for a user a page can be empty and not the last: they may approve none of the
// newest.
func TestEmptyPageOfWhatWaitsHasACursor(t *testing.T) {
	t.Parallel()
	d := newDesk()
	d.next = "appr_7"
	s := deskServer(d)
	var page struct {
		Pagination wire.Pagination
		Data       []approvalView
	}
	require.NoError(t, json.Unmarshal(ask(t, s, http.MethodGet, "/v1/approvals?mine=true", "jwt", "").Body.Bytes(), &page))
	require.Empty(t, page.Data)
	require.True(t, page.Pagination.HasMore)
	w := ask(t, s, http.MethodGet, "/v1/approvals?mine=true&cursor="+*page.Pagination.NextCursor, "jwt", "")
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.Equal(t, "appr_7", d.filter.Before)
}

func TestApprovalListContinuesAtItsCursor(t *testing.T) {
	t.Parallel()
	d := newDesk()
	d.more = true
	s := deskServer(d)
	var page struct {
		Pagination wire.Pagination
		Data       []approvalView
	}
	require.NoError(t, json.Unmarshal(ask(t, s, http.MethodGet, "/v1/approvals?limit=2", "jwt", "").Body.Bytes(), &page))
	require.Len(t, page.Data, 2)
	require.True(t, page.Pagination.HasMore)
	w := ask(t, s, http.MethodGet, "/v1/approvals?limit=2&cursor="+*page.Pagination.NextCursor, "jwt", "")
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.Equal(t, "appr_1", d.filter.Before)
}

func TestApprovalCountsByStatus(t *testing.T) {
	t.Parallel()
	w := ask(t, deskServer(newDesk()), http.MethodGet, "/v1/approvals/counts", "key", "")
	require.JSONEq(t, `{"success":true,"data":{"pending":1,"approved":2,"rejected":3,"expired":4,"cancelled":5,"superseded":6,"blocked":7,"total":28}}`,
		w.Body.String())
}

func TestGrantReachesTheDomain(t *testing.T) {
	t.Parallel()
	d := newDesk()
	s := deskServer(d)
	w := ask(t, s, http.MethodPost, "/v1/grants", "jwt", `{"verb":"shop:pay","conditions":[{"field":"args.n","operator":"in","value":[{"a":1,"A":2}]}],
		"api_key_id":"`+someKey.String()+`","agent_id":"a","customer_id":"c","expires_at":"2026-01-02T04:04:05+01:00","max_uses":3,"reason":"r"}`)
	require.Equal(t, http.StatusCreated, w.Code, w.Body)
	require.Equal(t, "/v1/grants/"+someKey.String(), w.Header().Get("Location"))
	require.Contains(t, w.Body.String(), `"conditions":[]`)
	a, c := "a", "c"
	want := desk.NewGrant{
		Verb: "shop:pay", Conditions: []governance.Condition{{Field: "args.n", Operator: "in", Value: json.RawMessage(`[{"a":1,"A":2}]`)}},
		KeyID: &someKey, AgentID: &a, CustomerID: &c, MaxUses: 3, Reason: "r",
	}
	require.True(t, d.granted.ExpiresAt.Equal(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)))
	d.granted.ExpiresAt = time.Time{}
	require.Equal(t, want, d.granted)
	require.Equal(t, someUser, d.approver.ID)

	w = ask(t, s, http.MethodDelete, "/v1/grants/"+someKey.String(), "jwt", "")
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.JSONEq(t, `{"success":true,"data":{"deleted":true}}`, w.Body.String())
	require.Equal(t, http.StatusNotFound, ask(t, s, http.MethodDelete, "/v1/grants/none", "jwt", "").Code)

	w = ask(t, s, http.MethodPatch, "/v1/grants/"+someKey.String(), "jwt", `{"expires_at":"2026-01-02T04:04:05+01:00","max_uses":1}`)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.True(t, d.narrowed.ExpiresAt.Equal(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)))
	require.EqualValues(t, 1, *d.narrowed.MaxUses)
	for _, bad := range []string{`{"expires_at":"soon"}`, `{"verb":"shop:pay"}`, `{"max_uses":"1"}`} {
		require.Equal(t, http.StatusBadRequest, ask(t, s, http.MethodPatch, "/v1/grants/"+someKey.String(), "jwt", bad).Code, bad)
	}

	yes, no := true, false
	for query, want := range map[string]desk.GrantFilter{
		"": {Limit: 100}, "usable=TRUE": {Usable: &yes, Limit: 100}, "usable=false": {Usable: &no, Limit: 100}, "verb=shop:pay": {Provider: "shop", Verb: "pay", Limit: 100},
	} {
		require.Equal(t, http.StatusOK, ask(t, s, http.MethodGet, "/v1/grants?"+query, "key", "").Code)
		require.Equal(t, want, d.grants, query)
	}
	require.Equal(t, http.StatusBadRequest, ask(t, s, http.MethodGet, "/v1/grants?usable=maybe", "key", "").Code)
}

func TestMalformedGrantIsRefused(t *testing.T) {
	t.Parallel()
	good := map[string]string{"verb": `"shop:pay"`, "expires_at": `"2026-01-02T04:04:05Z"`, "max_uses": "1", "reason": `"r"`}
	body := func(name, value string) string {
		var members []string
		for n, v := range good {
			if n != name {
				members = append(members, `"`+n+`":`+v)
			}
		}
		if value != "" {
			members = append(members, `"`+name+`":`+value)
		}
		return "{" + strings.Join(members, ",") + "}"
	}
	for _, tc := range [][2]string{
		{"verb", ""},
		{"expires_at", ""},
		{"expires_at", `"tomorrow"`},
		{"expires_at", `"9999-12-31T23:59:59-23:59"`},
		{"max_uses", ""},
		{"reason", ""},
		{"reason", `""`},
		{"api_key_id", `"x"`},
		{"agent_id", `""`},
		{"customer_id", `"` + strings.Repeat("x", 256) + `"`},
		{"condition", "[]"},
	} {
		d := newDesk()
		w := ask(t, deskServer(d), http.MethodPost, "/v1/grants", "jwt", body(tc[0], tc[1]))
		require.Equal(t, http.StatusBadRequest, w.Code, "%v: %s", tc, w.Body)
		require.Contains(t, w.Body.String(), `"path":"/`+tc[0]+`"`)
		require.Empty(t, d.granted.Verb)
	}
}

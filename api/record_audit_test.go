package api_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/chain"
)

// record appends a record of the site's tenant and returns its id.
func (s *site) record(t *testing.T, change func(*audit.Record)) {
	t.Helper()
	r := audit.Record{
		TenantID: s.tenant, ActorType: actor.Key, ActorID: "key-1", Action: "run.executed", Provider: "shop", Verb: "create_order",
		RiskLevel: "medium", Decision: "notify", Outcome: "executed", ExecutionID: "order-1", RequestID: "req_1", SourceAddr: "192.0.2.7",
		Input: json.RawMessage(`{"amount": 1999, "note": "two words"}`),
	}
	if change != nil {
		change(&r)
	}
	require.NoError(t, audit.Append(t.Context(), s.db.Tenant(s.tenant), r))
}

type auditItem struct {
	Seq    *int64
	Hash   *string
	Action string
	Verb   string
	Input  json.RawMessage
}

func (s *site) auditList(t *testing.T, query string) (list []auditItem, next string) {
	t.Helper()
	a := s.do(t, "user", http.MethodGet, "/v1/audit"+query, "")
	a.into(t, http.StatusOK, &list)
	var page struct {
		NextCursor *string `json:"next_cursor"`
	}
	require.NoError(t, json.Unmarshal(a.pagination, &page))
	if page.NextCursor != nil {
		next = *page.NextCursor
	}
	return list, next
}

func TestAuditListIsNewestFirst(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for i := range 5 {
		s.record(t, func(r *audit.Record) { r.Action = audit.Action(fmt.Sprintf("step.%d", i)) })
	}
	var actions []string
	query := "?limit=2"
	for pages := 0; ; pages++ {
		list, next := s.auditList(t, query)
		for _, item := range list {
			require.Nil(t, item.Seq)
			require.Nil(t, item.Hash)
			require.Equal(t, "shop:create_order", item.Verb)
			require.JSONEq(t, `{"amount":1999,"note":"two words"}`, string(item.Input))
			actions = append(actions, item.Action)
		}
		if next == "" {
			require.Equal(t, 2, pages)
			break
		}
		query = "?limit=2&cursor=" + next
	}
	require.Equal(t, []string{"step.4", "step.3", "step.2", "step.1", "step.0"}, actions)

	require.NoError(t, s.trail.Seal(t.Context(), s.tenant))
	list, _ := s.auditList(t, "?limit=1")
	require.Equal(t, int64(5), *list[0].Seq)
	require.Len(t, *list[0].Hash, 64)

	var foreign []auditItem
	s.do(t, "foreign", http.MethodGet, "/v1/audit", "").into(t, http.StatusOK, &foreign)
	require.Empty(t, foreign)
}

func TestAuditFilters(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	session := "s-1"
	s.record(t, func(r *audit.Record) { r.Action = "one"; r.SessionID = &session })
	s.record(t, func(r *audit.Record) {
		r.Action, r.Provider, r.Verb, r.Decision, r.ExecutionID = "two", "mail", "send", "block", "order-2"
	})
	s.record(t, func(r *audit.Record) {
		r.Action, r.ActorType, r.ActorID, r.SubjectType, r.SubjectID, r.Provider, r.Verb = "three", actor.User, "user-1", "policy", "pol-1", "", ""
	})
	hour := func(d time.Duration) string {
		return url.QueryEscape(time.Now().Add(d).Format(time.RFC3339Nano))
	}
	for query, want := range map[string]string{
		"":                                    "three two one",
		"?session_id=s-1":                     "one",
		"?execution_id=order-2":               "two",
		"?verb=mail:send":                     "two",
		"?verb=shop:send":                     "",
		"?provider=shop":                      "one",
		"?decision=block":                     "two",
		"?action=three":                       "three",
		"?actor=user-1":                       "three",
		"?actor=key-1&actor_type=key":         "two one",
		"?actor=key-1&actor_type=user":        "",
		"?subject=pol-1":                      "three",
		"?subject_type=policy&subject=other":  "",
		"?from=" + hour(-time.Hour):           "three two one",
		"?from=" + hour(time.Hour):            "",
		"?to=" + hour(-time.Hour):             "",
		"?to=" + hour(time.Hour) + "&limit=2": "three two",
	} {
		list, _ := s.auditList(t, query)
		var actions []string
		for _, item := range list {
			actions = append(actions, item.Action)
		}
		require.Equal(t, want, strings.Join(actions, " "), query)
	}
	for query, path := range map[string]string{
		"?from=yesterday": "query.from", "?to=1": "query.to", "?limit=0": "query.limit", "?cursor=!": "query.cursor", "?actor=%00": "query.actor",
	} {
		for _, endpoint := range []string{"/v1/audit", "/v1/audit/export"} {
			if endpoint != "/v1/audit" && (path == "query.limit" || path == "query.cursor") {
				continue
			}
			a := s.do(t, "user", http.MethodGet, endpoint+query, "")
			a.refused(t, http.StatusBadRequest, fault.CodeValidation)
			require.Equal(t, []string{path}, a.paths)
		}
	}
	s.do(t, "user", http.MethodGet, "/v1/audit?verb=nothing", "").refused(t, http.StatusBadRequest, fault.CodeInvalidVerb)
	a := s.do(t, "user", http.MethodGet, "/v1/audit/export?format=xml", "")
	a.refused(t, http.StatusBadRequest, fault.CodeValidation)
	require.Equal(t, []string{"query.format"}, a.paths)
}

// download reads a file as one of the callers.
func (s *site) download(t *testing.T, as, query string) (http.Header, []byte) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/audit/export"+query, http.NoBody)
	if s.keys[as] {
		r.Header.Set("X-API-Key", as)
	} else {
		r.Header.Set("Authorization", "Bearer "+as)
	}
	w := httptest.NewRecorder()
	s.server.ServeHTTP(w, r)
	require.Equal(t, http.StatusOK, w.Code, w.Body.String())
	return w.Result().Header, w.Body.Bytes()
}

func TestExportVerifiesWithPublishedKeys(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for range 3 {
		s.record(t, nil)
	}
	s.record(t, func(r *audit.Record) { r.Decision = "block" })
	s.sealed(t, 4)
	published := s.do(t, "manager", http.MethodGet, "/v1/audit/keys", "")
	require.Equal(t, http.StatusOK, published.status, published.body)
	for _, text := range []string{published.body, string(published.data)} {
		keys, err := chain.ParseKeys([]byte(text))
		require.NoError(t, err)
		for query, shown := range map[string]int64{"": 4, "?format=ndjson": 4, "?decision=block": 1, "?decision=none": 0} {
			header, file := s.download(t, "manager", query)
			require.Equal(t, "application/x-ndjson", header.Get("Content-Type"))
			require.Contains(t, header.Get("Content-Disposition"), ".ndjson")
			require.Equal(t, "no-store", header.Get("Cache-Control"))
			sum, err := chain.Verify(bytes.NewReader(file), keys)
			require.NoError(t, err, "%s\n%s", query, file)
			require.Equal(t, shown, sum.Records, query)
			require.Equal(t, s.tenant, sum.TenantID)
		}
	}
	header, file := s.download(t, "user", "?format=CSV&decision=block")
	require.Equal(t, "text/csv; charset=utf-8; header=present", header.Get("Content-Type"))
	rows, err := csv.NewReader(bytes.NewReader(file)).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 2)
	require.Equal(t, "block", rows[1][10])

	var report struct {
		Valid    bool
		Sealed   int64
		Unsealed int64
		Head     struct{ Seq int64 }
		Problem  *struct{} `json:"first_problem"`
	}
	s.do(t, "user", http.MethodGet, "/v1/audit/verify", "").into(t, http.StatusOK, &report)
	require.True(t, report.Valid)
	require.Nil(t, report.Problem)
	require.Equal(t, []int64{4, 0, 4}, []int64{report.Sealed, report.Unsealed, report.Head.Seq})
	s.do(t, "agent", http.MethodGet, "/v1/audit/export", "").refused(t, http.StatusForbidden, fault.CodeInsufficientPermissions)
}

// sealed exports until so many records are sealed. A record is sealed when all transactions
// that are older have ended, also those of tests that share this one's Postgres.
func (s *site) sealed(t *testing.T, records int64) {
	t.Helper()
	for {
		_, _ = s.download(t, "user", "")
		var report struct{ Sealed int64 }
		s.do(t, "user", http.MethodGet, "/v1/audit/verify", "").into(t, http.StatusOK, &report)
		if report.Sealed == records {
			return
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("%d of %d records are sealed", report.Sealed, records)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// A record that was changed in the database is reported. The chain is not signed again.
func TestTamperedChainIsReported(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for range 3 {
		s.record(t, nil)
	}
	s.sealed(t, 3)
	admin, err := pgx.Connect(t.Context(), s.db.AdminURL)
	require.NoError(t, err)
	defer admin.Close(context.Background())
	_, err = admin.Exec(t.Context(), `SET session_replication_role = replica`)
	require.NoError(t, err)
	var id uuid.UUID
	require.NoError(t, admin.QueryRow(t.Context(),
		`UPDATE audit_records SET decision = 'allow' WHERE id = (SELECT record_id FROM audit_seals WHERE seq = 2) RETURNING id`).Scan(&id))
	var report struct {
		Valid    bool
		Problems int64
		First    struct {
			Seq      int64
			RecordID uuid.UUID `json:"record_id"`
			Problem  string
		} `json:"first_problem"`
	}
	s.do(t, "user", http.MethodGet, "/v1/audit/verify", "").into(t, http.StatusOK, &report)
	require.False(t, report.Valid)
	require.Equal(t, int64(1), report.Problems)
	require.Equal(t, int64(2), report.First.Seq)
	require.Equal(t, id, report.First.RecordID)
	require.Equal(t, "record_altered", report.First.Problem)

	_, err = admin.Exec(t.Context(), `DELETE FROM audit_seals WHERE seq > 1`)
	require.NoError(t, err)
	s.do(t, "user", http.MethodGet, "/v1/audit/export", "").refused(t, http.StatusConflict, fault.CodeConflict)
}

// many appends n large records at once.
func (s *site) many(t *testing.T, n int) {
	t.Helper()
	large := json.RawMessage(`{"text":"` + strings.Repeat("x", 4000) + `"}`)
	require.NoError(t, s.db.InTenant(t.Context(), s.tenant, func(tx pgx.Tx) error {
		b := &db.Batch{}
		for range n {
			audit.Queue(b, audit.Record{TenantID: s.tenant, ActorType: actor.System, Action: "run.executed", Input: large})
		}
		return b.SendIn(t.Context(), tx)
	}))
}

// The export ends when its caller disconnects. An incomplete file does not look complete.
func TestExportStopsWhenCallerDisconnects(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.many(t, 3000)
	s.sealed(t, 3000)
	ended := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.server.ServeHTTP(w, r)
		close(ended)
	}))
	defer server.Close()
	ctx, leave := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/v1/audit/export", http.NoBody)
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer user")
	res, err := server.Client().Do(r)
	require.NoError(t, err)
	defer res.Body.Close()
	_, err = io.CopyN(io.Discard, res.Body, 1000)
	require.NoError(t, err)
	leave()
	<-ended
	require.Contains(t, s.log.String(), "a stream was broken off")
}

// An export that fails in the middle does not end like a complete one.
func TestFailedExportClosesConnection(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"ndjson", "csv"} {
		s := newSite(t)
		s.many(t, 6000) // more than all buffers on the way have room for
		s.sealed(t, 6000)
		server := httptest.NewServer(s.server)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/v1/audit/export?format="+format, http.NoBody)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer user")
		res, err := server.Client().Do(r)
		require.NoError(t, err)
		_, err = io.CopyN(io.Discard, res.Body, 1000)
		require.NoError(t, err)
		admin, err := pgx.Connect(t.Context(), s.db.AdminURL)
		require.NoError(t, err)
		_, err = admin.Exec(t.Context(), `ALTER TABLE audit_seals RENAME TO gone`)
		require.NoError(t, err)
		require.NoError(t, admin.Close(t.Context()))
		rest, err := io.ReadAll(res.Body)
		require.Error(t, err, format)
		require.NotContains(t, string(rest), `"type":"trailer"`, format)
		require.NoError(t, res.Body.Close())
		server.Close()
		require.Contains(t, s.log.String(), "a stream was broken off", format)
	}
}

func TestCallRefusedForItsKeyIsRecorded(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, key := range []string{"agent", "agent", "nobody"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/runtime/actions/run", strings.NewReader(`{"verb":"shop:pay","args":{}}`))
		r.Header.Set("X-API-Key", key)
		r.Header.Set("Content-Type", "application/json")
		s.server.ServeHTTP(httptest.NewRecorder(), r)
	}
	require.NoError(t, s.journal.Flush(t.Context()))
	list, _ := s.auditList(t, "?action=run.refused")
	require.Len(t, list, 2, "one, and the count of those like it; 401 leaves none")
}

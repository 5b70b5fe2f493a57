package limits_test

import (
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/circuit"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/rate"
	"agentruntime/internal/dev/testkit"
	"agentruntime/internal/tenant/limits"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// shelf is a database with a tenant, at a time.
type shelf struct {
	testkit.DB
	admin  *pgx.Conn
	tenant uuid.UUID
	at     time.Time
}

func newShelf(t *testing.T) *shelf {
	t.Helper()
	s := &shelf{DB: testkit.Database(t), tenant: uuid.New(), at: time.Date(2026, 1, 2, 12, 30, 0, 0, time.UTC)}
	require.NoError(t, dbsqlc.New().InsertTenant(t.Context(), s.Tenant(s.tenant), dbsqlc.InsertTenantParams{ID: s.tenant, Name: "t"}))
	var err error
	s.admin, err = pgx.Connect(t.Context(), s.AdminURL)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.admin.Close(t.Context()) })
	testkit.RequestClock(t, s.AdminURL, s.at)
	return s
}

func (s *shelf) service(t *testing.T) *limits.Service {
	t.Helper()
	service, err := limits.New(rate.Plan{}, limits.Deps{DB: s.Pool, Now: func() time.Time { return s.at }})
	require.NoError(t, err)
	return service
}

func (s *shelf) owner() actor.Actor {
	return actor.Actor{Kind: actor.User, TenantID: s.tenant, ID: uuid.New(), Role: actor.RoleOwner}
}

// count counts one request, as authentication does.
func (s *shelf) count(t *testing.T, subject string, most rate.Limits) rate.State {
	t.Helper()
	var counted []int64
	require.NoError(t, s.admin.QueryRow(t.Context(), "SELECT count_request($1, $2, NULL, NULL, $3, $3, 1)", s.tenant, subject, most.Array()).Scan(&counted))
	found, err := rate.Read(counted, subject == "people", rate.Own{}, 0)
	require.NoError(t, err)
	return found
}

func TestLimitsAreReadAndSet(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	service := s.service(t)
	s.count(t, "keys", rate.Default())
	s.count(t, "keys", rate.Default())
	s.count(t, "people", rate.Default())
	record, err := service.Read(t.Context(), s.tenant)
	require.NoError(t, err)
	require.Equal(t, limits.Record{Limits: rate.Default(), Used: rate.Counts{Minute: 2, Hour: 2, Day: 2}, Circuit: circuit.Closed}, record)

	to := rate.Limits{Minute: 6000, Hour: 1, Day: 7}
	require.NoError(t, service.Set(t.Context(), s.owner(), to, nil))
	record, err = service.Read(t.Context(), s.tenant)
	require.NoError(t, err)
	require.Equal(t, limits.Record{Limits: to, Used: rate.Counts{Minute: 2, Hour: 2, Day: 2}, Circuit: circuit.Closed}, record)
	var details string
	require.NoError(t, s.admin.QueryRow(t.Context(), "SELECT details FROM audit_records WHERE action = 'rate_limits.updated' AND tenant_id = $1", s.tenant).Scan(&details))
	require.JSONEq(t, `{"requests_per_minute":6000,"requests_per_hour":1,"requests_per_day":7,"before":[600,20000,200000]}`, details)

	var asked rate.Limits
	err = service.Set(t.Context(), s.owner(), rate.Default(), func(was rate.Limits) error { asked = was; return fault.New(fault.CodePreconditionFailed, "") })
	require.True(t, fault.HasCode(err, fault.CodePreconditionFailed))
	require.Equal(t, to, asked)
}

func TestLimitsAboveTheCeilingNeedAnotherPlan(t *testing.T) {
	t.Parallel()
	service := newShelf(t)
	for _, tc := range []struct {
		to    rate.Limits
		code  fault.Code
		paths []string
	}{
		{rate.Limits{Minute: 6001, Hour: 200_000, Day: 2_000_001}, fault.CodePlanRequired, []string{"/requests_per_minute", "/requests_per_day"}},
		{rate.Limits{Minute: 6001, Hour: 0, Day: 1}, fault.CodePlanRequired, nil},
		{rate.Limits{Minute: 1, Hour: -1, Day: 1}, fault.CodeValidation, []string{"/requests_per_hour"}},
	} {
		err := service.service(t).Set(t.Context(), service.owner(), tc.to, nil)
		f := fault.As(err)
		require.NotNil(t, f)
		if tc.paths == nil { // what is no limit at all is said first
			require.Equal(t, fault.CodeValidation, f.Code)
			continue
		}
		require.Equal(t, tc.code, f.Code)
		var paths []string
		for _, d := range f.Details {
			paths = append(paths, d.Path)
		}
		require.Equal(t, tc.paths, paths)
	}
	_, err := limits.New(rate.Plan{Default: rate.Default(), Ceiling: rate.Limits{Minute: 1, Hour: 1, Day: 1}}, limits.Deps{DB: service.Pool})
	require.Error(t, err)
}

// Two processes, many refused requests: the tenant is told once of each full window.
func TestFullWindowIsToldOnce(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	processes := []*limits.Service{s.service(t), s.service(t)}
	most := rate.Limits{Minute: 1, Hour: 1, Day: 10}
	s.count(t, "keys", most)
	s.count(t, "people", most)
	var wg sync.WaitGroup
	for _, subject := range []string{"keys", "people"} {
		found := s.count(t, subject, most)
		require.True(t, found.Refused)
		for i := range 20 {
			wg.Go(func() {
				if err := processes[i%2].Exceeded(t.Context(), s.tenant, found); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	rows, err := s.admin.Query(t.Context(), "SELECT body FROM events WHERE type = 'limit.exceeded' AND tenant_id = $1 ORDER BY body", s.tenant)
	require.NoError(t, err)
	bodies, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	told := map[string]string{}
	for _, body := range bodies {
		var e struct {
			Window, Callers string
			Limit           int
			ResetsAt        time.Time `json:"resets_at"`
		}
		require.NoError(t, json.Unmarshal([]byte(body), &e))
		require.Equal(t, 1, e.Limit)
		told[e.Callers+" "+e.Window] = e.ResetsAt.Format(time.TimeOnly)
	}
	require.Len(t, bodies, 4)
	require.Equal(t, map[string]string{
		"keys minute": "12:31:00", "keys hour": "13:00:00", "people minute": "12:31:00", "people hour": "13:00:00",
	}, told)
}

func TestIdleTenantHasNoCounters(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	service := s.service(t)
	s.count(t, "keys", rate.Default())
	rows := func() (n int) {
		require.NoError(t, s.admin.QueryRow(t.Context(), "SELECT count(*) FROM request_counters").Scan(&n))
		return n
	}
	for _, step := range []struct {
		after time.Duration
		want  int
	}{{0, 1}, {35 * time.Hour, 1}, {time.Hour, 0}} { // the day after the next begins 35.5 hours later
		s.at = s.at.Add(step.after)
		require.NoError(t, service.Forget(t.Context()))
		require.Equal(t, step.want, rows(), s.at)
	}
}

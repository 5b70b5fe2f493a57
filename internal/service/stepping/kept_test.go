package stepping

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/internal/agents/agentdef"
	"agentruntime/internal/agents/agentloop"
	"agentruntime/internal/agents/roster"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/redact"
	"agentruntime/internal/dev/testkit"
	"agentruntime/internal/maps/execution"
	"agentruntime/internal/maps/expression"
	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/internal/models/model"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/ended"
	"agentruntime/internal/record/event"
	"agentruntime/internal/tenant/budget"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// stubs are all that a model step needs and this test is not about. The sandbox evaluates nothing as often
// as faults says.
type stubs struct {
	execution.Definitions
	execution.Engine

	program *stepmachine.Program
	faults  int
	asked   []model.Purpose
	// secret is what the tenant has stored; "" for nothing. unknown: it cannot be asked for.
	secret  string
	unknown error
	sent    []model.Request
}

func (s *stubs) Version(_ context.Context, _, id uuid.UUID, _ int32) (execution.Version, error) {
	return execution.Version{MapID: id, Number: 1, Program: s.program, MapType: mapdef.Cognitive}, nil
}

func (s *stubs) Named(ctx context.Context, tenant, id uuid.UUID, number int32) (execution.Version, error) {
	return s.Version(ctx, tenant, id, number)
}

func (*stubs) Result(context.Context, uuid.UUID, uuid.UUID) (json.RawMessage, error) { return nil, nil }

func (*stubs) MaskCalls(context.Context, uuid.UUID, []execution.ShownCall) bool { return true }

func (s *stubs) QueueOwn(_ context.Context, _ *db.Batch, _ uuid.UUID, value json.RawMessage) (func() json.RawMessage, error) {
	return func() json.RawMessage { return redact.MaskValues(value, map[string]bool{s.secret: s.secret != ""}) }, s.unknown
}

func (*stubs) Check(context.Context, uuid.UUID, string, json.RawMessage) ([]fault.Detail, error) {
	return nil, nil
}

func (s *stubs) For(string) expression.Sandbox { return s }

func (s *stubs) Briefly(string) expression.Sandbox { return s }

func (*stubs) Spend(int) bool { return true }

func (s *stubs) Run(context.Context, string, expression.Roots) ([]json.RawMessage, error) {
	if s.faults--; s.faults >= 0 {
		return nil, errors.New("no child can be started")
	}
	return []json.RawMessage{[]byte("true")}, nil
}

func (*stubs) ForMaps(context.Context, uuid.UUID, model.Purpose) (agentdef.Model, error) {
	return agentdef.Model{}, nil
}

func (*stubs) Most(agentdef.Model, model.Request) budget.Amount { return budget.Amount{Tokens: 1} }

func (s *stubs) Generate(_ context.Context, ask model.Ask, _ model.Stream) (model.Answer, error) {
	s.asked, s.sent = append(s.asked, ask.Request.Purpose), append(s.sent, ask.Request)
	text := "It is done."
	if ask.Request.Purpose == model.Manager {
		text = `{"verdict":"complete","criteria":[{"id":"goal","met":true,"evidence":["output"]}],"feedback":"","outputs":{}}`
	}
	return model.Answer{Response: model.Response{Model: "m", Text: text, Finish: model.Stopped, Usage: model.Usage{In: 10}}}, nil
}

func (*stubs) QueueUsed(*db.Batch, uuid.UUID, agentloop.Chain, model.Usage, int64) {}

func (*stubs) Spent(context.Context, uuid.UUID, agentloop.Chain) (tokens, money bool, err error) {
	return false, false, nil
}

// overseen is the only agent.
type overseen struct{}

func (overseen) Version(_ context.Context, _, id uuid.UUID, _ int32) (roster.Version, error) {
	d := agentdef.Default()
	d.Models.Manager = d.Models.Worker
	return roster.Version{AgentID: id, Number: 1, Definition: &d}, nil
}

// newStepper makes the calls of one execution.
func newStepper(t *testing.T, s *stubs) (testkit.DB, *Stepper, flow.MapRef) {
	t.Helper()
	d, ref := testkit.Database(t), flow.MapRef{TenantID: uuid.New(), ID: uuid.Must(uuid.NewV7()), Attempt: 1}
	notices, err := ended.NewNotices(ended.Config{}, ended.Deps{DB: d.Pool, Log: testkit.Quiet()})
	require.NoError(t, err)
	events, err := event.New(event.Deps{DB: d.Pool, Keys: testkit.Keys{}, Log: testkit.Quiet()})
	require.NoError(t, err)
	journal, err := audit.NewJournal(audit.JournalConfig{}, audit.JournalDeps{DB: d.Pool, Log: testkit.Quiet()})
	require.NoError(t, err)
	executions, err := execution.New(execution.Config{}, execution.Deps{
		DB: d.Pool, Definitions: s, Results: s, Arguments: s, Engine: s, Keys: testkit.Keys{}, Events: events, Notices: notices, Journal: journal, Sandbox: s, Log: testkit.Quiet(),
	})
	require.NoError(t, err)
	budgets, err := budget.New(budget.Config{}, budget.Deps{DB: d.Pool})
	require.NoError(t, err)
	stepper := &Stepper{Service: executions, d: Deps{Budgets: budgets, Models: s, Agents: overseen{}, Callers: s, Log: testkit.Quiet()}}

	exec := func(sql string, args ...any) {
		_, err := d.Tenant(ref.TenantID).Exec(t.Context(), sql, args...)
		require.NoError(t, err)
	}
	exec("INSERT INTO tenants (id, name) VALUES ($1, 'shop')", ref.TenantID)
	exec(`INSERT INTO map_executions (id, tenant_id, execution_id, map_id, version, map_type, dry_run, fingerprint, payload, metadata, origin, request_id, source_addr, workflow_id, updated_at)
		VALUES ($1, $2, 'exec_1', $1, 1, 'cognitive', false, '', '', '{}', 'key', '', '', '', now())`, ref.ID, ref.TenantID)
	return d, stepper, ref
}

// A call of which nobody knows for which messages it counts is not made, and fails: the execution comes to
// its end.
func TestCallOfAnExecutionWhoseChainCannotBeReadFails(t *testing.T) {
	t.Parallel()
	d, stepper, ref := newStepper(t, &stubs{})
	_, err := d.Tenant(ref.TenantID).Exec(t.Context(), `UPDATE map_executions SET chain = '{"turns":"none"}'`)
	require.NoError(t, err)
	none, err := stepper.Call(t.Context(), flow.MapCall{MapWrites: flow.MapWrites{MapRef: ref}, Call: stepmachine.StartVerb{Ref: stepmachine.Ref{Path: "/steps/0", Attempt: 1}, Verb: "shop:a"}})
	require.NoError(t, err)
	require.True(t, none.Step.Done)
	require.Equal(t, stepmachine.CallFailed, none.End.Status)
	require.False(t, none.End.MayRepeat, "an earlier try may have sent it")
}

// The answer of a manager is paid for. Where a fault keeps it from being judged, it is stored all the same,
// and a repeat judges it without asking again.
func TestAnswerOfAManagerIsKeptWhereItCannotBeJudged(t *testing.T) {
	t.Parallel()
	agent := uuid.New()
	def, faults := mapdef.Read([]byte(`{"schema_version":"1","name":"Works","steps":[
		{"id":"work","type":"agent","agent_id":"` + agent.String() + `","goal":"g","complete_when":"${ [.calls[] | select(.status == \"failed\")] | length == 0 }"}]}`))
	require.Empty(t, faults)
	program, err := stepmachine.Compile(def)
	require.NoError(t, err)
	s := &stubs{program: program, faults: 1}
	d, stepper, ref := newStepper(t, s)
	start := stepmachine.StartModel{Ref: stepmachine.Ref{Path: "/steps/0", Attempt: 1}, Type: "agent", Input: stepmachine.Of(json.RawMessage(`{"goal":"g"}`))}
	_, err = stepper.Write(t.Context(), flow.MapWrites{MapRef: ref, Commands: []stepmachine.Command{start}})
	require.NoError(t, err)

	ask := func(turn int) (flow.MapModelTurn, error) {
		return stepper.AskModel(t.Context(), flow.MapModelCall{MapRef: ref, Ref: start.Ref, Turn: turn})
	}
	_, err = ask(0)
	require.NoError(t, err)
	_, err = ask(1)
	require.ErrorContains(t, err, "no child can be started")
	end, err := ask(1)
	require.NoError(t, err)
	require.True(t, end.Done)
	require.Equal(t, stepmachine.CallExecuted, end.End.Status, "%v", end.End.Error)
	require.Equal(t, []model.Purpose{model.Agent, model.Manager}, s.asked, "an answer that was paid for is asked for once")
	var tokens int
	require.NoError(t, d.Tenant(ref.TenantID).QueryRow(t.Context(), "SELECT tokens_used FROM map_executions").Scan(&tokens))
	require.Equal(t, 20, tokens)
}

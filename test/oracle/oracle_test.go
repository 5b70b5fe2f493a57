package oracle_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/test/oracle"
)

const (
	refund = "desk:refund"
	wipe   = "desk:wipe"
)

// at is when the run of the evidence was sent.
func at() time.Time { return time.Unix(1000, 0) }

// past has fixed answers.
type past struct {
	roles             map[uuid.UUID][]string
	holding, blocking []string
	revoked           bool
}

func (p past) Roles(user uuid.UUID, _, _ time.Time) []string { return p.roles[user] }
func (p past) Holding(string, time.Time) []string            { return p.holding }
func (p past) Blocking(string, time.Time) []string           { return p.blocking }
func (p past) Revoked(string, time.Time) bool                { return p.revoked }

// evidence is of one refund that two people approved and that the provider carried out.
type evidence struct {
	oracle.Facts

	effects []oracle.Effect
	past    *past
}

func sound() *evidence {
	sent := at()
	run, first, second, policy := uuid.New(), uuid.New(), uuid.New(), uuid.New()
	approval, counted := "appr_1", sent.Add(-time.Minute)
	rule := `{"required": 2, "approvers": [{"type": "role", "value": "approver"}], "timeout": 60, "on_timeout": "reject"}`
	return &evidence{
		past:    &past{roles: map[uuid.UUID][]string{first: {"approver"}, second: {"approver"}}, holding: []string{policy.String()}},
		effects: []oracle.Effect{{ExecutionID: "run-1", Verb: refund, Args: `{"amount": 7, "id": "run-1"}`}},
		Facts: oracle.Facts{
			Runs: []oracle.Run{{ID: run, ExecutionID: "run-1", State: "executed", Verb: refund, Args: `{"id":"run-1","amount":7}`, Held: true, SentAt: &sent}},
			Approvals: []oracle.Approval{{
				ID: approval, RunID: run, Status: "approved",
				Requirements: json.RawMessage(`[{"policy_id": "` + policy.String() + `", "version": 1, "rule": ` + rule + `}]`),
			}},
			Decisions: []oracle.Decision{
				{ApprovalID: approval, UserID: &first, Decision: "approve", CountedAt: &counted},
				{ApprovalID: approval, UserID: &second, Decision: "approve", CountedAt: &counted},
			},
			Records: []oracle.Record{
				{Action: "run.held", SubjectID: approval, ExecutionID: "run-1", Details: json.RawMessage(`{}`)},
				{Action: "approval.voted", SubjectID: approval, ExecutionID: "run-1", Details: json.RawMessage(`{}`)},
				{Action: "approval.approved", SubjectID: approval, ExecutionID: "run-1", Details: json.RawMessage(`{}`)},
				{Action: "run.allowed", ExecutionID: "run-1", Details: json.RawMessage(`{"approval_id":"appr_1"}`)},
			},
		},
	}
}

// nameless removes what ties the effect to its run, as for a provider that knows no ids.
func (e *evidence) nameless() { e.effects[0].ExecutionID = "" }

// granted has the run sent under a grant in place of the approval.
func (e *evidence) granted(change func(g *oracle.Grant)) {
	g := oracle.Grant{ID: uuid.New(), Verb: refund, MaxUses: 1, Uses: 1, ExpiresAt: at().Add(time.Hour)}
	change(&g)
	e.Runs[0].Held, e.Runs[0].GrantID, e.Grants = false, &g.ID, []oracle.Grant{g}
	e.Records[3].Details = json.RawMessage(`{"grant_id":"` + g.ID.String() + `"}`)
}

func (e *evidence) violations() string {
	var p oracle.Past
	if e.past != nil {
		p = *e.past
	}
	needs := func(verb string) bool { return verb == wipe }
	return strings.Join(slices.Concat(oracle.Approved(e.Facts, e.effects, needs, p), oracle.DecidedOnce(e.Facts), oracle.RejectionsFinal(e.Facts),
		oracle.ApprovalsRecorded(e.Facts), oracle.GrantsWithinBounds(e.Facts)), "\n")
}

func TestOracleOneFaultIsFound(t *testing.T) {
	t.Parallel()
	sent := at()
	for name, c := range map[string]struct {
		change func(e *evidence)
		want   string // "" for sound evidence
	}{
		"sound":                            {func(*evidence) {}, ""},
		"sound, provider without ids":      {(*evidence).nameless, ""},
		"sound, past unknown":              {func(e *evidence) { e.past = nil }, ""},
		"sound, under a grant":             {func(e *evidence) { e.past.holding = nil; e.granted(func(*oracle.Grant) {}) }, ""},
		"sound, harmless call without run": {func(e *evidence) { e.effects[0] = oracle.Effect{Verb: "desk:peek", Args: `{}`} }, ""},

		"other arguments":        {func(e *evidence) { e.Runs[0].Args = `{"amount":8}` }, `{"amount":7,"id":"run-1"} was sent`},
		"arguments before edit":  {func(e *evidence) { edited := `{"amount":9}`; e.Runs[0].EditedArgs = &edited }, `and the call is {"amount":9}`},
		"effect without a run":   {func(e *evidence) { e.effects[0].ExecutionID = "run-2" }, "no run with permission"},
		"one effect too many":    {func(e *evidence) { e.effects = append(e.effects, e.effects[0]) }, "no run with permission"},
		"dangerous call, no run": {func(e *evidence) { e.effects[0] = oracle.Effect{Verb: wipe, Args: `{}`} }, "no run with permission"},
		"dangerous, no approval": {func(e *evidence) {
			e.past = nil
			e.Runs[0].Held, e.Runs[0].Verb = false, wipe
			e.Records[3].Details = json.RawMessage(`{}`)
		}, "without an approval"},
		"dry run, no approval": {func(e *evidence) {
			e.past = nil
			e.Runs[0].Held, e.Runs[0].DryRun = false, true
			e.Records[3].Details = json.RawMessage(`{}`)
		}, "without an approval"},
		"sound, dry run of a read": {func(e *evidence) {
			e.past, e.effects[0].Read, e.Runs[0].Held, e.Runs[0].DryRun = nil, true, false, true
			e.Records[3].Details = json.RawMessage(`{}`)
		}, ""},
		"held, no approval":       {func(e *evidence) { e.past = nil; e.Records[3].Details = json.RawMessage(`{}`) }, "without an approval"},
		"policy, no approval":     {func(e *evidence) { e.Runs[0].Held = false; e.Records[3].Details = json.RawMessage(`{}`) }, "without an approval"},
		"provider without ids":    {func(e *evidence) { e.nameless(); e.Approvals[0].Status = "rejected" }, "not an approved one"},
		"not sent, but an effect": {func(e *evidence) { e.Runs[0].SentAt = nil }, "no record says so"},
		"no record of sending":    {func(e *evidence) { e.Records = e.Records[:3] }, "no record says so"},
		"unreadable record":       {func(e *evidence) { e.Records[3].Details = json.RawMessage(`no`) }, "cannot be read"},
		"unreadable requirements": {func(e *evidence) { e.Approvals[0].Requirements = nil }, "requirements of appr_1 cannot be read"},

		"vote missing":               {func(e *evidence) { e.Decisions[1].CountedAt = nil }, "1 of 2 votes"},
		"vote missing, past unknown": {func(e *evidence) { e.past = nil; e.Decisions[1].CountedAt = nil }, "1 of 2 votes"},
		"voter demoted":              {func(e *evidence) { e.past.roles[*e.Decisions[0].UserID] = []string{"member"} }, "1 of 2 votes"},
		"voter removed":              {func(e *evidence) { e.past.roles[*e.Decisions[0].UserID] = []string{""} }, "1 of 2 votes"},
		"voter edited the call":      {func(e *evidence) { e.Approvals[0].EditedBy = e.Decisions[0].UserID }, "1 of 2 votes"},
		"approval superseded":        {func(e *evidence) { e.Approvals[0].Status = "superseded" }, "not an approved one"},
		"approval of another run":    {func(e *evidence) { e.Approvals[0].RunID = uuid.New() }, "not an approved one"},
		"another policy required":    {func(e *evidence) { e.past.holding = append(e.past.holding, "x") }, "does not know of policy x"},
		"policy blocked":             {func(e *evidence) { e.past.blocking = []string{"x"} }, "policy x blocks it"},

		"grant unknown":       {func(e *evidence) { e.Records[3].Details = json.RawMessage(`{"grant_id":"g"}`) }, "which is not for it"},
		"grant of other verb": {func(e *evidence) { e.granted(func(g *oracle.Grant) { g.Verb = wipe }) }, "which is not for it"},
		"grant expired":       {func(e *evidence) { e.granted(func(g *oracle.Grant) { g.ExpiresAt = sent.Add(-1) }) }, "which is not for it"},
		"grant revoked":       {func(e *evidence) { e.past.revoked = true; e.granted(func(*oracle.Grant) {}) }, "which was revoked"},
		"grant for held run":  {func(e *evidence) { e.granted(func(*oracle.Grant) {}); e.Runs[0].Held = true }, "a held run was sent under grant"},
		"grant overused":      {func(e *evidence) { e.Grants = []oracle.Grant{{ID: uuid.New(), MaxUses: 1, Uses: 2}} }, "2 uses of 1"},
		"grant not counted":   {func(e *evidence) { e.granted(func(g *oracle.Grant) { g.Uses = 0 }) }, "1 runs, 0 uses"},

		"voted twice":         {func(e *evidence) { e.Decisions[1].UserID = e.Decisions[0].UserID }, "counted 2 times"},
		"rejected, approved":  {func(e *evidence) { e.Decisions[1].Decision = "reject" }, "approved with 1 rejections"},
		"approved by nobody":  {func(e *evidence) { e.Decisions = nil }, "approved by nobody"},
		"vote not recorded":   {func(e *evidence) { e.Records[1].Action = "other" }, "2 decisions counted, 1 recorded"},
		"asking not recorded": {func(e *evidence) { e.Records = e.Records[1:] }, "0 records of its asking"},
		"end recorded twice":  {func(e *evidence) { e.Records[1].Action = "approval.approved" }, "2 records say so"},
		"silent escalation":   {func(e *evidence) { e.Approvals[0].EscalatedAt = &sent }, "escalated at"},
		"expired, and sent":   {func(e *evidence) { e.Approvals[0].Status = "expired" }, "is expired, and the run is executed"},
		"expired, asked again": {func(e *evidence) {
			e.Approvals[0].Status = "expired"
			e.Approvals = append(e.Approvals, oracle.Approval{ID: e.Approvals[0].ID + "1", RunID: e.Approvals[0].RunID})
		}, "asked although"},
		"end without a record": {func(e *evidence) { e.Approvals[0].Status = "expired" }, "0 records say so"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := sound()
			c.change(e)
			if got := e.violations(); c.want == "" {
				require.Empty(t, got)
			} else {
				require.Contains(t, got, c.want)
			}
		})
	}
}

func TestOneEffectJudgesStateAndCount(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		state   string
		write   bool
		effects int
		want    string
	}{
		"executed":                 {"executed", true, 1, ""},
		"unknown with effect":      {"outcome_unknown", true, 1, ""},
		"unknown without effect":   {"outcome_unknown", true, 0, ""},
		"read":                     {"executed", false, 0, ""},
		"rejected":                 {"rejected", true, 0, ""},
		"two effects":              {"executed", true, 2, "2 effects"},
		"two effects, unknown":     {"outcome_unknown", true, 2, "2 effects"},
		"executed without effect":  {"executed", true, 0, "without an effect"},
		"rejected with an effect":  {"rejected", true, 1, "its run is rejected"},
		"cancelled with an effect": {"cancelled", true, 1, "its run is cancelled"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := strings.Join(oracle.OneEffect("run-1", c.state, c.write, c.effects), "\n")
			if c.want == "" {
				require.Empty(t, got)
			} else {
				require.Contains(t, got, c.want)
			}
		})
	}
}

func TestOneEndWantsTheStateOnce(t *testing.T) {
	t.Parallel()
	require.Empty(t, oracle.OneEnd("run-1", "executed", []string{"run.executed"}))
	for _, ends := range [][]string{nil, {"run.failed"}, {"run.executed", "run.executed"}} {
		require.Len(t, oracle.OneEnd("run-1", "executed", ends), 1, "%v", ends)
	}
}

func TestFactsOfOneExecutionLeaveOthersOut(t *testing.T) {
	t.Parallel()
	f := sound().Facts
	other := uuid.New()
	f.Runs = append(f.Runs, oracle.Run{ID: other, ExecutionID: "run-2"})
	f.Approvals = append(f.Approvals, oracle.Approval{ID: "appr_2", RunID: other})
	f.Decisions = append(f.Decisions, oracle.Decision{ApprovalID: "appr_2"})
	f.Records = append(f.Records, oracle.Record{Action: "run.held", SubjectID: "appr_2", ExecutionID: "run-2"})
	of := f.Of("run-1")
	require.Len(t, of.Runs, 1)
	require.Len(t, of.Approvals, 1)
	require.Len(t, of.Decisions, 2)
	require.Len(t, of.Records, 4)
	require.Equal(t, map[string]oracle.Facts{"run-1": of, "run-2": f.Of("run-2")}, f.ByExecution())
}

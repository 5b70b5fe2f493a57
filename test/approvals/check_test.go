package approvals

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/kernel/governance"
)

// facts is what the database says of a tenant.
type facts struct {
	runs      []runFact
	approvals []approvalFact
	decisions []decisionFact
	audit     []auditFact
	grants    []grantFact
}

type runFact struct {
	ID          uuid.UUID
	ExecutionID string
	ClaimKey    string
	State       string
	Verb        string
	Args        string
	EditedArgs  *string
	DryRun      bool
	Held        bool
	ApprovalID  *string
	GrantID     *uuid.UUID
	SentAt      *time.Time
}

type approvalFact struct {
	ID           string
	RunID        uuid.UUID
	Status       string
	Requirements json.RawMessage
	EditedBy     *uuid.UUID
	EscalatedAt  *time.Time
	ExpiresAt    *time.Time
	Recheck      bool
}

type decisionFact struct {
	ApprovalID string
	UserID     *uuid.UUID
	Decision   string
	CountedAt  *time.Time
}

type auditFact struct {
	Action      string
	SubjectID   string
	ExecutionID string
	Details     json.RawMessage
}

type grantFact struct {
	ID        uuid.UUID
	Verb      string
	MaxUses   int
	Uses      int
	ExpiresAt time.Time
}

// read reads the facts in one snapshot.
func (w *world) read() (f facts) {
	w.t.Helper()
	ctx := w.t.Context()
	conn, err := pgx.Connect(ctx, w.stack.DatabaseURL)
	require.NoError(w.t, err)
	defer conn.Close(ctx)
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(w.t, err)
	defer func() { _ = tx.Rollback(ctx) }() // it only reads
	f.runs = rowsOf[runFact](w, tx, `SELECT id, execution_id, claim_key, state, provider || ':' || verb, args, edited_args, dry_run, held, approval_id, grant_id,
		sent_at FROM runs WHERE tenant_id = $1 ORDER BY id`)
	f.approvals = rowsOf[approvalFact](w, tx, `SELECT id, run_id, status, requirements, edited_by, escalated_at, expires_at, recheck
		FROM approvals WHERE tenant_id = $1 ORDER BY id`)
	f.decisions = rowsOf[decisionFact](w, tx, `SELECT approval_id, user_id, decision, counted_at FROM approval_decisions WHERE tenant_id = $1 ORDER BY id`)
	f.audit = rowsOf[auditFact](w, tx, `SELECT action, subject_id, execution_id, coalesce(details, '{}') FROM audit_records
		WHERE tenant_id = $1 AND (action LIKE 'run.%' OR action LIKE 'approval.%') ORDER BY id`)
	f.grants = rowsOf[grantFact](w, tx, `SELECT id, provider || ':' || verb, max_uses, uses, expires_at FROM grants WHERE tenant_id = $1`)
	return f
}

func rowsOf[T any](w *world, tx pgx.Tx, query string) []T {
	w.t.Helper()
	rows, err := tx.Query(w.t.Context(), query, w.tenant)
	require.NoError(w.t, err)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[T])
	require.NoError(w.t, err)
	return list
}

// evidence is all that the checks go by.
type evidence struct {
	facts

	past      *history
	effects   func(id string) []effect
	acked     []ack
	cancelled []string
	// midway: runs may still be under way.
	midway bool
	broken []string
}

func (e *evidence) report(format string, args ...any) {
	e.broken = append(e.broken, fmt.Sprintf(format, args...))
}

// violations says what the evidence breaks; nothing for a sound one.
func (e *evidence) violations() []string {
	for _, r := range e.runs {
		e.checkRun(r)
	}
	for _, a := range e.approvals {
		e.checkVotes(a)
		e.checkRecords(a)
	}
	for _, g := range e.grants {
		e.checkGrant(g)
	}
	said := map[ack]int{}
	for _, a := range e.acked {
		if said[a]++; e.counted(a.approval, a.user, a.decision) < said[a] {
			e.report("%s: the %s of %s was answered as counted %d times, and is not", a.approval, a.decision, a.user, said[a])
		}
	}
	return e.broken
}

// checkRun holds the run against what reached the provider.
func (e *evidence) checkRun(r runFact) {
	effects := e.effects(r.ExecutionID)
	write := r.Verb != verbPeek
	switch {
	case len(effects) > 1:
		e.report("%s: %d effects", r.ExecutionID, len(effects))
	case write && r.State == "executed" && len(effects) != 1:
		e.report("%s: executed without an effect", r.ExecutionID)
	case len(effects) == 1 && r.State != "executed" && r.State != "outcome_unknown":
		e.report("%s: an effect, and its run is %s", r.ExecutionID, r.State)
	case slices.Contains(e.cancelled, r.ExecutionID) && r.State != "cancelled":
		e.report("%s: answered as cancelled, and is %s", r.ExecutionID, r.State)
	case !e.midway && slices.Contains([]string{"claimed", "sending", "pending_approval"}, r.State):
		e.report("%s: has not ended, it is %s", r.ExecutionID, r.State)
	}
	if !write || len(effects) == 0 {
		return
	}
	sent := r.Args
	if r.EditedArgs != nil {
		sent = *r.EditedArgs
	}
	var want effect
	if json.Unmarshal([]byte(sent), &want) != nil || want.Amount != effects[0].Amount {
		e.report("%s: %d was sent, and the call is %s", r.ExecutionID, effects[0].Amount, sent)
	}
	e.checkDispatch(r)
}

// checkDispatch holds a run that was sent against what held it at that moment.
func (e *evidence) checkDispatch(r runFact) {
	var under struct {
		ApprovalID string `json:"approval_id"`
		GrantID    string `json:"grant_id"`
	}
	sends := e.records(func(a auditFact) bool {
		return a.ExecutionID == r.ExecutionID && (a.Action == "run.allowed" || a.Action == "run.notified")
	})
	if len(sends) == 0 || r.SentAt == nil {
		e.report("%s: sent, and no record says so", r.ExecutionID)
		return
	}
	if json.Unmarshal(sends[len(sends)-1].Details, &under) != nil {
		e.report("%s: the record of its sending cannot be read", r.ExecutionID)
	}
	at := *r.SentAt
	var holding []string
	for _, key := range e.past.keys("policy ") {
		values := e.past.possible(key, at, at)
		switch {
		case len(values) > 0 && !slices.ContainsFunc(values, func(v string) bool { return !covers(v, "hold", r.Verb) }):
			holding = append(holding, strings.TrimPrefix(key, "policy "))
		case len(values) > 0 && !slices.ContainsFunc(values, func(v string) bool { return !covers(v, "block", r.Verb) }):
			e.report("%s: sent although %s blocks it", r.ExecutionID, key)
		}
	}
	switch {
	case under.ApprovalID != "":
		e.checkApproved(r, under.ApprovalID, holding, at)
	case under.GrantID != "":
		e.checkGranted(r, under.GrantID, at)
	case len(holding) > 0, r.Held, r.DryRun, r.Verb == verbWipe:
		e.report("%s: sent without an approval; held %v, dry run %v, held by %v", r.ExecutionID, r.Held, r.DryRun, holding)
	}
}

// covers reports whether a value of a policy's past is the action for the verb.
func covers(value, action, verb string) bool {
	return value == action+" "+verb || value == action+" desk:*"
}

// roleSlack is how long before the run is marked as sent its votes may have been counted.
const roleSlack = time.Second

func (e *evidence) checkApproved(r runFact, id string, holding []string, at time.Time) {
	i := slices.IndexFunc(e.approvals, func(a approvalFact) bool { return a.ID == id })
	if i < 0 || e.approvals[i].RunID != r.ID || e.approvals[i].Status != "approved" {
		e.report("%s: sent under %s, which is not an approved one of this run", r.ExecutionID, id)
		return
	}
	a := e.approvals[i]
	var reqs []governance.Requirement
	if json.Unmarshal(a.Requirements, &reqs) != nil || len(reqs) == 0 {
		e.report("%s: the requirements of %s cannot be read", r.ExecutionID, id)
	}
	for _, policy := range holding {
		if !slices.ContainsFunc(reqs, func(q governance.Requirement) bool { return q.PolicyID != nil && q.PolicyID.String() == policy }) {
			e.report("%s: sent under %s, which does not know of policy %s that held the call", r.ExecutionID, id, policy)
		}
	}
	for _, q := range reqs {
		if n := e.eligible(q, a, at); n < int(q.Rule.Required) {
			e.report("%s: sent under %s with %d of %d votes", r.ExecutionID, id, n, q.Rule.Required)
		}
	}
}

// eligible counts the users whose approvals count for the requirement at the time.
func (e *evidence) eligible(q governance.Requirement, a approvalFact, at time.Time) int {
	users := map[uuid.UUID]bool{}
	for _, d := range e.decisions {
		if d.ApprovalID != a.ID || d.Decision != "approve" || d.CountedAt == nil || d.UserID == nil {
			continue
		}
		self := a.EditedBy != nil && *a.EditedBy == *d.UserID
		for _, role := range e.past.possible(roleOf(d.UserID.String()), at.Add(-roleSlack), at) {
			v := governance.Voter{UserID: *d.UserID, Role: role, Self: self}
			users[*d.UserID] = users[*d.UserID] || role != "" && q.MayDecide(v, a.EscalatedAt != nil)
		}
	}
	n := 0
	for _, may := range users {
		if may {
			n++
		}
	}
	return n
}

func (e *evidence) checkGranted(r runFact, id string, at time.Time) {
	i := slices.IndexFunc(e.grants, func(g grantFact) bool { return g.ID.String() == id })
	switch {
	case i < 0 || e.grants[i].Verb != r.Verb || e.grants[i].ExpiresAt.Before(at):
		e.report("%s: sent under grant %s, which is not for it", r.ExecutionID, id)
	case slices.Equal(e.past.possible("grant "+id, at, at), []string{"revoked"}):
		e.report("%s: sent under grant %s, which was revoked", r.ExecutionID, id)
	case r.Held || r.DryRun:
		e.report("%s: a held run was sent under grant %s", r.ExecutionID, id)
	}
}

// checkGrant holds the number of runs against that of the grant.
func (e *evidence) checkGrant(g grantFact) {
	n := 0
	for _, r := range e.runs {
		if r.GrantID != nil && *r.GrantID == g.ID {
			n++
		}
	}
	if n > g.Uses || g.Uses > g.MaxUses {
		e.report("grant %s: %d runs, %d uses of %d", g.ID, n, g.Uses, g.MaxUses)
	}
}

func (e *evidence) records(which func(auditFact) bool) (list []auditFact) {
	for _, a := range e.audit {
		if which(a) {
			list = append(list, a)
		}
	}
	return list
}

func (e *evidence) counted(approvalID, user, decision string) (n int) {
	for _, d := range e.decisions {
		if d.ApprovalID == approvalID && d.CountedAt != nil && d.Decision == decision && d.UserID != nil && d.UserID.String() == user {
			n++
		}
	}
	return n
}

// checkVotes looks for decisions that count twice, and for ends that nobody decided.
func (e *evidence) checkVotes(a approvalFact) {
	seen := map[string]int{}
	said := map[string]int{}
	for _, d := range e.decisions {
		if d.ApprovalID != a.ID || d.CountedAt == nil {
			continue
		}
		said[d.Decision]++
		if d.UserID != nil {
			seen[d.UserID.String()+" "+d.Decision]++
		}
	}
	for who, n := range seen {
		if n > 1 {
			e.report("%s: %s counted %d times", a.ID, who, n)
		}
	}
	if said["reject"] > 1 || said["reject"] == 1 != (a.Status == "rejected") {
		e.report("%s: %s with %d rejections", a.ID, a.Status, said["reject"])
	}
	if a.Status == "approved" && said["approve"] == 0 {
		e.report("%s: approved by nobody", a.ID)
	}
	recorded := len(e.records(func(r auditFact) bool {
		return r.SubjectID == a.ID && slices.Contains([]string{"approval.voted", "approval.approved", "approval.rejected", "approval.edited"}, r.Action)
	}))
	if recorded != said["approve"]+said["reject"] {
		e.report("%s: %d decisions counted, %d recorded", a.ID, said["approve"]+said["reject"], recorded)
	}
}

// checkRecords holds the transitions of an approval against the audit.
func (e *evidence) checkRecords(a approvalFact) {
	var execution string
	for _, r := range e.runs {
		if r.ID == a.RunID {
			execution = r.ExecutionID
		}
	}
	n := func(action string) int {
		return len(e.records(func(r auditFact) bool { return r.Action == action && r.SubjectID == a.ID }))
	}
	about := func(action string) int {
		return len(e.records(func(r auditFact) bool {
			var d struct {
				ApprovalID string `json:"approval_id"`
			}
			return r.Action == action && r.ExecutionID == execution && (json.Unmarshal(r.Details, &d) == nil && d.ApprovalID == a.ID || action == "run.cancelled")
		}))
	}
	asked := n("run.held") + n("run.intercepted") + len(e.records(func(r auditFact) bool {
		return r.Action == "approval.edited" && strings.Contains(string(r.Details), `"superseded_by":"`+a.ID)
	}))
	ended := map[string]int{
		"pending": 1, "approved": n("approval.approved"), "rejected": n("approval.rejected"), "expired": n("approval.expired"),
		"cancelled": n("approval.cancelled") + about("run.cancelled"), "superseded": n("approval.superseded") + n("approval.edited"),
		"blocked": about("run.blocked"),
	}[a.Status]
	switch {
	case ended != 1:
		e.report("%s: %s, and %d records say so", a.ID, a.Status, ended)
	case a.Status != "blocked" && asked != 1:
		e.report("%s: %d records of its asking", a.ID, asked)
	case a.EscalatedAt != nil != (n("approval.escalated") == 1):
		e.report("%s: escalated at %v, with %d records", a.ID, a.EscalatedAt, n("approval.escalated"))
	}
}

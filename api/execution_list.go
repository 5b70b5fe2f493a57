package api

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"agentruntime/api/wire"
	"agentruntime/internal/action/run"
	"agentruntime/internal/agents/conversation"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/near"
	"agentruntime/internal/base/verb"
	mapruns "agentruntime/internal/maps/execution"
	"agentruntime/internal/maps/stepmachine"
)

// kindAll lists executions of all kinds in one list.
const kindAll = "all"

// maxNameOfRun is the most bytes of an id that a caller gives a run (docs/reference/api.md, sizes).
const maxNameOfRun = 255

// knownBy has the filters that not every kind of execution knows, with the kinds that do.
func knownBy() map[string][]string {
	actions, turns := []string{kindAction}, []string{kindMessage, kindGoal}
	return map[string][]string{
		"provider": actions, "verb": actions, "decision": actions, "risk_level": actions, "policy_id": actions, "grant_id": actions, "approval_id": actions,
		"map_id": {kindMap, kindAction}, "parent_execution_id": {kindMap, kindAction}, "dry_run": {kindAction, kindMap}, "agent_id": append(turns, kindAction),
	}
}

// listed is an execution of a list, of any kind.
type listed struct {
	id   uuid.UUID
	view any
}

// executionQuery is what filters of all kinds have in common.
type executionQuery struct {
	limit                        int
	before                       *uuid.UUID
	status, session, customer, q string
	key                          *uuid.UUID
	since, until                 *time.Time
}

// listExecutions lists executions of one kind, or of all in the order of their beginning. A page of
// all is merged of one page of each kind, so it reads no more than those.
func (h *executionHandlers) listExecutions(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	if len(c.IdentitySecrets) > 0 {
		// The key is in the pages of many customers. Each would see what the others wrote.
		return wire.Reply{}, fault.New(fault.CodeInsufficientPermissions, "A key with identity_verification lists no executions. Read one by its execution_id, or list with another key.")
	}
	kinds, err := kindsOf(c)
	if err != nil {
		return wire.Reply{}, err
	}
	q, err := readExecutionQuery(c, kinds)
	if err != nil {
		return wire.Reply{}, err
	}
	page, more := []listed{}, false
	list := func(read func(context.Context, *wire.Call, executionQuery) ([]listed, bool, error)) {
		if err != nil {
			return
		}
		var of []listed
		var others bool
		of, others, err = read(ctx, c, q)
		page, more = append(page, of...), more || others
	}
	if slices.Contains(kinds, kindAction) && hasStatus(kindAction, q.status) {
		list(h.listRuns)
	}
	if slices.Contains(kinds, kindMap) && hasStatus(kindMap, q.status) {
		list(h.listMapExecutions)
	}
	if turns := slices.DeleteFunc(slices.Clone(kinds), func(k string) bool { return k == kindAction || k == kindMap }); len(turns) > 0 && hasStatus(turns[0], q.status) {
		list(h.listTurns(turns))
	}
	if err != nil {
		return wire.Reply{}, err
	}
	slices.SortFunc(page, func(a, b listed) int { return strings.Compare(string(b.id[:]), string(a.id[:])) })
	if len(page) > q.limit {
		page, more = page[:q.limit], true
	}
	views := make([]any, 0, len(page))
	var last uuid.UUID
	for _, e := range page {
		views = append(views, e.view)
		last = e.id
	}
	return wire.Reply{Data: views, Page: wire.PageAfterID(q.limit, more, last)}, nil
}

// kindsOf returns the kinds that the call asks for. Of all kinds a filter leaves those that know it; a
// kind that is named must know each filter, which it would ignore otherwise.
func kindsOf(c *wire.Call) ([]string, error) {
	var v wire.Validation
	kind := wire.QueryOneOf(&v, c, "kind", kindAction, kindMap, kindMessage, kindGoal, kindAll)
	if err := v.Err(); err != nil {
		return nil, err
	}
	kinds := []string{kind}
	switch kind {
	case "":
		kinds = []string{kindAction}
	case kindAll:
		kinds = []string{kindAction, kindMap, kindMessage, kindGoal}
	}
	filters := knownBy()
	names := make([]string, 0, len(filters))
	for name := range filters {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if _, given := c.Query(name); !given {
			continue
		}
		left := slices.DeleteFunc(slices.Clone(kinds), func(k string) bool { return !slices.Contains(filters[name], k) })
		if len(left) == 0 {
			v.Add("query."+name, "kind", fmt.Sprintf("%s narrows executions of the kinds %s only: say kind=%s, or kind=all without filters of other kinds.",
				name, strings.Join(filters[name], ", "), filters[name][0]))
			continue
		}
		kinds = left
	}
	return kinds, v.Err()
}

// readExecutionQuery reads the filters that all kinds know.
func readExecutionQuery(c *wire.Call, kinds []string) (q executionQuery, err error) {
	if q.limit, err = c.Limit(); err != nil {
		return q, err
	}
	if q.before, err = c.CursorID(); err != nil {
		return q, err
	}
	var v wire.Validation
	status, _ := c.Query("status")
	q.status = strings.ToLower(status)
	if q.status != "" && !slices.ContainsFunc(kinds, func(kind string) bool { return hasStatus(kind, q.status) }) {
		var known []string
		for _, kind := range kinds {
			for _, status := range statusesOf(kind) {
				if !slices.Contains(known, status) {
					known = append(known, status)
				}
			}
		}
		v.Add("query.status", "enum", near.Enum("status", q.status, known...)+kindWith(q.status))
	}
	q.session, q.customer, q.q = v.QueryText(c, "session_id"), v.QueryText(c, "customer_id"), v.QueryText(c, "q")
	if len(q.q) > maxNameOfRun {
		v.Add("query.q", "maxLength", fmt.Sprintf("q has at most %d bytes: no id is longer.", maxNameOfRun))
	}
	q.key = v.QueryID(c, "api_key_id")
	q.since, q.until = v.QueryTime(c, "from"), v.QueryTime(c, "to")
	return q, v.Err()
}

// statusesOf returns the statuses that executions of a kind have.
func statusesOf(kind string) (names []string) {
	switch kind {
	case kindAction:
		return []string{"running", "pending_approval", "executed", "failed", "outcome_unknown", "blocked", "intercepted", "rejected", "expired", "cancelled"}
	case kindMap:
		for _, s := range []stepmachine.Status{
			stepmachine.StatusRunning, stepmachine.StatusWaiting, stepmachine.StatusPending, stepmachine.StatusPaused,
			stepmachine.StatusEscalated, stepmachine.StatusCompleted, stepmachine.StatusFailed, stepmachine.StatusCancelled,
		} {
			names = append(names, string(s))
		}
	default:
		for _, s := range []conversation.Status{
			conversation.StatusRunning, conversation.StatusPaused, conversation.StatusPending, conversation.StatusCompleted, conversation.StatusFailed,
			conversation.StatusEscalated, conversation.StatusCancelled,
		} {
			names = append(names, string(s))
		}
	}
	return names
}

// hasStatus reports whether executions of a kind can have the status; "" narrows none.
func hasStatus(kind, status string) bool {
	return status == "" || slices.Contains(statusesOf(kind), status)
}

// kindWith is a sentence that says which kinds of executions have a status that runs do not have. It
// begins with a space, and is empty where none has it.
func kindWith(status string) string {
	switch stepmachine.Status(status) {
	case stepmachine.StatusCompleted, stepmachine.StatusPaused, stepmachine.StatusEscalated:
		return " Maps, messages and goals have this status: add kind=map, kind=message or kind=goal."
	case stepmachine.StatusWaiting:
		return " Maps have this status: add kind=map."
	default:
		return ""
	}
}

func (h *executionHandlers) listRuns(ctx context.Context, c *wire.Call, q executionQuery) (page []listed, more bool, err error) {
	f := run.Filter{
		Limit: q.limit, Before: q.before, Status: q.status, SessionID: q.session, CustomerID: q.customer, KeyID: q.key, Since: q.since, Until: q.until, Begins: q.q,
	}
	var v wire.Validation
	f.Provider = v.QueryText(c, "provider")
	if name, given, err := c.QueryVerb(); err != nil {
		return nil, false, err
	} else if given {
		f.Provider, f.Verb = name.Provider, name.Verb
	}
	if f.DryRun, err = c.QueryBool("dry_run"); err != nil {
		return nil, false, err
	}
	f.Decision = wire.QueryOneOf(&v, c, "decision", "allow", "pending_approval", "block")
	f.RiskLevel = string(wire.QueryOneOf(&v, c, "risk_level", verb.RiskLow, verb.RiskMedium, verb.RiskHigh))
	f.PolicyID, f.GrantID = v.QueryID(c, "policy_id"), v.QueryID(c, "grant_id")
	f.ApprovalID = v.QueryText(c, "approval_id")
	f.AgentID, f.MapID, f.ParentID = v.QueryID(c, "agent_id"), v.QueryID(c, "map_id"), v.QueryText(c, "parent_execution_id")
	if err := v.Err(); err != nil {
		return nil, false, err
	}
	runs, more, err := h.runs.List(ctx, c.Actor, f)
	for _, r := range runs {
		page = append(page, listed{r.ID, viewRun(r, h.now())})
	}
	return page, more, err
}

func (h *executionHandlers) listMapExecutions(ctx context.Context, c *wire.Call, q executionQuery) (page []listed, more bool, err error) {
	f := mapruns.Filter{
		Limit: q.limit, Before: q.before, Status: q.status, SessionID: q.session, CustomerID: q.customer, KeyID: q.key, Since: q.since, Until: q.until, Begins: q.q,
	}
	var v wire.Validation
	f.ParentID, f.MapID = v.QueryText(c, "parent_execution_id"), v.QueryID(c, "map_id")
	if f.DryRun, err = c.QueryBool("dry_run"); err != nil {
		return nil, false, err
	}
	if err := v.Err(); err != nil {
		return nil, false, err
	}
	list, more, err := h.executions.List(ctx, c.Actor, f)
	for _, e := range list {
		page = append(page, listed{e.ID, viewMapExecution(e, h.now())})
	}
	return page, more, err
}

// listTurns lists messages, goals or both.
func (h *executionHandlers) listTurns(kinds []string) func(context.Context, *wire.Call, executionQuery) ([]listed, bool, error) {
	return func(ctx context.Context, c *wire.Call, q executionQuery) (page []listed, more bool, err error) {
		f := conversation.Filter{Limit: q.limit, Before: q.before, Status: q.status, SessionID: q.session, KeyID: q.key, Since: q.since, Until: q.until, Begins: q.q}
		if len(kinds) == 1 {
			f.Kind = flow.Kind(kinds[0])
		}
		var v wire.Validation
		f.AgentID = v.QueryID(c, "agent_id")
		if err := v.Err(); err != nil {
			return nil, false, err
		}
		if q.customer != "" {
			known, err := h.customers.Get(ctx, c.Actor.TenantID, q.customer)
			switch {
			case fault.HasCode(err, fault.CodeCustomerNotFound):
				return nil, false, nil // a message always has a customer who is known
			case err != nil:
				return nil, false, err
			}
			f.Customer = &known.ID
		}
		turns, more, err := h.conversations.List(ctx, c.Actor, f)
		for _, t := range turns {
			page = append(page, listed{t.ID, viewTurn(t, h.now())})
		}
		return page, more, err
	}
}

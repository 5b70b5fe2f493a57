package api

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"agentruntime/api/wire"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/near"
	"agentruntime/internal/maps/stepmachine"
)

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
	q, err := h.readExecutionQuery(c, kinds)
	if err != nil {
		return wire.Reply{}, err
	}
	page, more := []listed{}, false
	for _, kind := range h.kinds() {
		asked := slices.DeleteFunc(slices.Clone(kind.names), func(name string) bool { return !slices.Contains(kinds, name) })
		if len(asked) == 0 || !kind.has(q.status) {
			continue
		}
		of, others, err := kind.list(ctx, c, q, asked)
		if err != nil {
			return wire.Reply{}, err
		}
		page, more = append(page, of...), more || others
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
	kind := wire.QueryOneOf(&v, c, "kind", append(allKinds(), kindAll)...)
	if err := v.Err(); err != nil {
		return nil, err
	}
	kinds := []string{kind}
	switch kind {
	case "":
		kinds = []string{kindAction}
	case kindAll:
		kinds = allKinds()
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
func (h *executionHandlers) readExecutionQuery(c *wire.Call, kinds []string) (q executionQuery, err error) {
	if q.limit, q.before, err = c.PageByID(); err != nil {
		return q, err
	}
	var v wire.Validation
	status, _ := c.Query("status")
	q.status = strings.ToLower(status)
	if known := h.statusesOf(kinds); q.status != "" && !slices.Contains(known, q.status) {
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

// statusesOf returns the statuses that executions of the kinds have.
func (h *executionHandlers) statusesOf(kinds []string) (known []string) {
	for _, name := range kinds {
		for _, kind := range h.kinds() {
			if !slices.Contains(kind.names, name) {
				continue
			}
			for _, status := range kind.statuses {
				if !slices.Contains(known, status) {
					known = append(known, status)
				}
			}
		}
	}
	return known
}

// has reports whether executions of this kind can have the status; "" narrows none.
func (k executionKind) has(status string) bool {
	return status == "" || slices.Contains(k.statuses, status)
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

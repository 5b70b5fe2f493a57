package approvals

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/test/oracle"
)

// read reads the facts in one snapshot.
func (w *world) read() oracle.Facts {
	w.t.Helper()
	f, err := oracle.Read(w.t.Context(), oracle.Database{URL: w.stack.DatabaseURL, VaultKeys: w.stack.VaultKeys()}, w.tenant)
	require.NoError(w.t, err)
	return f
}

// evidence is all that the checks go by.
type evidence struct {
	oracle.Facts

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

// violations lists the promises that the evidence breaks.
func (e *evidence) violations() []string {
	var sent []oracle.Effect
	for _, r := range e.Runs {
		effects := e.effects(r.ExecutionID)
		e.checkRun(r, len(effects))
		if r.Verb == verbPeek {
			continue
		}
		for _, x := range effects {
			args, err := json.Marshal(map[string]any{"id": x.ID, "amount": x.Amount})
			if err != nil {
				e.report("%s: %s", r.ExecutionID, err)
			}
			sent = append(sent, oracle.Effect{ExecutionID: r.ExecutionID, Verb: r.Verb, Args: string(args)})
		}
	}
	needs := func(verb string) bool { return verb == verbWipe }
	e.broken = slices.Concat(e.broken, oracle.Approved(e.Facts, sent, needs, e.past),
		oracle.DecidedOnce(e.Facts), oracle.RejectionsFinal(e.Facts), oracle.ApprovalsRecorded(e.Facts), oracle.GrantsWithinBounds(e.Facts))
	said := map[ack]int{}
	for _, a := range e.acked {
		if said[a]++; oracle.Counted(e.Facts, a.approval, a.user, a.decision) < said[a] {
			e.report("%s: the %s of %s was answered as counted %d times, and is not", a.approval, a.decision, a.user, said[a])
		}
	}
	return e.broken
}

// checkRun checks the run against the number of calls that reached the provider.
func (e *evidence) checkRun(r oracle.Run, effects int) {
	e.broken = append(e.broken, oracle.OneEffect(r.ExecutionID, r.State, r.Verb != verbPeek, effects)...)
	switch {
	case slices.Contains(e.cancelled, r.ExecutionID) && r.State != "cancelled":
		e.report("%s: answered as cancelled, and is %s", r.ExecutionID, r.State)
	case !e.midway && slices.Contains([]string{"claimed", "sending", "pending_approval"}, r.State):
		e.report("%s: has not ended, it is %s", r.ExecutionID, r.State)
	}
}

// Roles implements oracle.Past.
func (h *history) Roles(user uuid.UUID, a, b time.Time) []string {
	return h.possible(roleOf(user.String()), a, b)
}

// Holding implements oracle.Past.
func (h *history) Holding(verb string, at time.Time) []string { return h.certain("hold", verb, at) }

// Blocking implements oracle.Past.
func (h *history) Blocking(verb string, at time.Time) []string { return h.certain("block", verb, at) }

// Revoked implements oracle.Past.
func (h *history) Revoked(grantID string, at time.Time) bool {
	return slices.Equal(h.possible("grant "+grantID, at, at), []string{"revoked"})
}

// certain lists the policies that certainly took the action for the verb at the time.
func (h *history) certain(action, verb string, at time.Time) (list []string) {
	for _, key := range h.keys("policy ") {
		values := h.possible(key, at, at)
		if len(values) > 0 && !slices.ContainsFunc(values, func(v string) bool { return !covers(v, action, verb) }) {
			list = append(list, strings.TrimPrefix(key, "policy "))
		}
	}
	return list
}

// covers reports whether a value of a policy's past is the action for the verb.
func covers(value, action, verb string) bool {
	return value == action+" "+verb || value == action+" desk:*"
}

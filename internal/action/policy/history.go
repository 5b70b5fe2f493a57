package policy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/verb"
)

// Limits of counting what windows contained.
const (
	// maxHistory is how many earlier runs are counted, and maxPlaces how many places in windows they
	// may take. A simulation with more has its conditions on windows in doubt.
	maxHistory = 10_000
	maxPlaces  = 100_000
)

// Counting says whether a simulation knows what windows contained.
type Counting string

// Whether it does.
const (
	NoWindows      Counting = "none" // no condition asks about one
	WindowsCounted Counting = "counted"
	WindowsInDoubt Counting = "in_doubt" // there were too many runs, or too little time
)

// countWindows counts the recorded runs that windows of the policies reach, from the longest window
// before the period on. It takes half of the time that is left at most.
func (m *simulating) countWindows(ctx context.Context, policies []governance.Policy) error {
	defs := governance.WindowDefs(policies)
	m.out.Windows = NoWindows
	if len(defs) == 0 {
		return nil
	}
	m.out.Windows = WindowsInDoubt
	var longest time.Duration
	f := filling{s: m.s, tenant: m.tenant, set: governance.Compile(0, policies), subjects: map[verb.Name]Subject{}}
	for _, d := range defs {
		longest, f.ofArgs = max(longest, d.Longest), f.ofArgs || d.OfArgs
	}
	// The first minute of a window counts on the strict side.
	from := m.out.Period.From.Add(-longest - time.Minute)
	on := m.s.db.Reading(m.tenant, db.ScanLimit)
	runs, err := m.s.q.CountCountedRuns(ctx, on, dbsqlc.CountCountedRunsParams{TenantID: m.tenant, Since: from, Until: m.out.Period.To, Most: maxHistory + 1})
	if err != nil || runs > maxHistory {
		return err
	}
	if f.key, err = m.s.keys.Key(ctx, m.tenant); err != nil {
		return err
	}
	limited, cancel := halfOfTime(ctx)
	defer cancel()
	h := &governance.History{}
	complete, err := m.readHistory(limited, &f, h, from)
	switch {
	case err != nil && ctx.Err() == nil && errors.Is(limited.Err(), context.DeadlineExceeded):
		return nil
	case err != nil || !complete:
		return err
	}
	m.history, m.out.Windows = h, WindowsCounted
	return nil
}

// halfOfTime returns a context that ends when half of the time that is left is over. Where ctx has no
// deadline, neither has it.
func halfOfTime(ctx context.Context) (context.Context, context.CancelFunc) {
	until, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(until)/2)
}

// readHistory reads the runs, and reports whether none is missing.
func (m *simulating) readHistory(ctx context.Context, f *filling, h *governance.History, from time.Time) (complete bool, err error) {
	arg := dbsqlc.CountedRunsParams{TenantID: m.tenant, Since: from, After: uuid.Nil, Until: m.out.Period.To, OfArgs: f.ofArgs, Most: runsAtOnce}
	for seen := 0; seen <= maxHistory && h.Size() <= maxPlaces; {
		page, err := m.s.q.CountedRuns(ctx, m.s.db.Reading(m.tenant, db.ScanLimit), arg)
		if err != nil {
			return false, err
		}
		for _, r := range page {
			arg.Since, arg.After = *r.CountedAt, r.ID
			call, err := f.call(ctx, dbsqlc.RunsForWindowRow{
				ID: r.ID, Provider: r.Provider, Verb: r.Verb, RiskLevel: r.RiskLevel, OperationType: r.OperationType, CreatedAt: r.CreatedAt,
				ErasedAt: r.ErasedAt, Edited: r.Edited, Args: r.Args, Metadata: r.Metadata, SessionID: r.SessionID, DryRun: r.DryRun, Origin: r.Origin,
				KeyID: r.KeyID, AgentID: r.AgentID, CustomerID: r.CustomerID,
			})
			if err != nil {
				return false, fmt.Errorf("run %s: %w", r.ID, err)
			}
			h.Add(f.set.Records(call, func(governance.WindowID) bool { return true }), *r.CountedAt, r.State == string(flow.StateExecuted))
		}
		if seen += len(page); len(page) < runsAtOnce {
			return h.Size() <= maxPlaces, nil
		}
	}
	return false, nil
}

// judged is how a set of policies decides about a recorded call.
type judged struct {
	governance.Ruling

	call governance.Call // as it was judged: of the samples the reason is asked for too
}

func (j judged) effect() Effect { return effectOf(j.Decision, j.Notify) }

// decide judges a recorded call by what windows contained when it began.
func (m *simulating) decide(set *governance.Set, call governance.Call) judged {
	if m.history != nil {
		if call.Windows = set.Windows(call); call.Windows != nil {
			m.history.Read(call.Windows, call.Context.Now)
		}
	}
	return judged{set.Decide(call), call}
}

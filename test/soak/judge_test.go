// Package soak runs two API and two worker processes under a mix of calls for a long time,
// kills every part again and again, and looks whether a run was lost, doubled or got stuck,
// and whether memory grew. It runs by make soak.
package soak

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/test/oracle"
)

// Kinds of calls, by what their caller does about them.
const (
	kindPlain    = "plain"    // waits for the end
	kindTwin     = "twin"     // calls through both APIs at once
	kindUnnamed  = "unnamed"  // has no id, so it is never repeated
	kindApproved = "approved" // is held and approved
	kindRejected = "rejected" // is held and rejected
	kindLeft     = "left"     // is held until the load has ended, then approved
	kindDry      = "dry"      // is a dry run, which is approved
	kindDropped  = "dropped"  // is a dry run, which is rejected
	kindWithdraw = "withdraw" // is held and cancelled
	kindCancel   = "cancel"   // is cancelled while the provider has it wait
)

// Statuses that the judgement tells apart, as the API and the rows say them.
const (
	executed    = "executed"
	failed      = "failed"
	unknown     = "outcome_unknown"
	cancelled   = "cancelled"
	rejected    = "rejected"
	intercepted = "intercepted"
	pending     = "pending_approval"
)

// outage is a part that was away.
type outage struct {
	victim   string
	gently   bool
	from, to time.Time
}

// excuses reports whether the outage can have left the outcome of a write unknown. A worker
// that is asked to stop finishes its calls.
func (o outage) excuses() bool {
	return o.victim == "postgres" || !o.gently && (o.victim == "worker" || o.victim == "worker-2")
}

// seen is all that is known of one call.
type seen struct {
	id, kind, verb string
	from, to       time.Time
	// accepted: an answer said that there is a run. status is the last answer; "" where none
	// was the end.
	accepted bool
	status   string
	receipt  int
	// complaints are what was wrong with answers.
	complaints []string

	// What is found out at the end. runs are the rows of the call.
	effects  int
	receipts int
	runs     []oracle.Facts
	excused  bool
}

// mayEnd lists the states in which the call may have ended.
func (s seen) mayEnd() []string {
	mode := modeOf(s.id)
	may := []string{executed}
	switch {
	case s.kind == kindRejected:
		may = []string{rejected}
	case s.kind == kindDropped:
		may = []string{intercepted}
	case s.kind == kindWithdraw:
		may = []string{cancelled}
	case s.kind == kindCancel:
		may = append(may, cancelled)
	case mode == refused, mode == broken && s.verb == verbWrite:
		may = []string{failed}
	}
	if s.kind == kindUnnamed {
		may = append(may, cancelled) // withdrawn while the engine was away
	}
	lossy := slices.Contains([]string{gateway, dropped, lost}, mode)
	if s.verb == verbWrite && (lossy || s.excused) || s.verb == verbKeyed && mode == refused && s.excused {
		may = append(may, unknown)
	}
	if s.verb == verbWrite && mode == broken && s.excused {
		// A worker that is killed before the failure is recorded may not send it again.
		may = append(may, unknown)
	}
	return may
}

// violations lists the promises that the call breaks.
func (s seen) violations() []string {
	broken := slices.Clone(s.complaints)
	report := func(format string, args ...any) { broken = append(broken, fmt.Sprintf(format, args...)) }
	switch {
	case len(s.runs) > 1:
		report("%d runs of one call", len(s.runs))
	case len(s.runs) == 0 && s.accepted:
		report("accepted as %q, and there is no run", s.status)
	case len(s.runs) == 0 && s.effects > 0:
		report("%d effects without a run", s.effects)
	}
	for _, f := range s.runs {
		s.judge(f, report)
	}
	for i := range broken {
		broken[i] = fmt.Sprintf("%s, %s of %s from %s to %s: %s", s.id, s.kind, s.verb, s.from.Format(clock), s.to.Format(clock), broken[i])
	}
	return broken
}

const clock = "15:04:05.000"

// ends are the records of the audit trail that name an end which stays.
func ends(f oracle.Facts) (list []string) {
	for _, r := range f.Records {
		switch r.Action {
		case "run.executed", "run.failed", "run.outcome_unknown", "run.cancelled":
			list = append(list, r.Action)
		}
	}
	return list
}

func (s seen) judge(f oracle.Facts, report func(string, ...any)) {
	r := f.Runs[0]
	if !slices.Contains(s.mayEnd(), r.State) {
		report("is %s instead of one of %v", r.State, s.mayEnd())
	}
	if s.status == "" && s.kind != kindUnnamed {
		report("its caller never heard the end, and the run is %s", r.State)
	}
	recorded := ends(f)
	late := len(recorded) == 2 && recorded[0] == "run."+unknown
	if s.status != "" && s.status != r.State && (!late || s.status != unknown) {
		report("answered as %s, and the run is %s", s.status, r.State)
	}
	if s.status == executed && s.receipt != s.receipts {
		report("answered with receipt %d, and the provider gave %d", s.receipt, s.receipts)
	}
	found := oracle.OneEffect(s.id, r.State, s.verb != verbRead, s.effects)
	if late {
		// A late answer settles what was called unknown before.
		recorded = recorded[1:]
	}
	if slices.Contains([]string{executed, failed, unknown, cancelled}, r.State) {
		found = append(found, oracle.OneEnd(s.id, r.State, recorded)...)
	}
	var effects []oracle.Effect
	for range s.effects {
		effects = append(effects, oracle.Effect{ExecutionID: r.ExecutionID, Verb: r.Verb, Args: r.Sends()})
	}
	needs := func(string) bool { return r.Held }
	found = append(found, slices.Concat(oracle.Approved(f, effects, needs, nil), oracle.DecidedOnce(f), oracle.RejectionsFinal(f), oracle.ApprovalsRecorded(f))...)
	for _, what := range found {
		report("%s", what)
	}
}

func TestSeenOneFaultIsFound(t *testing.T) {
	t.Parallel()
	run := func(state string, records ...string) []oracle.Facts {
		f := oracle.Facts{Runs: []oracle.Run{{ExecutionID: "x", State: state, Verb: verbWrite, Args: `{}`, SentAt: &time.Time{}}}}
		for _, action := range append([]string{"run.allowed"}, records...) {
			f.Records = append(f.Records, oracle.Record{Action: action, ExecutionID: "x", Details: []byte(`{}`)})
		}
		return []oracle.Facts{f}
	}
	sound := func() seen {
		return seen{
			id: "x.fine", kind: kindPlain, verb: verbWrite, accepted: true, status: executed, receipt: 7,
			effects: 1, receipts: 7, runs: run(executed, "run.executed"),
		}
	}
	end := func(s *seen, state string) { s.status, s.runs = state, run(state, "run."+state) }
	for name, c := range map[string]struct {
		change func(*seen)
		want   string
	}{
		"sound":                     {func(*seen) {}, ""},
		"two effects":               {func(s *seen) { s.effects = 2 }, "2 effects"},
		"no effect":                 {func(s *seen) { s.effects = 0 }, "executed without an effect"},
		"two runs":                  {func(s *seen) { s.runs = append(s.runs, s.runs...) }, "2 runs of one call"},
		"lost":                      {func(s *seen) { s.runs = nil }, "there is no run"},
		"lost before it was told":   {func(s *seen) { s.runs, s.accepted, s.effects = nil, false, 0 }, ""},
		"effect without a run":      {func(s *seen) { s.runs, s.accepted = nil, false }, "without a run"},
		"stuck":                     {func(s *seen) { s.runs = run("sending") }, "is sending"},
		"not told":                  {func(s *seen) { s.status = "" }, "never heard"},
		"unknown for nothing":       {func(s *seen) { end(s, unknown) }, "instead of one of"},
		"unknown by a kill":         {func(s *seen) { end(s, unknown); s.excused = true }, ""},
		"unknown by the provider":   {func(s *seen) { end(s, unknown); s.id = "x.dropped" }, ""},
		"keyed and unknown":         {func(s *seen) { end(s, unknown); s.verb, s.excused = verbKeyed, true }, "instead of one of"},
		"another receipt":           {func(s *seen) { s.receipt = 6 }, "receipt 6"},
		"told another end":          {func(s *seen) { s.status = failed }, "answered as failed"},
		"settled by a late answer":  {func(s *seen) { s.runs = run(executed, "run.outcome_unknown", "run.executed"); s.status = unknown }, ""},
		"two ends":                  {func(s *seen) { s.runs = run(executed, "run.failed", "run.executed") }, "audit records"},
		"no record of its end":      {func(s *seen) { s.runs = run(executed) }, "audit records"},
		"rejected and sent":         {func(s *seen) { s.kind = kindRejected }, "instead of one of [rejected]"},
		"failed as it should":       {func(s *seen) { end(s, failed); s.id, s.effects = "x.refused", 0 }, ""},
		"failed and had its effect": {func(s *seen) { end(s, failed); s.id = "x.broken" }, "an effect"},
		"a wrong answer":            {func(s *seen) { s.complaints = []string{"HTTP 500"} }, "HTTP 500"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sound()
			c.change(&s)
			got := fmt.Sprint(s.violations())
			if c.want == "" {
				require.Empty(t, s.violations())
				return
			}
			require.Contains(t, got, c.want)
		})
	}
}

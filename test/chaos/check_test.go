package chaos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/test/oracle"
)

// Who is killed.
const (
	victimWorker   = "worker"
	victimAPI      = "api"
	victimTemporal = "temporal"
	victimPostgres = "postgres"
)

func victims() []string { return []string{victimWorker, victimAPI, victimTemporal, victimPostgres} }

// points are where runs are stopped when the kill falls, in the order of a run's life.
func points() []string {
	return []string{
		"after_claim", "before_sending", "after_sending", inRequest, inResponse, "after_response", "before_record", "after_record",
	}
}

// lookupPoints are where a run is stopped too that a policy looks something up for.
func lookupPoints() []string {
	return []string{"before_lookup", "after_lookup", "before_lookup_kept", "after_lookup_kept"}
}

// anywhere is the point of runs that were not stopped.
const anywhere = "anywhere"

// mayBeUnknown reports whether the kill can have left the outcome of a write unknown:
// it ended the worker between the commit of sending and that of the record. A kill
// of Postgres at any moment can also fall between the commit of sending and the
// worker's hearing of it.
func (o observation) mayBeUnknown() bool {
	if o.verb != verbWrite {
		return false
	}
	worker, postgres := strings.Contains(o.victim, victimWorker), strings.Contains(o.victim, victimPostgres)
	switch o.point {
	case "after_sending", inRequest, inResponse, "after_response", "before_record":
		return worker
	default:
		return o.point == anywhere && (worker || postgres)
	}
}

// terminalLimit is how long after the restart a run may take to end.
const terminalLimit = 60 * time.Second

// Statuses of an ended run that the checks tell apart.
const (
	statusExecuted = "executed"
	statusUnknown  = "outcome_unknown"
)

// observation is all that was seen of one id.
type observation struct {
	// victim joins the names of all killed parts by "+".
	id, verb, point, victim string
	// status is that of the first terminal answer; "" where none came in time.
	status string
	result json.RawMessage
	// took is the time from the restart to the terminal answer, 0 for one before.
	took time.Duration
	// repeat is the same call once more: its fence status, or the status of its error.
	repeat       string
	repeatResult json.RawMessage
	// arrivals are requests that reached the provider whole.
	arrivals, effects int
	// ends are the audit records of the run's end.
	ends []string
}

// violations lists the promises that the observation breaks.
func (o observation) violations() []string {
	var broken []string
	report := func(format string, args ...any) {
		broken = append(broken, fmt.Sprintf("%s, kill of %s at %s, %s: ", o.id, o.victim, o.point, o.verb)+fmt.Sprintf(format, args...))
	}
	for _, found := range oracle.OneEffect(o.id, o.status, o.verb != verbRead, o.effects) {
		report("%s", found)
	}
	switch {
	case o.status == "":
		report("not terminal")
		return broken
	case o.took > terminalLimit:
		report("terminal only %s after the restart", o.took)
	}
	switch {
	case o.status == statusExecuted:
		if o.arrivals == 0 {
			report("executed without a request")
		}
		if o.repeat != "cached" || !sameJSON(o.result, o.repeatResult) {
			report("executed, and the repeat was %s with %.80s instead of %.80s", o.repeat, o.repeatResult, o.result)
		}
	case o.status != statusUnknown:
		report("ended as %s", o.status)
	case !o.mayBeUnknown():
		report("outcome_unknown where the kill left nothing unknown")
	case o.repeat != statusUnknown:
		report("outcome_unknown, and the repeat was %s", o.repeat)
	}
	for _, found := range oracle.OneEnd(o.id, o.status, o.ends) {
		report("%s", found)
	}
	return broken
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}

func TestObservationOneFaultIsFound(t *testing.T) {
	t.Parallel()
	sound := func() observation {
		return observation{
			id: "a", verb: verbWrite, point: "after_response", victim: victimWorker, status: statusExecuted, result: json.RawMessage(`{"n": 1}`),
			repeat: "cached", repeatResult: json.RawMessage(`{"n":1}`), arrivals: 1, effects: 1, ends: []string{"run.executed"},
		}
	}
	unknown := func(o *observation) {
		o.status, o.repeat, o.ends = statusUnknown, statusUnknown, []string{"run.outcome_unknown"}
	}
	for name, c := range map[string]struct {
		change func(*observation)
		want   string
	}{
		"sound":                        {func(*observation) {}, ""},
		"two effects":                  {func(o *observation) { o.effects = 2 }, "2 effects"},
		"two effects, then unknown":    {func(o *observation) { unknown(o); o.effects = 2 }, "2 effects"},
		"executed without effect":      {func(o *observation) { o.effects = 0 }, "executed without an effect"},
		"not terminal":                 {func(o *observation) { o.status = "" }, "not terminal"},
		"late":                         {func(o *observation) { o.took = 2 * terminalLimit }, "terminal only"},
		"failed":                       {func(o *observation) { o.status = "failed" }, "ended as failed"},
		"unknown where it may be":      {unknown, ""},
		"unknown before the send":      {func(o *observation) { unknown(o); o.point = "before_sending" }, "nothing unknown"},
		"unknown after the record":     {func(o *observation) { unknown(o); o.point = "after_record" }, "nothing unknown"},
		"unknown with a living worker": {func(o *observation) { unknown(o); o.victim = victimPostgres }, "nothing unknown"},
		"unknown with Postgres killed at a bad moment": {func(o *observation) { unknown(o); o.victim, o.point = victimPostgres, anywhere }, ""},
		"unknown with the API killed at any moment":    {func(o *observation) { unknown(o); o.victim, o.point = victimAPI, anywhere }, "nothing unknown"},
		"unknown of a read":                            {func(o *observation) { unknown(o); o.verb = verbRead }, "nothing unknown"},
		"unknown, then another":                        {func(o *observation) { unknown(o); o.repeat = "cached" }, "the repeat was cached"},
		"executed again":                               {func(o *observation) { o.repeat = "executed" }, "the repeat was executed"},
		"another result":                               {func(o *observation) { o.repeatResult = json.RawMessage(`{"n":2}`) }, "instead of"},
		"no audit record":                              {func(o *observation) { o.ends = nil }, "audit records"},
		"two ends":                                     {func(o *observation) { o.ends = []string{"run.outcome_unknown", "run.executed"} }, "audit records"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := sound()
			c.change(&o)
			got := o.violations()
			if c.want == "" {
				require.Empty(t, got)
				return
			}
			require.NotEmpty(t, got)
			require.Contains(t, fmt.Sprint(got), c.want)
		})
	}
}

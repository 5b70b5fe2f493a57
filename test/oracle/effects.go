package oracle

import "slices"

// OneEffect judges the promise that no call happens twice, and that the state of a run
// is true. There is at most one effect, and exactly one for an executed write. There is
// none unless the run is executed or its outcome unknown.
func OneEffect(executionID, state string, write bool, effects int) []string {
	var found findings
	switch {
	case effects > 1:
		found.report("%s: %d effects for one id", executionID, effects)
	case write && state == "executed" && effects != 1:
		found.report("%s: executed without an effect", executionID)
	case effects == 1 && !slices.Contains([]string{"executed", "outcome_unknown"}, state):
		found.report("%s: an effect, and its run is %s", executionID, state)
	}
	return found
}

// OneEnd judges the promise that the audit trail names the end of each run once. ends
// are the actions of the run's records, without those of the permission to send.
func OneEnd(executionID, state string, ends []string) []string {
	var found findings
	if want := []string{"run." + state}; !slices.Equal(ends, want) {
		found.report("%s: audit records of its end: %v instead of %v", executionID, ends, want)
	}
	return found
}

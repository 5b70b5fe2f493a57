package policy

import (
	"fmt"
	"slices"

	"agentruntime/internal/action/governance"
)

// pair judges a recorded call without the candidate and with it. A simulation makes no look-ups, and
// the answers of then are gone. The recorded decision tells how those of stored policies counted, so
// that a look-up of theirs does not hide what the candidate changes. One of the candidate counts on
// the strict side, except where the candidate replaces a policy: then both count alike.
func (m *simulating) pair(call governance.Call, recorded governance.Decision) (from, to Effect, is judged) {
	was, is := m.decide(m.before, call), m.decide(m.after, call)
	from, to = was.effect(), is.effect()
	if len(was.Lookups)+len(is.Lookups) == 0 {
		return from, to, is
	}
	if call.Context.LookupsLater = true; !m.replaces {
		call.Context.LookupsNow = m.candidate
	}
	least := m.decide(m.after, call)
	fromLeast, toLeast := m.decide(m.before, call).effect(), least.effect()
	if from == fromLeast && to == toLeast && !m.candidateLooksUp(is) {
		return from, to, is
	}
	if m.out.LookupsInDoubt++; recorded == "" || decides(from, recorded) {
		return from, to, is
	}
	if decides(fromLeast, recorded) {
		return fromLeast, toLeast, least
	}
	// Some look-ups counted and some did not, or the policies have changed: what was decided stands,
	// unless the candidate is stricter.
	if from, to = recordedEffect(recorded), recordedEffect(recorded); strictness(toLeast) > strictness(fromLeast) && strictness(toLeast) > strictness(from) {
		to = toLeast
	}
	return from, to, least
}

func (m *simulating) candidateLooksUp(v judged) bool {
	return slices.ContainsFunc(v.Lookups, func(l governance.LookupCall) bool {
		return slices.ContainsFunc(l.For, func(of governance.LookupOf) bool { return of.PolicyID == m.candidate })
	})
}

// decides reports whether a run with the effect is recorded with the decision.
func decides(e Effect, d governance.Decision) bool {
	return recordedEffect(d) == e || d == governance.Allow && e == Notified
}

func recordedEffect(d governance.Decision) Effect { return effectOf(d, false) }

func strictness(e Effect) int { return slices.Index([]Effect{Allowed, Notified, Held, Blocked}, e) }

// warnOfLookups says that decisions depend on what was not looked up.
func (m *simulating) warnOfLookups() {
	if n := m.out.LookupsInDoubt; n > 0 {
		m.out.Warnings = append(m.out.Warnings, Warning{LookupsInDoubt, fmt.Sprintf(
			"The decision about judged runs depends on look-ups, which a simulation does not make: %d. Stored policies count as the runs were decided. "+
				"Look-ups of the candidate count on the strict side.", n)})
	}
}

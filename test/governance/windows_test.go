package governance

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// windowOf is a condition on a window of the calls of one customer.
func windowOf(window m, operator string, value any) m {
	return m{"window": window, "operator": operator, "value": value}
}

func (w *world) callFor(customer, verb string, args m, executionID string, more ...m) rig.Answer {
	body := m{"verb": verb, "args": args, "execution_id": executionID, "metadata": m{"customer_id": customer}}
	for _, one := range more {
		maps.Copy(body, one)
	}
	return w.send(body)
}

func (w *world) limitFor(name string, c m) {
	w.policy(with(rule(name, "block", mediumWrite), m{"conditions": []m{c}}))
}

var perCustomer = m{"by": "customer_id", "per": "1h", "sum": "args.amount"}

func TestSumOfAWindowLimitsWhatACustomerGets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// It counts since before the policy existed, and what was blocked, rejected or only tried does not.
	succeeded(t, w.callFor("c1", mediumWrite, m{"id": "before", "amount": 1000.5}, "before"))
	succeeded(t, w.callFor("c1", mediumWrite, m{"id": "tried", "amount": 4000}, "tried", m{"dryRun": true}))
	w.limitFor("at most 5,000 an hour", windowOf(perCustomer, "greater", 5000))
	evaluate := func(amount any) evaluated {
		var e evaluated
		w.Runtime.Do(http.MethodPost, "/v1/runtime/governance/evaluate",
			m{"verb": mediumWrite, "args": m{"amount": amount}, "metadata": m{"customer_id": "c1"}}).Data(t, &e)
		return e
	}
	require.Equal(t, "allow", evaluate(3999.5).Decision)
	require.Equal(t, "block", evaluate(3999.51).Decision)
	e := refused(t, w.callFor("c1", mediumWrite, m{"id": "large", "amount": 4000}, "large"), http.StatusForbidden, "GOVERNANCE_BLOCKED")
	require.Contains(t, e.Error.Message, "sum of args.amount by customer_id within 1h greater 5000")
	succeeded(t, w.callFor("c1", mediumWrite, m{"id": "exact", "amount": 3999.5}, "exact"))
	refused(t, w.callFor("c1", mediumWrite, m{"id": "more", "amount": 0.01}, "more"), http.StatusForbidden, "GOVERNANCE_BLOCKED")
	// A repeat is the same call, and another customer has a window of their own.
	succeeded(t, w.callFor("c1", mediumWrite, m{"id": "exact", "amount": 3999.5}, "exact"))
	succeeded(t, w.callFor("c2", mediumWrite, m{"id": "other", "amount": 5000}, "other"))
	// In doubt, the stricter side: without a customer, and without an amount.
	e = refused(t, w.Runtime.Run(mediumWrite, m{"id": "nobody", "amount": 1}, "nobody"), http.StatusForbidden, "GOVERNANCE_BLOCKED")
	require.Contains(t, e.Error.Message, "the call lacks customer_id). Send metadata.customer_id")
	e = refused(t, w.callFor("c3", mediumWrite, m{"id": "whole"}, "whole"), http.StatusForbidden, "GOVERNANCE_BLOCKED")
	require.Contains(t, e.Error.Message, "the call lacks it")
	require.Empty(t, w.bank.of("large"))
}

// A credit makes no room under a limit, whether it came before the policy, came after it or is being
// judged. Where less is stricter it counts.
func TestAmountBelowZeroMakesNoRoomUnderALimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	call := func(id string, amount any) rig.Answer {
		return w.callFor("c1", mediumWrite, m{"id": id, "amount": amount}, id)
	}
	succeeded(t, call("before", -1_000_000))
	w.limitFor("at most 5,000 an hour", windowOf(perCustomer, "greater", 5000))
	w.policy(with(rule("100 must be left", "block", lowWrite), m{"conditions": []m{
		windowOf(with(perCustomer, m{"matching": []m{{"type": "verb", "value": mediumWrite}}}), "less", 100),
	}}))
	succeeded(t, call("credit", -1_000_000))
	e := refused(t, call("large", 5000.01), http.StatusForbidden, "GOVERNANCE_BLOCKED")
	require.Contains(t, e.Error.Message, "at most 5,000 an hour")
	succeeded(t, call("exact", 5000))
	refused(t, call("more", 0.01), http.StatusForbidden, "GOVERNANCE_BLOCKED")
	succeeded(t, call("late", -0.5))
	refused(t, call("again", 0.01), http.StatusForbidden, "GOVERNANCE_BLOCKED")
	refused(t, w.callFor("c1", lowWrite, m{"id": "less"}, "less"), http.StatusForbidden, "GOVERNANCE_BLOCKED")
	succeeded(t, w.callFor("c2", mediumWrite, m{"id": "other", "amount": 150}, "other"))
	succeeded(t, w.callFor("c2", lowWrite, m{"id": "enough"}, "enough"))
	succeeded(t, w.callFor("c2", mediumWrite, m{"id": "back", "amount": -50.5}, "back"))
	refused(t, w.callFor("c2", lowWrite, m{"id": "few"}, "few"), http.StatusForbidden, "GOVERNANCE_BLOCKED")
}

func TestCallThatHadNoEffectLeavesTheWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.limitFor("once per order", windowOf(m{"by": "args.note", "per": "30d", "count": true}, "greater", 1))
	// The bank's rate limit refuses the first attempt: it leaves the window, and the next one is in it.
	succeeded(t, w.Runtime.Run(mediumWrite, m{"id": "later", "note": "order-1", "mode": modeLater}, "later"))
	refused(t, w.Runtime.Run(mediumWrite, m{"id": "again", "note": "order-1"}, "again"), http.StatusForbidden, "GOVERNANCE_BLOCKED")
	succeeded(t, w.Runtime.Run(mediumWrite, m{"id": "other", "note": "order-2"}, "other"))
	require.Empty(t, w.bank.of("again"))
}

// Each key has a window of its own, and so has each agent of the caller.
func TestWindowsOfKeysAndAgents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.limitFor("two calls a key", windowOf(m{"by": "key.id", "per": "1h", "count": true}, "greater", 2))
	w.policy(with(rule("one call an agent", "block", lowWrite), m{"conditions": []m{
		windowOf(m{"by": "agent_id", "per": "1h", "count": true}, "greater", 1),
	}}))
	first, _ := w.key("actions:run")
	second, _ := w.key("actions:run")
	for i, key := range []*rig.Client{first, second} {
		for n := range 3 {
			id := fmt.Sprintf("key-%d-%d", i, n)
			a := key.Run(mediumWrite, m{"id": id}, id)
			if n < 2 {
				succeeded(t, a)
				continue
			}
			e := refused(t, a, http.StatusForbidden, "GOVERNANCE_BLOCKED")
			require.Contains(t, e.Error.Message, "calls by key.id within 1h greater 2")
		}
	}
	for i, key := range []*rig.Client{first, second} {
		id := fmt.Sprintf("agent-%d", i)
		call := func(id, agent string) rig.Answer {
			return key.Do(http.MethodPost, "/v1/runtime/actions/run", m{"verb": lowWrite, "args": m{"id": id}, "execution_id": id, "metadata": m{"agent_id": agent}})
		}
		succeeded(t, call(id, id))
		e := refused(t, call(id+"-again", id), http.StatusForbidden, "GOVERNANCE_BLOCKED")
		require.Contains(t, e.Error.Message, "calls by agent_id within 1h greater 1")
	}
	e := refused(t, first.Run(lowWrite, m{"id": "nobody"}, "nobody"), http.StatusForbidden, "GOVERNANCE_BLOCKED")
	require.Contains(t, e.Error.Message, "the call lacks agent_id). Send metadata.agent_id")
}

func TestCallBeforeAnotherHasSucceededIsBlocked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.limitFor("verify first", windowOf(
		m{"by": "session.id", "per": "1d", "count": true, "matching": []m{{"type": "verb", "value": lowWrite}}}, "equals", 0))
	inSession := func(verb, call, mode string) rig.Answer {
		return w.send(m{"verb": verb, "args": m{"id": call, "mode": mode}, "execution_id": call, "session_id": "s1"})
	}
	refused(t, inSession(mediumWrite, "early", ""), http.StatusForbidden, "GOVERNANCE_BLOCKED")
	// While it is under way it has not succeeded.
	done := make(chan rig.Answer, 1)
	go func() { done <- inSession(lowWrite, "verify", modeHold) }()
	require.Equal(t, "verify", <-w.bank.arrived)
	refused(t, inSession(mediumWrite, "meanwhile", ""), http.StatusForbidden, "GOVERNANCE_BLOCKED")
	w.bank.letGo()
	succeeded(t, <-done)
	succeeded(t, inSession(mediumWrite, "then", ""))
	refused(t, w.send(m{"verb": mediumWrite, "args": m{"id": "elsewhere"}, "execution_id": "elsewhere", "session_id": "s2"}), http.StatusForbidden, "GOVERNANCE_BLOCKED")
}

func TestHeldCallCountsWhenItIsSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.policy(with(rule("more than 100 needs approval", "require_approval", mediumWrite), m{"conditions": []m{
		windowOf(m{"by": "args.note", "per": "1h", "sum": "args.amount"}, "greater", 100),
	}}))
	hold := func(call string) string { return w.hold(mediumWrite, m{"id": call, "note": "n", "amount": 90}, call) }
	succeeded(t, w.Runtime.Run(mediumWrite, m{"id": "first", "note": "n", "amount": 50}, "first"))
	one := hold("one")
	// What waits for people does not count.
	succeeded(t, w.Runtime.Run(mediumWrite, m{"id": "small", "note": "n", "amount": 50}, "small"))
	require.Equal(t, http.StatusOK, w.approve(one).Status)
	w.awaitStatus("one", "executed")
	hold("two")
	w.hold(mediumWrite, m{"id": "tiny", "note": "n", "amount": 0.01}, "tiny")
}

// Each id of a customer counts in one limit: our own, the caller's, those of customers that were merged
// into this one, and one that a call has named before there was a record.
func TestWindowOfACustomerCountsAllTheirIDsTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.limitFor("at most 5,000 an hour", windowOf(perCustomer, "greater", 5000))
	succeeded(t, w.callFor("ext-0", mediumWrite, m{"id": "early", "amount": 1000}, "early"))
	var ids []string
	for i := range 3 {
		var made struct{ ID string }
		external := fmt.Sprintf("ext-%d", i)
		w.User.Do(http.MethodPost, "/v1/customers", m{"external_id": external}).Data(t, &made)
		ids = append(ids, made.ID, external)
	}
	succeeded(t, w.callFor("ext-2", mediumWrite, m{"id": "before", "amount": 1000}, "before"))
	for _, merged := range []string{ids[2], ids[4]} {
		require.Equal(t, http.StatusOK, w.User.Do(http.MethodPost, "/v1/customers/"+ids[0]+"/merge", m{"customer_id": merged}).Status)
	}
	var calls []func() rig.Answer
	for i, id := range ids {
		call := fmt.Sprintf("one-%d", i)
		calls = append(calls, func() rig.Answer { return w.callFor(id, mediumWrite, m{"id": call, "amount": 1500}, call) })
	}
	passed := 0
	for _, a := range together(calls...) {
		if a.Status == http.StatusOK {
			passed++
		} else {
			refused(t, a, http.StatusForbidden, "GOVERNANCE_BLOCKED")
		}
	}
	require.Equal(t, 2, passed, "2,000 and two of 1,500")
	for i, id := range ids {
		call := fmt.Sprintf("more-%d", i)
		refused(t, w.callFor(id, mediumWrite, m{"id": call, "amount": 0.01}, call), http.StatusForbidden, "GOVERNANCE_BLOCKED")
	}
	succeeded(t, w.callFor("ext-9", mediumWrite, m{"id": "other", "amount": 5000}, "other"))
}

// What a limit would have stopped is known before it is enforced, and a limit that cannot work says so.
func TestSimulationOfALimitCountsRecordedCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	succeeded(t, w.callFor("c1", mediumWrite, m{"id": "first", "amount": 3000}, "first"))
	succeeded(t, w.callFor("c2", mediumWrite, m{"id": "other", "amount": 3000}, "other"))
	succeeded(t, w.callFor("c1", mediumWrite, m{"id": "over", "amount": 2000.01}, "over"))
	limit := with(rule("at most 5,000 an hour", "block", mediumWrite), m{"conditions": []m{windowOf(perCustomer, "greater", 5000)}})
	var got struct {
		Windows string
		Newly   struct {
			Blocked struct {
				Count   int
				Samples []struct {
					ExecutionID string `json:"execution_id"`
				}
			}
		}
	}
	w.User.Do(http.MethodPost, "/v1/policies/simulate", m{"policy": limit}).Data(t, &got)
	require.Equal(t, "counted", got.Windows)
	require.Equal(t, 1, got.Newly.Blocked.Count)
	require.Equal(t, "over", got.Newly.Blocked.Samples[0].ExecutionID)

	var made struct{ Warnings []struct{ Code string } }
	limit["conditions"] = []m{windowOf(with(perCustomer, m{"sum": "args.price"}), "greater", 5000)}
	w.User.Do(http.MethodPost, "/v1/policies", limit).Data(t, &made)
	require.Len(t, made.Warnings, 2)
	require.Equal(t, "loosens_by_callers_word", made.Warnings[0].Code, "a caller chooses the customer")
	require.Equal(t, "window_unreachable", made.Warnings[1].Code)
}

// A limit in shadow mode stops nothing. It says of each call what it would have done, and its coverage
// counts that.
func TestShadowLimitIsReportedNotApplied(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	shadow := with(rule("at most 5,000 an hour", "block", mediumWrite), m{"mode": "shadow", "conditions": []m{windowOf(perCustomer, "greater", 5000)}})
	watched := w.policy(shadow)
	w.policy(with(rule("more than 8,000 needs approval", "require_approval", mediumWrite), m{"conditions": []m{windowOf(perCustomer, "greater", 8000)}}))
	evaluate := func(amount any) evaluated {
		var e evaluated
		w.Runtime.Do(http.MethodPost, "/v1/runtime/governance/evaluate",
			m{"verb": mediumWrite, "args": m{"amount": amount}, "metadata": m{"customer_id": "c1"}}).Data(t, &e)
		return e
	}
	// decided returns what the audit record of a call's decision says.
	decided := func(call string) (decision, shadow string, policies []string) {
		t.Helper()
		first := w.audit("execution_id=" + call)[0]
		var details struct {
			ShadowDecision string `json:"shadow_decision"`
			Policies       []struct {
				Name string `json:"policy_name"`
				Mode string
			}
		}
		require.NoError(t, json.Unmarshal(first.Details, &details))
		for _, p := range details.Policies {
			policies = append(policies, p.Mode+" "+p.Name)
		}
		return first.Decision, details.ShadowDecision, policies
	}
	pay := func(customer, call string) rig.Answer {
		return w.callFor(customer, mediumWrite, m{"id": call, "amount": 3000}, call)
	}

	succeeded(t, pay("c1", "under"))
	decision, would, policies := decided("under")
	require.Equal(t, "allow", decision)
	require.Empty(t, would, "the same")
	require.Empty(t, policies)

	require.Equal(t, "allow", evaluate(2000).Details.ShadowDecision)
	e := evaluate(2000.01)
	require.Equal(t, "allow", e.Decision)
	require.Equal(t, "block", e.Details.ShadowDecision)

	succeeded(t, pay("c1", "over"))
	require.Len(t, w.bank.of("over"), 1)
	decision, would, policies = decided("over")
	require.Equal(t, "allow", decision)
	require.Equal(t, "block", would)
	require.Equal(t, []string{"shadow at most 5,000 an hour"}, policies)

	w.hold(mediumWrite, m{"id": "nobody", "amount": 3000}, "nobody")
	refused(t, pay("c1", "held"), http.StatusForbidden, "GOVERNANCE_BLOCKED")
	decision, would, policies = decided("held")
	require.Equal(t, "pending_approval", decision)
	require.Equal(t, "block", would)
	require.ElementsMatch(t, []string{"shadow at most 5,000 an hour", "enforce more than 8,000 needs approval"}, policies)
	succeeded(t, pay("c2", "other"))

	var covered struct {
		Runs, Matched, Decided int
		ByDecision             map[string]int `json:"by_decision"`
		WouldHave              map[string]int `json:"would_have"`
	}
	w.User.Do(http.MethodGet, "/v1/policies/"+watched+"/coverage", nil).Data(t, &covered)
	require.Equal(t, 5, covered.Runs)
	require.Equal(t, 3, covered.Matched, "over, held, and in doubt the one of no customer")
	require.Zero(t, covered.Decided)
	require.Equal(t, map[string]int{"allow": 1, "pending_approval": 2, "block": 0}, covered.ByDecision)
	require.Equal(t, map[string]int{"allow": 0, "pending_approval": 0, "block": 3}, covered.WouldHave)

	// Once it is enforced, it counts what it has watched.
	require.Equal(t, http.StatusOK, w.User.ReplacePolicy(watched, with(shadow, m{"mode": "enforce"})).Status)
	refused(t, w.callFor("c1", mediumWrite, m{"id": "enforced", "amount": 0.01}, "enforced"), http.StatusForbidden, "GOVERNANCE_BLOCKED")
	require.Empty(t, w.bank.of("enforced"))
}

// Three calls of 2,000 at once under a limit of 5,000, over two processes: exactly two pass. Of those
// for one order exactly one does.
func TestCallsAtOnceNeverExceedAWindow(t *testing.T) {
	t.Parallel()
	windowRounds(t, 30)
}

// windowRounds has calls made at once over two API processes, for a customer and an order of their
// own in each round.
func windowRounds(t *testing.T, rounds int) {
	t.Helper()
	first := rig.Split(t, rig.SplitOptions{Env: []string{"LOG_LEVEL=warn"}})
	w := emptyWorld(t, first)
	w.leaves = true
	w.connect(bankPaths())
	there := *w
	there.Tenant = &rig.Tenant{Runtime: &rig.Client{Base: first.StartAPI("second").APIURL, Key: w.Runtime.Key, HTTP: rig.NewHTTP()}}
	processes := []*world{w, &there}
	w.limitFor("at most 5,000 an hour", windowOf(perCustomer, "greater", 5000))
	w.policy(with(rule("once per order", "block", lowWrite), m{"conditions": []m{
		windowOf(m{"by": "args.note", "per": "90d", "count": true}, "greater", 1),
	}}))
	problems := make([]string, 2*rounds)
	race := func(i, n, pass int, verb string, args m) (problem string) {
		calls := make([]func() rig.Answer, n)
		for c := range calls {
			id := fmt.Sprintf("%s-%d-%d", verb, i, c)
			calls[c] = func() rig.Answer {
				return processes[(i+c)%2].callFor(fmt.Sprintf("customer-%d", i), verb, with(args, m{"id": id}), id)
			}
		}
		var told strings.Builder
		passed, blocked := 0, 0
		for _, a := range together(calls...) {
			fmt.Fprintf(&told, "%d %s %v\n", a.Status, a.Body, a.Err)
			switch {
			case a.Status == http.StatusOK:
				passed++
			case a.Status == http.StatusForbidden && strings.Contains(string(a.Body), "GOVERNANCE_BLOCKED"):
				blocked++
			}
		}
		if passed == pass && passed+blocked == n {
			return ""
		}
		return fmt.Sprintf("round %d of %s:\n%s", i, verb, told.String())
	}
	inLine(rounds, 4, func(i int) {
		problems[2*i] = race(i, 3, 2, mediumWrite, m{"amount": 2000})
		problems[2*i+1] = race(i, 4, 1, lowWrite, m{"note": fmt.Sprintf("order-%d", i)})
	})
	require.Empty(t, strings.Join(problems, ""))
	require.Equal(t, 3*rounds, w.bank.effects())
	require.Empty(t, w.unapproved())
}

// Which calls a window counts may be written as one matcher, or as all and except. A wrong one is refused
// where it stands.
func TestWindowCountsWhatAnObjectSays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ written, answered any }{
		"one matcher":    {m{"provider": slug, "operation_type": "write", "risk_level": "low"}, []any{m{"provider": slug, "operation_type": "write", "risk_level": "low"}}},
		"all and except": {m{"all": []m{{"provider": slug}, {"operation_type": "write"}}, "except": []m{{"verb": mediumWrite}}}, m{"all": []any{m{"provider": slug}, m{"operation_type": "write"}}, "except": []any{m{"verb": mediumWrite}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			id := w.policy(with(rule("verify first", "block", mediumWrite), m{"conditions": []m{windowOf(m{"by": "session.id", "per": "1d", "count": true, "matching": c.written}, "equals", 0)}}))
			var p struct {
				Conditions []struct {
					Window struct{ Matching any }
				}
			}
			w.User.Do(http.MethodGet, "/v1/policies/"+id, nil).Data(t, &p)
			require.Equal(t, c.answered, p.Conditions[0].Window.Matching)
			call := func(verb, call string) rig.Answer {
				return w.send(m{"verb": verb, "args": m{"id": call}, "execution_id": call, "session_id": "s1"})
			}
			refused(t, call(mediumWrite, "early"), http.StatusForbidden, "GOVERNANCE_BLOCKED")
			succeeded(t, call(lowRead, "look"))
			refused(t, call(mediumWrite, "still-early"), http.StatusForbidden, "GOVERNANCE_BLOCKED")
			succeeded(t, call(lowWrite, "verify"))
			succeeded(t, call(mediumWrite, "then"))
		})
	}
	w := newWorld(t)
	for where, wrong := range map[string]any{
		"":                     m{"provider": slug, "all": []m{}},
		"/provider":            m{"provider": "No Slug"},
		"/except/0/risk_level": m{"except": []m{{"risk_level": "huge"}}},
		"/0/value":             []m{{"type": "verb", "value": "No verb"}},
		"/type":                m{},
	} {
		a := w.User.Do(http.MethodPost, "/v1/policies", with(rule("wrong", "block", mediumWrite), m{"conditions": []m{windowOf(m{"by": "session.id", "per": "1d", "count": true, "matching": wrong}, "equals", 0)}}))
		require.Equal(t, http.StatusBadRequest, a.Status, "%s", a.Body)
		require.Contains(t, string(a.Body), `"path":"/conditions/0/window/matching`+where+`"`)
	}
}

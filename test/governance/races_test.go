package governance

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// together makes all calls at once and returns their answers in order.
func together(calls ...func() rig.Answer) []rig.Answer {
	answers := make([]rig.Answer, len(calls))
	var gate, all sync.WaitGroup
	gate.Add(1)
	for i, call := range calls {
		all.Go(func() {
			gate.Wait()
			answers[i] = call()
		})
	}
	gate.Done()
	all.Wait()
	return answers
}

// inLine runs f for 0 to n-1, some at a time.
func inLine(n, atATime int, f func(i int)) {
	var all sync.WaitGroup
	next := make(chan int)
	for range atATime {
		all.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
}

func succeededOf(answers []rig.Answer) (n int) {
	for _, a := range answers {
		if a.Status == http.StatusOK {
			n++
		}
	}
	return n
}

// TestApprovalAndRejectionAtOnceOneCounts decides a hundred approvals both ways at the
// same time.
func TestApprovalAndRejectionAtOnceOneCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.gate(highWrite)
	approver, _ := w.member("approver")
	const rounds = 100
	ids := make([]string, rounds)
	inLine(rounds, 10, func(i int) {
		call := fmt.Sprintf("round-%d", i)
		held := w.hold(highWrite, m{"id": call}, call)
		ids[i] = held
		answers := together(
			func() rig.Answer { return w.approve(held) },
			func() rig.Answer { return approver.Decide(held, "reject", nil) },
		)
		require.Equal(t, 1, succeededOf(answers), "%s %s", answers[0].Body, answers[1].Body)
	})
	approved := 0
	for i, held := range ids {
		call := fmt.Sprintf("round-%d", i)
		a := w.approval(held)
		require.Len(t, a.Decisions, 1)
		switch a.Status {
		case "approved":
			approved++
			w.awaitStatus(call, "executed")
			require.Len(t, w.bank.of(call), 1)
		default:
			require.Equal(t, "rejected", a.Status)
			require.Equal(t, "rejected", w.status(call))
			require.Empty(t, w.bank.of(call))
		}
	}
	require.Equal(t, approved, w.bank.effects())
	t.Logf("approved %d of %d", approved, rounds)
}

func TestTwoApprovalsAtOnceOneCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.gate(highWrite)
	w.policy(with(rule("two", "require_approval", highOther), m{"approval": m{"required": 2}}))
	first, _ := w.member("approver")
	second, _ := w.member("admin")
	const rounds = 10
	inLine(rounds, 5, func(i int) {
		call := fmt.Sprintf("one-%d", i)
		held := w.hold(highWrite, m{"id": call}, call)
		answers := together(
			func() rig.Answer { return first.Decide(held, "approve", nil) },
			func() rig.Answer { return second.Decide(held, "approve", nil) },
			func() rig.Answer { return first.Decide(held, "approve", nil) },
		)
		require.Equal(t, 1, succeededOf(answers))
		require.Len(t, w.approval(held).Decisions, 1)
		w.awaitStatus(call, "executed")
		require.Len(t, w.bank.of(call), 1)
	})
	inLine(rounds, 5, func(i int) {
		call := fmt.Sprintf("two-%d", i)
		held := w.hold(highOther, m{"id": call}, call)
		// One who says it twice at once is still one.
		answers := together(
			func() rig.Answer { return first.Decide(held, "approve", nil) },
			func() rig.Answer { return first.Decide(held, "approve", nil) },
		)
		require.Equal(t, 1, succeededOf(answers))
		require.Empty(t, w.bank.of(call))
		require.Equal(t, http.StatusOK, second.Decide(held, "approve", nil).Status)
		w.awaitStatus(call, "executed")
		require.Len(t, w.bank.of(call), 1)
	})
	// Many, for the second often comes while the first is being looked at.
	inLine(10*rounds, 8, func(i int) {
		call := fmt.Sprintf("both-%d", i)
		held := w.hold(highOther, m{"id": call}, call)
		answers := together(
			func() rig.Answer { return first.Decide(held, "approve", nil) },
			func() rig.Answer { return second.Decide(held, "approve", nil) },
		)
		require.Equal(t, 2, succeededOf(answers))
		w.awaitStatus(call, "executed")
		require.Len(t, w.bank.of(call), 1)
	})
}

// TestApprovalRacingTheCallsEndIsConsistent approves while the call is cancelled, its
// key is revoked or its policy changes. The call is sent once or not at all, and the
// approval says so.
func TestApprovalRacingTheCallsEndIsConsistent(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(w *world, policyID, execution string) rig.Answer{
		"cancelled": func(w *world, _, execution string) rig.Answer {
			return w.Runtime.Do(http.MethodPost, "/v1/executions/"+execution+"/cancel", nil)
		},
		"the key revoked": func(w *world, _, _ string) rig.Answer {
			return w.User.Do(http.MethodDelete, "/v1/api-keys/"+w.RuntimeKeyID, nil)
		},
		"the policy deleted": func(w *world, policyID, _ string) rig.Answer {
			return w.User.Do(http.MethodDelete, "/v1/policies/"+policyID, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 3 {
				w, policyID, held, execution := heldWorld(t)
				together(
					func() rig.Answer { return w.approve(held) },
					func() rig.Answer { return end(w, policyID, execution) },
				)
				rig.Until(t, limit, "the run has ended", func() bool {
					s := w.status(execution)
					return s != "pending_approval" && s != "running"
				})
				require.NotEqual(t, "pending", w.approval(held).Status)
				executed := 0
				if w.status(execution) == "executed" {
					executed = 1
					require.Equal(t, "approved", w.approval(held).Status)
				}
				require.Equal(t, executed, w.bank.effects())
			}
		})
	}
}

// TestHeldCallRepeatedDuringApprovalIsSentOnce repeats a held call from many sides while it is
// approved.
func TestHeldCallRepeatedDuringApprovalIsSentOnce(t *testing.T) {
	t.Parallel()
	w, _, held, execution := heldWorld(t)
	calls := []func() rig.Answer{func() rig.Answer { return w.approve(held) }}
	var callers rig.Callers
	for range 30 {
		calls = append(calls, func() rig.Answer {
			return callers.Settled(func() rig.Answer { return w.Runtime.Run(highWrite, callArgs(), execution) })
		})
	}
	for _, a := range together(calls...)[1:] {
		require.Contains(t, []int{http.StatusOK, http.StatusForbidden}, a.Status, "%s", a.Body)
	}
	callers.RepeatedFew(t)
	w.awaitStatus(execution, "executed")
	require.Equal(t, 1, w.bank.effects())
}

// TestEditRacingDecisionSendsWhatWasApproved edits a call while others approve, reject or cancel it: one
// of them counts, and what is sent is what was approved.
func TestEditRacingDecisionSendsWhatWasApproved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.gate(highWrite)
	editor, _ := w.member("approver")
	others := []func(held, call string) rig.Answer{
		func(held, _ string) rig.Answer { return w.approve(held) },
		func(held, _ string) rig.Answer { return w.reject(held) },
		func(_, call string) rig.Answer {
			return w.Runtime.Do(http.MethodPost, "/v1/executions/"+call+"/cancel", nil)
		},
		func(held, _ string) rig.Answer {
			return w.User.Decide(held, "approve", m{"edited_args": m{"id": "x", "amount": 3}})
		},
	}
	inLine(40, 8, func(i int) {
		call := fmt.Sprintf("edit-%d", i)
		held := w.hold(highWrite, m{"id": call, "amount": 1}, call)
		together(
			func() rig.Answer {
				return editor.Decide(held, "approve", m{"edited_args": m{"id": call, "amount": 2}})
			},
			func() rig.Answer { return others[i%len(others)](held, call) },
		)
		rig.Until(t, limit, call+" waits for nobody", func() bool {
			var waiting []approval
			w.User.Do(http.MethodGet, "/v1/approvals?status=pending&execution_id="+call, nil).Data(t, &waiting)
			for _, a := range waiting {
				together(func() rig.Answer { return w.approve(a.ID) }, func() rig.Answer { return editor.Decide(a.ID, "approve", nil) })
			}
			return w.status(call) != "pending_approval"
		})
		rig.Until(t, limit, call+" has ended", func() bool { return w.status(call) != "running" })
		require.LessOrEqual(t, len(w.bank.of(call)), 1)
		require.Contains(t, []string{"executed", "rejected", "cancelled"}, w.status(call))
	})
}

// TestDecisionsRacingEverythingAreNeverAnsweredUnavailable approves, rejects, edits, cancels
// and repeats one held call at once. Each is counted or refused: a lost race is a conflict.
func TestDecisionsRacingEverythingAreNeverAnsweredUnavailable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.gate(highWrite)
	other, _ := w.member("approver")
	inLine(40, 4, func(i int) {
		call := fmt.Sprintf("all-%d", i)
		held := w.hold(highWrite, m{"id": call, "amount": 1}, call)
		answers := together(
			func() rig.Answer { return w.approve(held) },
			func() rig.Answer { return w.reject(held) },
			func() rig.Answer { return other.Decide(held, "approve", m{"edited_args": m{"id": call, "amount": 2}}) },
			func() rig.Answer {
				return w.Runtime.Do(http.MethodPost, "/v1/executions/"+call+"/cancel", nil)
			},
			func() rig.Answer { return w.Runtime.Run(highWrite, m{"id": call, "amount": 1}, call) },
		)
		for n, a := range answers {
			require.Contains(t, []int{http.StatusOK, http.StatusForbidden, http.StatusConflict}, a.Status, "%s, caller %d: %s", call, n, a.Body)
		}
		require.LessOrEqual(t, len(w.bank.of(call)), 1)
	})
}

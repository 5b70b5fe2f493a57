package run

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"agentruntime/internal/base/attempt"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/providererror"
	"agentruntime/internal/provider/resultnote"
)

// Answer is the result of one attempt at the provider. It contains no secret.
type Answer struct {
	Phase attempt.Phase
	// Cause says why nothing left; "" for any other phase.
	Cause attempt.Cause
	// Status is the HTTP status; 0 where none came back.
	Status int
	// Result is the provider's answer as an object; nil where it was not understood
	// or did not arrive whole. Note.Error says then why.
	Result json.RawMessage
	// Wrapped is the member under which Result has an answer that was no object: text, another JSON
	// value, a file. It is "" where the object is the provider's own.
	Wrapped string
	// Note is what is kept beside the result.
	Note resultnote.Note
	// File is the stored file that Result names; nil where it names none.
	File *uuid.UUID
	// Denied: the verb declares that such an answer is an error, whatever its status. Where Problem is set,
	// it says why that could not be found out.
	Denied bool
	// Problem says in a few words what was wrong with the answer ("the response is
	// larger than 4 MiB"); "" where nothing was.
	Problem string
	// Complete: the whole body arrived.
	Complete bool
	// Timeout: the attempt ended because its time was over.
	Timeout bool
	// RetryAfter is how long the provider asks to wait; 0 where it does not say.
	RetryAfter time.Duration
	// Said is the answer as Target.Words reads it, where one came. Its body is not read after Free.
	Said providererror.Answer
	// Free gives the memory of a large answer back once its outcome is recorded; nil where
	// there is nothing to give back.
	Free func()
}

func (a Answer) free() {
	if a.Free != nil {
		a.Free()
	}
}

// settlement is what follows from an answer: an end, or another attempt after a wait.
type settlement struct {
	end   ending
	again bool
	after time.Duration
	// harmless: the attempt provably had no effect. lost: its answer was lost, or is that of a
	// gateway, so that even the provider has not said what happened.
	harmless, lost bool
}

// history is what is known of the earlier attempts of a write. Of a read nothing is.
type history struct {
	// maybeSent: one of them was not harmless.
	maybeSent bool
	// inDoubt: the answer of one of them was lost.
	inDoubt bool
}

// Waits between attempts: doubled from backoffFirst, at most backoffMost. Where the
// provider answers with a Retry-After, that is the wait.
const (
	backoffFirst = 200 * time.Millisecond
	backoffMost  = 5 * time.Second
	// backoffAlone is backoffMost where nobody waits for the answer.
	backoffAlone = time.Minute
	// maxSends is the most attempts of one run. Attempts that provably had no effect count
	// only while the caller waits.
	maxSends = 5
)

func (t span) longest() time.Duration {
	if t.nobodyWaits {
		return backoffAlone
	}
	return backoffMost
}

// nature is what a verb says about sending a call of it twice.
type nature struct {
	op verb.Operation
	// resend: a call that may have been sent may be sent again without a second effect.
	resend bool
	// keyed: the provider recognizes the repeat by an idempotency key.
	keyed bool
}

func natureOf(t Target) nature {
	return nature{op: t.Operation(), resend: mayResend(t), keyed: t.Idempotency().Header() != ""}
}

// settle returns what an answer means for the run. sends is the number of attempts so far,
// and time what is left for more. The rule: an effect is never risked twice, what is not known
// is called unknown, and no write that may have taken effect is called failed.
func settle(n nature, a Answer, sends int, before history, time span) settlement {
	wait := a.RetryAfter
	if wait <= 0 {
		wait = min(backoffFirst<<max(0, min(sends-1, 10)), time.longest())
	}
	canWait := sends < maxSends && wait < time.left
	// What had no effect costs only time.
	canTry := (sends < maxSends || time.nobodyWaits) && wait < time.left
	switch {
	case a.Phase == attempt.NotSent && canTry:
		return settlement{again: true, after: wait, harmless: true}
	case a.Phase == attempt.NotSent && before.maybeSent:
		// This attempt did not leave, but one before it may have.
		return unknown(a)
	case a.Phase == attempt.NotSent:
		return unsent(notReached(a), a)
	case a.Phase != attempt.Answered: // an unknown phase is the worst of them
		return settleUnanswered(n, a, canWait, wait)
	case a.Status == http.StatusTooManyRequests:
		// A refusal: the provider did nothing.
		if canTry {
			return settlement{again: true, after: wait, harmless: true}
		}
		if before.maybeSent {
			return unknown(a)
		}
		f := fault.New(fault.CodeProviderRejected, "The provider's rate limit refused the call (429).")
		f.Retryable, f.RetryAfter = true, a.RetryAfter
		return unsent(f, a)
	case a.Status >= 200 && a.Status < 300:
		return settleSuccess(n, a, canWait, wait)
	case before.maybeSent && n.keyed && canWait && (a.Status == http.StatusConflict || a.Status == http.StatusTooEarly):
		// The provider is still at work on the earlier attempt with this key.
		return settlement{again: true, after: wait}
	case a.Status >= 500 && n.resend && canWait:
		return settlement{again: true, after: wait, lost: mayHaveActed(a.Status)}
	case n.op == verb.Write && mayHaveActed(a.Status), before.inDoubt, before.maybeSent && a.Status < 500:
		// What is gone already, or refused now, may be the effect of an earlier attempt. A
		// provider that has always said that it failed is believed.
		return unknown(a)
	default:
		return settleRefusal(a)
	}
}

// mayHaveActed reports whether a write may have taken effect although it was answered so. A
// gateway answers 502 and 504, at Cloudflare also 520 and 524, where it lost the answer of the
// server behind it. 303 is the answer to a request that was carried out (RFC 9110, 15.4.4).
// Any other 5xx is the provider's own word that it failed.
func mayHaveActed(status int) bool {
	switch status {
	case http.StatusSeeOther, http.StatusBadGateway, http.StatusGatewayTimeout, 520, 524:
		return true
	default:
		return false
	}
}

// settleRefusal is settle for a final answer that is no success.
func settleRefusal(a Answer) settlement {
	switch {
	case a.Status >= 400 && a.Status < 500:
		s := failed(fault.Newf(fault.CodeProviderRejected, "The provider refused the call (%d).", a.Status), a)
		s.end.result = a.Result
		s.end.retryable = a.Status == http.StatusRequestTimeout || a.Status == http.StatusConflict || a.Status == http.StatusLocked
		return s
	case a.Status >= 500:
		s := failed(fault.Newf(fault.CodeProviderError, "The provider failed (%d).", a.Status), a)
		s.end.result = a.Result
		return s
	default:
		return failed(fault.Newf(fault.CodeProviderError, "The provider answered with a redirect (%d), which is not followed.", a.Status), a)
	}
}

// settleUnanswered is settle for a request that may have left and got no status.
func settleUnanswered(n nature, a Answer, canWait bool, wait time.Duration) settlement {
	switch {
	case n.resend && canWait:
		return settlement{again: true, after: wait, lost: true}
	case n.op == verb.Write:
		return unknown(a)
	case a.Timeout:
		return failed(fault.New(fault.CodeProviderTimeout, ""), a)
	default:
		return failed(fault.New(fault.CodeProviderError, "The provider closed the connection without an answer."), a)
	}
}

// settleSuccess is settle for a 2xx. A write has happened, also where its answer is of no use: it is
// not sent again for the answer's sake. Only what the verb declares an error leaves it unknown.
func settleSuccess(n nature, a Answer, canWait bool, wait time.Duration) settlement {
	executed := settlement{end: ending{state: StateExecuted, status: a.Status, result: a.Result, note: a.Note, file: a.File}}
	switch {
	case a.Denied && n.op == verb.Write:
		s := unknown(a)
		s.end.message = denied(a) + " The call may have taken effect. " + howToSettle
		return s
	case a.Denied:
		s := failed(fault.New(fault.CodeProviderError, denied(a)), a)
		s.end.result = a.Result
		return s
	case a.Result != nil:
		return executed
	case n.op == verb.Write, a.Note.Error.Ours():
		executed.end.result = json.RawMessage("null")
		return executed
	case !a.Complete && canWait:
		return settlement{again: true, after: wait, lost: true}
	default:
		return failed(fault.Newf(fault.CodeProviderError, "The provider's answer was not understood: %s.", a.Problem), a)
	}
}

// denied says that a 2xx is an error.
func denied(a Answer) string {
	if a.Problem != "" {
		return fmt.Sprintf("The provider answered %d, and whether that is an error is not known: %s.", a.Status, a.Problem)
	}
	return fmt.Sprintf("The provider answered %d, and its verb declares such an answer an error (error_when).", a.Status)
}

// unknown returns the end of a write that may have taken effect. It keeps what the provider
// answered last.
func unknown(a Answer) settlement {
	code, message := unknownOutcome()
	if a.Phase == attempt.Answered && (a.Status < 200 || a.Status >= 300) {
		message = fmt.Sprintf("The provider's last answer was %d, but the call may have taken effect. ", a.Status) + howToSettle
	}
	if a.Problem != "" {
		message += " (" + a.Problem + ".)"
	}
	return settlement{end: ending{state: StateOutcomeUnknown, code: code, message: message, status: a.Status, result: a.Result}}
}

func failed(f *fault.Error, a Answer) settlement {
	return settlement{end: ending{
		state: StateFailed, code: f.Code, message: f.Message, status: a.Status, retryable: f.Retryable, retryAfter: a.RetryAfter,
	}}
}

// unsent returns the end of a call that provably had no effect: it never left, or the
// provider's rate limit refused it. The same id may run again.
func unsent(f *fault.Error, a Answer) settlement {
	return settlement{end: ending{
		state: StateRefused, fromSending: true, code: f.Code, message: f.Message, status: a.Status,
		retryable: f.Retryable, retryAfter: f.RetryAfter,
	}}
}

// notReached returns the refusal of a call that never left.
func notReached(a Answer) *fault.Error {
	code := fault.CodeProviderError
	if a.Timeout {
		code = fault.CodeProviderTimeout
	}
	f := fault.Newf(code, "The provider could not be reached. Nothing was sent: %s.", a.Problem)
	f.Retryable = true
	return f
}

package circuit

import (
	"strconv"

	"agentruntime/internal/base/attempt"
	"agentruntime/internal/base/verb"
)

// Attempt is what is known of an attempt at a provider.
type Attempt struct {
	Phase attempt.Phase
	// Cause says why nothing left; "" for any other phase.
	Cause attempt.Cause
	// Status is the HTTP status, 0 where none came back.
	Status int
	// Complete: the whole body arrived. Timeout: the attempt ended because its time was over.
	Complete, Timeout bool
}

// Verdict is what an attempt says of its provider.
type Verdict string

// The verdicts.
const (
	// Succeeded: the provider answered. A refusal (4xx) is an answer.
	Succeeded Verdict = "succeeded"
	// Failed: the provider could not be reached, failed, or left a read without an answer.
	Failed Verdict = "failed"
	// Unclear: it says nothing of the provider, or nobody knows what.
	Unclear Verdict = "unclear"
)

// Kinds of failures besides those of attempt.Cause and "http_" with a 5xx status.
const (
	kindTimeout  = "timeout"
	kindNoAnswer = "no_answer"
	kindCutOff   = "answer_cut_off"
)

// Judge returns what an attempt of a call says of its provider, and the kind of its failure; "" for
// the others.
//
// A write that was sent and not answered is unclear: it may have taken effect, and where providers
// do slow work this is how it looks. Reads and connections show soon whether the provider is gone.
func Judge(op verb.Operation, a Attempt) (v Verdict, kind string) {
	switch {
	case a.Phase == attempt.NotSent && a.Cause.OfProvider():
		return Failed, string(a.Cause)
	case a.Phase == attempt.NotSent:
		return Unclear, ""
	case a.Phase == attempt.Answered && a.Status >= 500:
		return Failed, "http_" + strconv.Itoa(a.Status)
	case a.Phase == attempt.Answered && (a.Complete || a.Status < 200 || a.Status > 299):
		return Succeeded, ""
	case op != verb.Read:
		return Unclear, ""
	case a.Timeout:
		return Failed, kindTimeout
	case a.Phase == attempt.Answered:
		return Failed, kindCutOff
	default:
		return Failed, kindNoAnswer
	}
}

package run

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/attempt"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/resultnote"
)

func TestSettle(t *testing.T) {
	t.Parallel()
	body := json.RawMessage(`{"id":1}`)
	const again = State("again")
	type call struct {
		nature
		sends  int
		before history
		time   span
	}
	plain := nature{op: verb.Write}
	lost := history{maybeSent: true, inDoubt: true}
	read := call{nature{verb.Read, true, false}, 1, history{}, span{left: time.Minute}}
	write := call{plain, 1, history{}, span{left: time.Minute}}
	keyed := call{nature{verb.Write, true, true}, 1, history{}, span{left: time.Minute}}
	intrinsic := call{nature{verb.Write, true, false}, 1, history{}, span{left: time.Minute}}
	second := func(c call) call { c.sends, c.before = 2, lost; return c }
	alone := func(c call) call { c.sends, c.time.nobodyWaits = maxSends, true; return c }
	last := func(c call) call { c.sends = maxSends; return c }
	afterOne := func(c call) call { c.sends, c.before = maxSends, lost; return c }
	said := func(c call) call { c.sends, c.before = maxSends, history{maybeSent: true}; return c }
	answered := func(status int, result json.RawMessage) Answer {
		return Answer{Phase: attempt.Answered, Status: status, Result: result, Complete: true}
	}
	cut := Answer{Phase: attempt.Answered, Status: 200, Problem: "the response broke off"}
	html := Answer{Phase: attempt.Answered, Status: 200, Complete: true, Problem: "not declared"}
	denied := Answer{Phase: attempt.Answered, Status: 200, Complete: true, Result: body, Denied: true}
	ours := Answer{Phase: attempt.Answered, Status: 200, Complete: true, Note: resultnote.Note{Error: resultnote.NewProblem(resultnote.OverQuota, "full")}}
	limited := Answer{Phase: attempt.Answered, Status: 429, Complete: true, RetryAfter: 2 * time.Second}

	for name, c := range map[string]struct {
		call  call
		in    Answer
		state State
		code  fault.Code
	}{
		"write, 200":                         {write, answered(200, body), StateExecuted, ""},
		"write, 204":                         {write, answered(204, json.RawMessage(`{"data":null}`)), StateExecuted, ""},
		"write, never left":                  {write, Answer{Phase: attempt.NotSent}, again, ""},
		"write, never left, alone":           {alone(write), Answer{Phase: attempt.NotSent}, again, ""},
		"write, 429, alone":                  {alone(write), limited, again, ""},
		"keyed, no answer, alone":            {alone(keyed), Answer{Phase: attempt.Sent}, StateOutcomeUnknown, fault.CodeOutcomeUnknown},
		"write, never left, last":            {last(write), Answer{Phase: attempt.NotSent}, StateRefused, fault.CodeProviderError},
		"write, never left, out of time":     {call{plain, 1, history{}, span{}}, Answer{Phase: attempt.NotSent, Timeout: true}, StateRefused, fault.CodeProviderTimeout},
		"keyed, none ever left":              {last(keyed), Answer{Phase: attempt.NotSent}, StateRefused, fault.CodeProviderError},
		"keyed, earlier one may have left":   {afterOne(keyed), Answer{Phase: attempt.NotSent}, StateOutcomeUnknown, fault.CodeOutcomeUnknown},
		"keyed, 429 after one that left":     {afterOne(keyed), limited, StateOutcomeUnknown, fault.CodeOutcomeUnknown},
		"keyed, 429, last":                   {last(keyed), limited, StateRefused, fault.CodeProviderRejected},
		"read, 429 after one that left":      {last(read), limited, StateRefused, fault.CodeProviderRejected},
		"write, no answer":                   {write, Answer{Phase: attempt.Sent}, StateOutcomeUnknown, fault.CodeOutcomeUnknown},
		"write, hangs":                       {write, Answer{Phase: attempt.Sent, Timeout: true}, StateOutcomeUnknown, fault.CodeOutcomeUnknown},
		"keyed, no answer":                   {keyed, Answer{Phase: attempt.Sent}, again, ""},
		"keyed, no answer, last":             {last(keyed), Answer{Phase: attempt.Sent}, StateOutcomeUnknown, fault.CodeOutcomeUnknown},
		"read, no answer":                    {read, Answer{Phase: attempt.Sent}, again, ""},
		"read, no answer, last":              {last(read), Answer{Phase: attempt.Sent}, StateFailed, fault.CodeProviderError},
		"read, hangs, last":                  {last(read), Answer{Phase: attempt.Sent, Timeout: true}, StateFailed, fault.CodeProviderTimeout},
		"write, cut body":                    {write, cut, StateExecuted, ""},
		"read, cut body":                     {read, cut, again, ""},
		"read, cut body, last":               {last(read), cut, StateFailed, fault.CodeProviderError},
		"write, wrong type":                  {write, html, StateExecuted, ""},
		"write, declared an error":           {write, denied, StateOutcomeUnknown, fault.CodeOutcomeUnknown},
		"keyed, declared an error":           {keyed, denied, StateOutcomeUnknown, fault.CodeOutcomeUnknown},
		"read, declared an error":            {read, denied, StateFailed, fault.CodeProviderError},
		"read, not kept by us":               {read, ours, StateExecuted, ""},
		"keyed, wrong type":                  {keyed, html, StateExecuted, ""},
		"keyed, cut body":                    {keyed, cut, StateExecuted, ""},
		"keyed, cut body, after a lost one":  {afterOne(keyed), cut, StateExecuted, ""},
		"read, wrong type":                   {read, html, StateFailed, fault.CodeProviderError},
		"write, 429":                         {write, limited, again, ""},
		"write, 429, out of time":            {call{plain, 1, history{}, span{left: time.Second}}, limited, StateRefused, fault.CodeProviderRejected},
		"write, 400":                         {write, answered(400, body), StateFailed, fault.CodeProviderRejected},
		"write, 500":                         {write, answered(500, body), StateFailed, fault.CodeProviderError},
		"read, 503":                          {read, answered(503, nil), again, ""},
		"read, 503, last":                    {last(read), answered(503, nil), StateFailed, fault.CodeProviderError},
		"intrinsic, 500 after a 500, last":   {said(intrinsic), answered(500, nil), StateFailed, fault.CodeProviderError},
		"intrinsic, 404 after a 500":         {said(intrinsic), answered(404, nil), StateOutcomeUnknown, fault.CodeOutcomeUnknown},
		"intrinsic, never left after a 500":  {said(intrinsic), Answer{Phase: attempt.NotSent}, StateOutcomeUnknown, fault.CodeOutcomeUnknown},
		"intrinsic, 429 after a 500, last":   {said(intrinsic), limited, StateOutcomeUnknown, fault.CodeOutcomeUnknown},
		"write, redirect":                    {write, answered(307, nil), StateFailed, fault.CodeProviderError},
		"write, 303":                         {write, answered(303, nil), StateOutcomeUnknown, fault.CodeOutcomeUnknown},
		"write, 502":                         {write, answered(502, body), StateOutcomeUnknown, fault.CodeOutcomeUnknown},
		"write, 504":                         {write, answered(504, nil), StateOutcomeUnknown, fault.CodeOutcomeUnknown},
		"write, 524":                         {write, answered(524, nil), StateOutcomeUnknown, fault.CodeOutcomeUnknown},
		"write, 503":                         {write, answered(503, nil), StateFailed, fault.CodeProviderError},
		"write, 409":                         {write, answered(409, nil), StateFailed, fault.CodeProviderRejected},
		"keyed, 409":                         {keyed, answered(409, nil), StateFailed, fault.CodeProviderRejected},
		"keyed, 409 after one that left":     {second(keyed), answered(409, nil), again, ""},
		"keyed, 425 after one that left":     {second(keyed), answered(425, nil), again, ""},
		"keyed, 409 after that, last":        {afterOne(keyed), answered(409, body), StateOutcomeUnknown, fault.CodeOutcomeUnknown},
		"keyed, 422 after one that left":     {second(keyed), answered(422, body), StateOutcomeUnknown, fault.CodeOutcomeUnknown},
		"intrinsic, 409 after one that left": {second(intrinsic), answered(409, nil), StateOutcomeUnknown, fault.CodeOutcomeUnknown},
		"intrinsic, 404 after one that left": {second(intrinsic), answered(404, nil), StateOutcomeUnknown, fault.CodeOutcomeUnknown},
		"intrinsic, 500 after one that left": {second(intrinsic), answered(500, nil), again, ""},
		"intrinsic, 500 after that, last":    {afterOne(intrinsic), answered(500, nil), StateOutcomeUnknown, fault.CodeOutcomeUnknown},
		"intrinsic, 307 after one that left": {afterOne(intrinsic), answered(307, nil), StateOutcomeUnknown, fault.CodeOutcomeUnknown},
		"intrinsic, 200 after one that left": {afterOne(intrinsic), answered(200, body), StateExecuted, ""},
		"intrinsic, 404":                     {intrinsic, answered(404, nil), StateFailed, fault.CodeProviderRejected},
		"intrinsic, 500, last":               {last(intrinsic), answered(500, nil), StateFailed, fault.CodeProviderError},
		"intrinsic, 504, last":               {last(intrinsic), answered(504, nil), StateOutcomeUnknown, fault.CodeOutcomeUnknown},
		"read, 404 after one that left":      {read, answered(404, nil), StateFailed, fault.CodeProviderRejected},
		"read, 504, last":                    {last(read), answered(504, nil), StateFailed, fault.CodeProviderError},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := settle(c.call.nature, c.in, c.call.sends, c.call.before, c.call.time)
			if c.state == again {
				require.True(t, s.again)
				require.Positive(t, s.after)
				return
			}
			require.False(t, s.again)
			require.Equal(t, c.state, s.end.state)
			require.Equal(t, c.code, s.end.code)
		})
	}
}

// After any answer, a write that may not be repeated is sent again only where the provider
// provably did nothing.
func TestSettleNeverRisksASecondEffect(t *testing.T) {
	t.Parallel()
	for _, phase := range []attempt.Phase{attempt.NotSent, attempt.Sent, attempt.Answered} {
		for status := range 600 {
			for _, complete := range []bool{true, false} {
				a := Answer{Phase: phase, Status: status, Complete: complete}
				if s := settle(nature{op: verb.Write}, a, 1, history{}, span{left: time.Hour}); s.again {
					require.True(t, phase == attempt.NotSent || phase == attempt.Answered && status == 429, "phase %d status %d", phase, status)
				}
			}
		}
	}
}

// A write of which an attempt may have had its effect is never called failed, and its id is
// never free, whatever is answered later.
func TestSettleNeverCallsAWriteFailedThatMayHaveHappened(t *testing.T) {
	t.Parallel()
	for _, n := range []nature{{verb.Write, false, false}, {verb.Write, true, false}, {verb.Write, true, true}} {
		for _, phase := range []attempt.Phase{attempt.NotSent, attempt.Sent, attempt.Answered} {
			for status := 200; status < 600; status++ {
				for sends := 2; sends <= maxSends; sends++ {
					s := settle(n, Answer{Phase: phase, Status: status, Complete: true}, sends, history{maybeSent: true, inDoubt: true}, span{left: time.Hour})
					accepted := phase == attempt.Answered && status < 300
					require.True(t, s.again || s.end.state == StateOutcomeUnknown || accepted && s.end.state == StateExecuted, "phase %d status %d: %s", phase, status, s.end.state)
				}
			}
		}
	}
}

// Every retry after an answer counts as one that may have been sent; only what the provider
// itself did not say is in doubt.
func TestSettleRemembersWhatMayHaveHappened(t *testing.T) {
	t.Parallel()
	n := nature{verb.Write, true, false}
	for status, lost := range map[int]bool{500: false, 503: false, 502: true, 504: true, 520: true, 524: true} {
		s := settle(n, Answer{Phase: attempt.Answered, Status: status}, 1, history{}, span{left: time.Hour})
		require.True(t, s.again)
		require.False(t, s.harmless)
		require.Equal(t, lost, s.lost, status)
	}
}

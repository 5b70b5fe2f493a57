package api

import (
	"context"
	"time"

	"agentruntime/api/wire"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/share"
)

// Bounds of the bodies of calls in memory. The arguments of a call are there until it is
// answered, in several copies. A body up to freeBody is not counted: a process has at most
// MAX_CONNECTIONS of them.
const (
	freeBody = 64 << 10
	bodyUnit = 64 << 10 // bytes of one place
	// bodiesMost and bodiesOfTenant are how many bytes of larger bodies a process takes at
	// once, from all and from one tenant.
	bodiesMost     = 32 << 20
	bodiesOfTenant = 8 << 20
	bodiesWait     = 10 * time.Second
)

// Bounds of large answers in memory, from when the run is read until the caller has taken them.
const (
	answersMost     = 64 << 20
	answersOfTenant = 16 << 20
	// answersWaiting is how many of a tenant wait for room. Those of a call that has just ended
	// have their results in memory.
	answersWaiting = 8
)

// newAnswers divides the memory for answers among tenants.
func newAnswers() *share.Pool {
	return share.New(share.Limits{
		Total: answersMost / bodyUnit, PerOwner: answersOfTenant / bodyUnit, PerPart: answersOfTenant / bodyUnit,
		Waiting: 64 * answersWaiting, WaitingPerOwner: answersWaiting,
	})
}

// answerRoom is the room of one call for the run that it reads and answers.
type answerRoom struct {
	answers *share.Pool
	c       *wire.Call
	taken   bool
}

// take waits until there is room for the texts of a run, in bytes. The call gives it back when
// it was answered. A call takes room once: it would otherwise wait for room that others keep
// who wait too. SERVICE_UNAVAILABLE where the wait would be too long: the result stays stored.
func (a *answerRoom) take(ctx context.Context, executionID string, size int) error {
	if size <= freeBody || a.taken {
		return nil
	}
	waiting, cancel := context.WithTimeout(ctx, bodiesWait)
	defer cancel()
	leave, err := a.answers.TakeSome(waiting, a.c.Actor.TenantID.String(), "", (size+bodyUnit-1)/bodyUnit)
	if err == nil {
		a.taken = true
		a.c.After(leave)
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	f := fault.New(fault.CodeServiceUnavailable, "The run has its result, and your tenant reads many large results at once. Read it later: repeat the call with this execution_id, or read the execution.").Because(err)
	f.ExecutionID, f.Retryable, f.RetryAfter = executionID, true, bodiesWait
	return f
}

// newBodies divides the memory for bodies among tenants.
func newBodies() *share.Pool {
	return share.New(share.Limits{
		Total: bodiesMost / bodyUnit, PerOwner: bodiesOfTenant / bodyUnit, PerPart: bodiesOfTenant / bodyUnit,
		Waiting: 4096, WaitingPerOwner: 256,
	})
}

// roomFor waits until there is room for the body of the call, and returns what gives it back.
// SERVICE_UNAVAILABLE where the wait would be too long.
func (s *Server) roomFor(ctx context.Context, c *wire.Call, limit int64) (leave func(), err error) {
	size := c.Request.ContentLength
	if size < 0 || size > limit {
		size = limit
	}
	if size <= freeBody {
		return func() {}, nil
	}
	waiting, cancel := context.WithTimeout(ctx, bodiesWait)
	defer cancel()
	leave, err = s.bodies.TakeSome(waiting, c.Actor.TenantID.String(), "", int((size+bodyUnit-1)/bodyUnit))
	if err == nil || ctx.Err() != nil {
		return leave, err
	}
	// A caller that still writes does not read the answer before it has written all.
	c.SkipBody(limit)
	f := fault.New(fault.CodeServiceUnavailable, "Your tenant has many large calls under way. Nothing was done. Repeat the call later.").Because(err)
	f.Retryable, f.RetryAfter = true, bodiesWait
	return nil, f
}

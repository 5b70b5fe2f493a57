package api

import (
	"context"
	"time"

	"agentruntime/api/wire"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/share"
)

// Bounds of evaluations under way, in the memory that they may take while they are judged.
const (
	judgingUnit     = 1 << 20 // bytes of one place
	judgingMost     = 256 << 20
	judgingOfTenant = judgingMost / 2
	// judgingWait is how long a call waits for its places. One of 1 MiB takes a tenth of a second.
	judgingWait = 10 * time.Second
	// judgingWaiting is how many of a tenant wait. Each has its body in memory.
	judgingWaiting = 256
	// judgingBurst is from how many bytes of a body on the process is to use less memory meanwhile, also
	// while the call waits: many of them have much in memory together.
	judgingBurst = 16 << 10
)

// newJudging divides the memory for evaluations among tenants.
func newJudging() *share.Pool {
	return share.New(share.Limits{
		Total: judgingMost / judgingUnit, PerOwner: judgingOfTenant / judgingUnit, PerPart: judgingOfTenant / judgingUnit,
		Waiting: 16 * judgingWaiting, WaitingPerOwner: judgingWaiting,
	})
}

// placesToJudge returns how many places a call takes whose body has so many bytes.
func placesToJudge(size int) int {
	return 1 + size*governance.BytesPerByte/judgingUnit
}

// roomToJudge waits until there is room to judge the call of the body, and returns what gives it back,
// which is when it was judged and not when the caller has read the answer. SERVICE_UNAVAILABLE where the
// wait would be too long.
func (h *actionHandlers) roomToJudge(ctx context.Context, c *wire.Call) (leave func(), err error) {
	done := func() {}
	if c.BodySize() > judgingBurst {
		done = h.burst()
	}
	waiting, cancel := context.WithTimeout(ctx, judgingWait)
	defer cancel()
	free, err := h.judging.TakeSome(waiting, c.Actor.TenantID.String(), "", placesToJudge(c.BodySize()))
	if err == nil {
		return func() { done(); free() }, nil
	}
	done()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	f := fault.New(fault.CodeServiceUnavailable, "Your tenant has many evaluations under way. Repeat the call later.").Because(err)
	f.Retryable, f.RetryAfter = true, judgingWait
	return nil, f
}

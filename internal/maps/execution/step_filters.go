package execution

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"golang.org/x/sync/singleflight"

	"agentruntime/internal/base/bytelru"
	"agentruntime/internal/maps/stepmachine"
)

const (
	// filtersMost is how many bytes of values of filters a process keeps: some thousands.
	filtersMost = 1 << 20
	// filterSize is what a value takes.
	filterSize = 256
	// filterLimit bounds an evaluation that several executions may wait for.
	filterLimit = time.Minute
)

// filters evaluates a filter once for all executions that wait with the same values. Any number of them
// may wait for one event, and each evaluation takes a child of the sandbox for a while.
type filters struct {
	asked singleflight.Group
	kept  *bytelru.Cache[[sha256.Size]byte, stepmachine.Evaluated]
}

func newFilters() (*filters, error) {
	kept, err := bytelru.New[[sha256.Size]byte, stepmachine.Evaluated](filtersMost)
	if err != nil {
		return nil, fmt.Errorf("execution: %w", err)
	}
	return &filters{kept: kept}, nil
}

// evaluate returns the value of a filter. same names what it reads. An error is not kept, so the next one
// asks again.
func (f *filters) evaluate(ctx context.Context, same string, ask stepmachine.Evaluate, value func(context.Context) (stepmachine.Evaluated, error)) (stepmachine.Evaluated, error) {
	name := sha256.Sum256([]byte(same))
	out, known := f.kept.Get(name)
	if !known {
		done := f.asked.DoChan(string(name[:]), func() (any, error) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), filterLimit)
			defer cancel()
			out, err := value(ctx)
			if err == nil {
				f.kept.Add(name, out, filterSize, nil)
			}
			return out, err
		})
		select {
		case <-ctx.Done():
			return out, context.Cause(ctx)
		case shared := <-done:
			if shared.Err != nil {
				return out, shared.Err
			}
			out = shared.Val.(stepmachine.Evaluated)
		}
	}
	out.Ref, out.Number = ask.Ref, ask.Number
	return out, nil
}

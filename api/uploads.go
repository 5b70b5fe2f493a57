package api

import (
	"context"
	"errors"
	"time"

	"agentruntime/api/wire"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/turns"
)

// Bounds of uploads. A body of bodyUpload is in memory twice while it is read, so few are
// there at once. Of those one is read while another one is worked on.
const (
	uploadsAtOnce = 2
	uploadWait    = 30 * time.Second
	uploadsEach   = 8  // uploads of one tenant that may wait
	uploadsMost   = 64 // uploads that may wait in all
	// smallUpload is the size up to which a body is like that of any other call, and does not
	// wait behind those that take long to arrive.
	smallUpload = bodyRun
	// uploadRetry is when a refused caller should come back. A large document takes seconds.
	uploadRetry = 10 * time.Second
)

// uploads lets large bodies into memory, a few at a time, at most one of each tenant.
type uploads struct {
	turns *turns.Turns
	// frugal has the process use less memory for more time until done is called, which gives back what
	// a large document took: the runtime would keep it for a while.
	frugal func() (done func())
}

func newUploads(frugal func() (done func())) *uploads {
	return &uploads{turns.New(turns.Config{Slots: uploadsAtOnce, Share: 1, Wait: uploadWait, Each: uploadsEach, Most: uploadsMost}), orNothing(frugal)}
}

// orNothing returns what saves memory, or what does nothing where there is none.
func orNothing(saving func() (done func())) func() (done func()) {
	if saving == nil {
		return func() func() { return func() {} }
	}
	return saving
}

// enter waits until the body of the call may be read, and returns what to do after the call.
// SERVICE_UNAVAILABLE where the wait would be too long.
func (u *uploads) enter(ctx context.Context, c *wire.Call) (leave func(), err error) {
	if size := c.Request.ContentLength; size >= 0 && size <= smallUpload {
		return func() {}, nil
	}
	free, err := u.turn(ctx, c)
	if fault.As(err) != nil {
		// A caller that still writes does not read the answer before it has written all.
		c.SkipBody(bodyUpload)
	}
	if err != nil {
		return nil, err
	}
	return free, nil
}

// sparing has the process use less memory until the call of a large body leaves. A small one is like
// that of any other call, so it gives back the turn that it took where its size was not known. A
// refused one takes nothing.
func (u *uploads) sparing(c *wire.Call, leave func()) func() {
	if c.BodySize() <= smallUpload {
		leave()
		return func() {}
	}
	done := u.frugal()
	return func() {
		c.DropBody()
		done()
		leave()
	}
}

// room waits until a stored document of so many bytes may be in memory, and gives the room back
// when the call was answered. SERVICE_UNAVAILABLE where the wait would be too long.
func (u *uploads) room(ctx context.Context, c *wire.Call, size int64) error {
	if size <= smallUpload {
		return nil
	}
	free, err := u.turn(ctx, c)
	if err == nil {
		done := u.frugal()
		c.After(func() { done(); free() })
	}
	return err
}

func (u *uploads) turn(ctx context.Context, c *wire.Call) (free func(), err error) {
	free, err = u.turns.Take(ctx, c.Actor.TenantID.String())
	if errors.Is(err, turns.ErrBusy) || errors.Is(err, turns.ErrCrowded) {
		f := fault.New(fault.CodeServiceUnavailable, "Other uploads are under way. Repeat the call later.").Because(err)
		f.Retryable, f.RetryAfter = true, uploadRetry
		return nil, f
	}
	return free, err
}

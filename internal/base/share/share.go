// Package share divides a number of places fairly among owners. Owners are tenants, and the
// parts of an owner are its providers. A place is a call, or some bytes of memory. It does no
// I/O.
package share

import (
	"container/list"
	"context"
	"errors"
	"sync"
)

// Limits of a Pool. All are positive, and PerPart is at most PerOwner.
type Limits struct {
	// Total is the number of places.
	Total int
	// PerOwner is how many of them one owner gets at once, PerPart how many one of its
	// parts.
	PerOwner, PerPart int
	// Waiting is how many may wait for a place, WaitingPerOwner how many of one owner.
	Waiting, WaitingPerOwner int
}

// ErrFull says that too many wait already.
var ErrFull = errors.New("share: too many wait for a place")

// Pool hands out places. Those that wait are served by turns: first by owner, within an
// owner by part, within a part in the order of arrival. So an owner with many waiting delays
// its own calls, and no other's.
type Pool struct {
	limits Limits

	mu      sync.Mutex
	taken   int
	waiting int
	owners  map[string]*owner
	// turns has the owners with waiting calls; the first is served next.
	turns *list.List
}

type owner struct {
	name    string
	taken   int
	waiting int
	parts   map[string]*part
	turns   *list.List    // of *part, those with waiting calls
	turn    *list.Element // in Pool.turns, nil where none waits
}

type part struct {
	name  string
	taken int
	queue *list.List // of *waiter
	turn  *list.Element
}

// A waiter is ready when ready is closed: then it has its n places.
type waiter struct {
	n     int
	ready chan struct{}
}

// New returns a pool. It panics where a limit is not positive: limits are constants or were
// checked with the settings.
func New(l Limits) *Pool {
	if min(l.Total, l.PerOwner, l.PerPart, l.Waiting, l.WaitingPerOwner) <= 0 {
		panic("share: limits must be positive")
	}
	return &Pool{limits: l, owners: map[string]*owner{}, turns: list.New()}
}

// Try takes a place where one is free at once. release gives it back and is called once.
func (p *Pool) Try(ownerName, partName string) (release func(), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o, q := p.find(ownerName, partName)
	if q.queue.Len() > 0 || !p.mayTake(o, q, 1) {
		p.forget(o, q)
		return nil, false
	}
	p.take(o, q, 1)
	return p.releaser(o, q, 1), true
}

// Take waits for a place. The error is ErrFull where too many wait, or ctx's cause.
func (p *Pool) Take(ctx context.Context, ownerName, partName string) (release func(), err error) {
	return p.TakeSome(ctx, ownerName, partName, 1)
}

// TakeSome waits for n places at once. More than a part may have count as all of those. The
// error is as for Take.
func (p *Pool) TakeSome(ctx context.Context, ownerName, partName string, n int) (release func(), err error) {
	n = max(1, min(n, p.limits.Total, p.limits.PerOwner, p.limits.PerPart))
	p.mu.Lock()
	o, q := p.find(ownerName, partName)
	if q.queue.Len() == 0 && p.mayTake(o, q, n) {
		p.take(o, q, n)
		p.mu.Unlock()
		return p.releaser(o, q, n), nil
	}
	if p.waiting >= p.limits.Waiting || o.waiting >= p.limits.WaitingPerOwner {
		p.forget(o, q)
		p.mu.Unlock()
		return nil, ErrFull
	}
	w := &waiter{n: n, ready: make(chan struct{})}
	at := p.enqueue(o, q, w)
	p.mu.Unlock()
	select {
	case <-w.ready:
		return p.releaser(o, q, n), nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-w.ready: // the places came at the same moment; they go to the next
		p.release(o, q, n)
	default:
		q.queue.Remove(at)
		p.left(o, q)
		p.serve() // it may have been in the way of one that needs fewer
	}
	return nil, context.Cause(ctx)
}

func (p *Pool) find(ownerName, partName string) (*owner, *part) {
	o := p.owners[ownerName]
	if o == nil {
		o = &owner{name: ownerName, parts: map[string]*part{}, turns: list.New()}
		p.owners[ownerName] = o
	}
	q := o.parts[partName]
	if q == nil {
		q = &part{name: partName, queue: list.New()}
		o.parts[partName] = q
	}
	return o, q
}

func (p *Pool) mayTake(o *owner, q *part, n int) bool {
	return p.taken+n <= p.limits.Total && o.taken+n <= p.limits.PerOwner && q.taken+n <= p.limits.PerPart
}

func (p *Pool) take(o *owner, q *part, n int) { p.taken += n; o.taken += n; q.taken += n }

func (p *Pool) releaser(o *owner, q *part, n int) func() {
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.release(o, q, n)
	}
}

func (p *Pool) release(o *owner, q *part, n int) {
	p.take(o, q, -n)
	p.forget(o, q)
	p.serve()
}

func (p *Pool) enqueue(o *owner, q *part, w *waiter) *list.Element {
	p.waiting++
	o.waiting++
	if q.turn == nil {
		q.turn = o.turns.PushBack(q)
	}
	if o.turn == nil {
		o.turn = p.turns.PushBack(o)
	}
	return q.queue.PushBack(w)
}

// left does what follows when a call no longer waits.
func (p *Pool) left(o *owner, q *part) {
	p.waiting--
	o.waiting--
	if q.queue.Len() == 0 {
		o.turns.Remove(q.turn)
		q.turn = nil
	}
	if o.waiting == 0 {
		p.turns.Remove(o.turn)
		o.turn = nil
	}
	p.forget(o, q)
}

// serve gives the free places to those that wait. It looks at each waiting owner at most
// once for each place.
func (p *Pool) serve() {
	for p.taken < p.limits.Total && p.serveOne() {
	}
}

func (p *Pool) serveOne() bool {
	for e := p.turns.Front(); e != nil; e = e.Next() {
		o := e.Value.(*owner)
		if o.taken >= p.limits.PerOwner {
			continue
		}
		for t := o.turns.Front(); t != nil; t = t.Next() {
			q := t.Value.(*part)
			w := q.queue.Front().Value.(*waiter)
			if !p.mayTake(o, q, w.n) {
				continue
			}
			q.queue.Remove(q.queue.Front())
			p.take(o, q, w.n)
			o.turns.MoveToBack(t)
			p.turns.MoveToBack(e)
			p.left(o, q)
			close(w.ready)
			return true
		}
	}
	return false
}

// forget drops what nobody uses, so that the pool is no larger than what is under way.
func (p *Pool) forget(o *owner, q *part) {
	if q.taken == 0 && q.queue.Len() == 0 {
		delete(o.parts, q.name)
	}
	if o.taken == 0 && o.waiting == 0 && len(o.parts) == 0 {
		delete(p.owners, o.name)
	}
}

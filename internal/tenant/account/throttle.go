package account

import (
	"context"
	"sync"
	"time"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/fault"
)

// Throttle bounds how fast passwords and tokens can be guessed. It never locks an account:
// failures from elsewhere only slow down a login from an address that is new to the account.
// A login from an address that is known to the account is never refused for failures, only
// slowed down. The zero value of each field takes the default named with it.
type Throttle struct {
	// Window is how long failures count, from the first: 15 minutes.
	Window time.Duration
	// PairFailures are allowed for one account from one address within Window, and for one
	// invitation: 10. Failures above it from a known address slow down.
	PairFailures int
	// SourceFailures are allowed from one address, whatever the account: 1,000. Many people
	// may share an address.
	SourceFailures int
	// AccountFailures are those of one account from all new addresses above which each
	// further one makes a login from a new address slower: 20.
	AccountFailures int
}

func (t Throttle) withDefaults() Throttle {
	if t.Window == 0 {
		t.Window = 15 * time.Minute
	}
	if t.PairFailures == 0 {
		t.PairFailures = 10
	}
	if t.SourceFailures == 0 {
		t.SourceFailures = 1000
	}
	if t.AccountFailures == 0 {
		t.AccountFailures = 20
	}
	return t
}

const (
	// delayStep is what each failure above the limit adds to the delay of a login, and
	// delayMost the longest delay: a person waits that long for a page.
	delayStep = 100 * time.Millisecond
	delayMost = 3 * time.Second

	// knownFor is how long an address stays known after a login from it: as long as a
	// session lasts at most. knownMost is the most known addresses of a user.
	knownFor  = 90 * 24 * time.Hour
	knownMost = 50
)

// refuseLogin returns LOGIN_THROTTLED where the attempt must not be made now, otherwise nil.
func (t Throttle) refuseLogin(found dbsqlc.BeginLoginRow, now time.Time) error {
	switch {
	case found.Known:
		return nil
	case int(found.PairFailures) >= t.PairFailures:
		return throttled(found.PairEndsAt.Sub(now))
	case int(found.SourceFailures) >= t.SourceFailures:
		return throttled(found.SourceEndsAt.Sub(now))
	}
	return nil
}

// delay returns how long the attempt must wait; 0 where it need not.
func (t Throttle) delay(found dbsqlc.BeginLoginRow) time.Duration {
	over := int(found.AccountFailures) - t.AccountFailures
	if found.Known {
		over = int(found.PairFailures) - t.PairFailures + 1
	}
	steps := min(max(0, over), int(delayMost/delayStep))
	return time.Duration(steps) * delayStep
}

func throttled(after time.Duration) error {
	f := fault.New(fault.CodeLoginThrottled, "")
	f.RetryAfter = after
	return f
}

// waitsAs returns whose places the attempt waits in: those of the caller's network, and for
// a known address those of the account from there. So strangers cannot take the owner's.
func (a attempt) waitsAs(known bool) string {
	if known {
		return string(a.pair)
	}
	return string(a.source)
}

// The most logins that wait out a delay at once, in this process: of one place and of all.
const (
	delayedEach = 8
	delayedMost = 1000
)

// delays makes logins wait, a bounded number at once.
type delays struct {
	pause func(context.Context, time.Duration) error

	mu      sync.Mutex
	waiting map[string]int
	all     int
}

func newDelays(pause func(context.Context, time.Duration) error) *delays {
	return &delays{pause: pause, waiting: map[string]int{}}
}

// wait returns after the delay. The error is LOGIN_THROTTLED where too many wait already,
// and otherwise ctx's cause.
func (d *delays) wait(ctx context.Context, place string, delay time.Duration) error {
	if !d.enter(place) {
		return throttled(delay)
	}
	defer d.leave(place)
	return d.pause(ctx, delay)
}

func (d *delays) enter(place string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all >= delayedMost || d.waiting[place] >= delayedEach {
		return false
	}
	d.waiting[place]++
	d.all++
	return true
}

func (d *delays) leave(place string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all--
	if d.waiting[place]--; d.waiting[place] == 0 {
		delete(d.waiting, place)
	}
}

// pause waits for the time, or returns ctx's cause.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

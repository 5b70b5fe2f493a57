// Package turns bounds how many callers do something costly at once, and shares the turns out
// fairly: a flood of one party delays the others by one turn each. Logins, uploads, connections to
// Postgres and the steps of Maps use it.
// It does not know what the turns are for.
package turns

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// The reasons why a caller gets no turn.
var (
	// ErrBusy: no turn came within Config.Wait, or too many callers wait.
	ErrBusy = errors.New("turns: none is free")
	// ErrCrowded: too many callers of the same party wait.
	ErrCrowded = errors.New("turns: too many of the same party wait")
)

// Config has the bounds of Turns. All but Share, Least and Lately are required.
type Config struct {
	Slots int // turns at once
	Share int // turns of one party at once; 0 means Slots
	// Least is how many turns one party may have at once while others are active. It may have more
	// where these have, or wait for, more than so many together. 0 means Share. A party is active
	// that has a turn, waits for one, or asked for one within Lately.
	Least  int
	Lately time.Duration
	Wait   time.Duration // how long a caller waits for a turn
	Each   int           // callers of one party that may wait
	Most   int           // callers that may wait in all
}

// Turns is safe for concurrent use.
type Turns struct {
	cfg  Config
	mu   sync.Mutex
	free int
	held map[string]int // turns that each party has now
	// waiting has the callers of each party, the oldest first, and order the parties that have
	// some, the next first.
	waiting map[string][]chan bool
	order   []string
	all     int
	// last is the party that asked last, and other the one before it.
	last, other asked
}

// asked says when a party asked for a turn.
type asked struct {
	party string
	at    time.Time
}

// New returns Turns that are all free.
func New(cfg Config) *Turns {
	if cfg.Share == 0 {
		cfg.Share = cfg.Slots
	}
	if cfg.Least == 0 {
		cfg.Least = cfg.Share
	}
	return &Turns{cfg: cfg, free: cfg.Slots, held: map[string]int{}, waiting: map[string][]chan bool{}}
}

// Take waits for a turn of the party and returns what gives it back. It fails with ErrCrowded,
// ErrBusy, or the error of ctx.
func (s *Turns) Take(ctx context.Context, party string) (free func(), err error) {
	turn, err := s.queue(party)
	if err != nil {
		return nil, err
	}
	patience := time.NewTimer(s.cfg.Wait)
	defer patience.Stop()
	release := func() { s.release(party) }
	select {
	case granted := <-turn:
		if !granted {
			return nil, ErrBusy
		}
		return release, nil
	case <-ctx.Done():
		err = fmt.Errorf("wait for a turn: %w", context.Cause(ctx))
	case <-patience.C:
		err = ErrBusy
	}
	if !s.withdraw(party, turn) && <-turn {
		release() // it came at the last moment
	}
	return nil, err
}

// queue returns the channel that tells the caller of their turn: true with a turn, false where
// they gave up their place for another party.
func (s *Turns) queue(party string) (chan bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	turn := make(chan bool, 1)
	now := time.Now()
	s.ask(party, now)
	if s.free > 0 && s.held[party] < s.shareOf(party, now) {
		s.grant(party, turn)
		return turn, nil
	}
	mine := len(s.waiting[party])
	if mine >= s.cfg.Each {
		return nil, ErrCrowded
	}
	if s.all >= s.cfg.Most && !s.displace(mine) {
		return nil, ErrBusy
	}
	if mine == 0 {
		s.order = append(s.order, party)
	}
	s.waiting[party] = append(s.waiting[party], turn)
	s.all++
	return turn, nil
}

// ask notes that a party asks for a turn.
func (s *Turns) ask(party string, now time.Time) {
	if s.last.party != party {
		s.other = s.last
	}
	s.last = asked{party, now}
}

// shareOf returns how many turns a party may have now.
func (s *Turns) shareOf(party string, now time.Time) int {
	another := s.last
	if another.party == party {
		another = s.other
	}
	others := s.cfg.Slots - s.free - s.held[party] + s.all - len(s.waiting[party])
	if others == 0 && now.Sub(another.at) >= s.cfg.Lately {
		return s.cfg.Share
	}
	return min(s.cfg.Share, max(s.cfg.Least, others))
}

// displace takes its place from the last caller of the party that has most waiting, if
// that party would still have more of them than the newcomer's has now.
func (s *Turns) displace(mine int) bool {
	most := ""
	for _, party := range s.order {
		if len(s.waiting[party]) > len(s.waiting[most]) {
			most = party
		}
	}
	callers := s.waiting[most]
	if len(callers) <= mine+1 {
		return false
	}
	last := callers[len(callers)-1]
	s.remove(most, len(callers)-1)
	last <- false
	return true
}

// grant gives a free turn to a caller.
func (s *Turns) grant(party string, turn chan bool) {
	s.free--
	s.held[party]++
	turn <- true
}

// release takes the turn of a party back, and gives the free turns to the oldest callers of the
// next parties that may have one.
func (s *Turns) release(party string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
	if s.held[party]--; s.held[party] == 0 {
		delete(s.held, party)
	}
	now := time.Now()
	for s.free > 0 && s.serve(now) {
	}
}

// serve gives a free turn to the oldest caller of the next party that may have one. It returns
// false where there is none.
func (s *Turns) serve(now time.Time) bool {
	at := slices.IndexFunc(s.order, func(p string) bool { return s.held[p] < s.shareOf(p, now) })
	if at < 0 {
		return false
	}
	next := s.order[at]
	turn := s.waiting[next][0]
	s.remove(next, 0)
	if len(s.waiting[next]) > 0 { // to the end of the line
		s.order = append(slices.Delete(s.order, at, at+1), next)
	}
	s.grant(next, turn)
	return true
}

// withdraw takes a caller out of the line. It returns false where they were told already.
func (s *Turns) withdraw(party string, turn chan bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.waiting[party], turn)
	if i < 0 {
		return false
	}
	s.remove(party, i)
	return true
}

// remove deletes a waiting caller, and the turn of a party that has no other.
func (s *Turns) remove(party string, i int) {
	s.all--
	left := slices.Delete(s.waiting[party], i, i+1)
	if len(left) > 0 {
		s.waiting[party] = left
		return
	}
	delete(s.waiting, party)
	at := slices.Index(s.order, party)
	s.order = slices.Delete(s.order, at, at+1)
}

// turnOfContext is the key of a turn that Holding has put into a context.
type turnOfContext struct{}

// Holding returns a context by which GiveBack gives the turn back, and what gives it back at the
// end. The turn goes back once, by the first of the two.
func Holding(ctx context.Context, free func()) (held context.Context, release func()) {
	release = sync.OnceFunc(free)
	return context.WithValue(ctx, turnOfContext{}, release), release
}

// GiveBack gives back the turn that ctx has, where it has one: what is left to do costs nothing,
// because it is only waited for.
func GiveBack(ctx context.Context) {
	if release, held := ctx.Value(turnOfContext{}).(func()); held {
		release()
	}
}

package jqchild

import (
	"sync"
	"time"
)

// Bounds of the pause after which one who found no place may ask again.
const (
	leastPause = time.Second
	mostPause  = 15 * time.Minute
	// mostCrowds is how many parties are remembered before those are forgotten that nobody waits for.
	mostCrowds = 1024
)

// crowds tells those who find no place among the waiting when to ask again. They stand in a line that
// only exists as a time: each may ask when those before it have probably been served. So however many they
// are, they ask about as often as the children can serve them.
type crowds struct {
	mu sync.Mutex
	of map[string]*crowd
}

// crowd is what is known of one party.
type crowd struct {
	took time.Duration // how long one evaluation takes, of late
	next time.Time     // when the last in the line may ask
}

// served notes how long an evaluation of the party has taken.
func (c *crowds) served(party string, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.one(party)
	one.took = (3*one.took + took) / 4
}

// join returns how long a newcomer waits before it asks. Before it come those of the party who wait for
// one of so many children: as many as may, and as are served while they wait.
func (c *crowds) join(party string, children int, wait time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	one, now := c.one(party), time.Now()
	each := one.took / time.Duration(children)
	if first := now.Add(min(waitersEach*each, wait.Truncate(each))); one.next.Before(first) {
		one.next = first
	}
	if one.next = one.next.Add(each); one.next.After(now.Add(mostPause)) {
		one.next = now.Add(mostPause)
	}
	return max(one.next.Sub(now), leastPause)
}

// one returns what is known of a party.
func (c *crowds) one(party string) *crowd {
	if one := c.of[party]; one != nil {
		return one
	}
	if now := time.Now(); len(c.of) >= mostCrowds {
		for other, one := range c.of {
			if one.next.Before(now) {
				delete(c.of, other)
			}
		}
	}
	one := &crowd{}
	c.of[party] = one
	return one
}

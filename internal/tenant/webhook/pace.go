package webhook

import (
	"sync"
	"time"

	"github.com/google/uuid"
	lru "github.com/hashicorp/golang-lru/v2"

	"agentruntime/internal/base/share"
)

// Attempts that one process makes at once. An attempt that waits for its receiver costs 30 KB
// and no CPU.
const (
	placesTotal = 1024
	// A tenant gets a quarter. That is more than twice its quota of webhooks: where all but a few of
	// them hang, each has one attempt under way, and the others have the rest.
	placesPerTenant = placesTotal / 4
	// placesPerWebhook is the most of one webhook that answers well.
	placesPerWebhook = 32
	// paceFirst is how many a webhook has of which nothing is known.
	paceFirst = 2
	// paceSlow is the most of one webhook that answers well after slowAnswer only. Otherwise eight
	// such webhooks would have all places of their tenant.
	paceSlow   = 2
	slowAnswer = time.Second
	// pacesKept is how many webhooks' paces a process remembers, 200 bytes each.
	pacesKept = 1 << 14
)

// limits are those of the places. Nothing waits for a place: what gets none stays in the database.
func limits() share.Limits {
	return share.Limits{Total: placesTotal, PerOwner: placesPerTenant, PerPart: placesPerWebhook, Waiting: 1, WaitingPerOwner: 1}
}

// pace is how many attempts at one webhook are made at once. Each success allows one more, and a
// failure leaves one. So a webhook that hangs has one attempt under way, whatever it is sent.
//
// Attempts of workflows come before first attempts: until owed, the places are theirs. Otherwise a
// webhook that hangs, and is told of more and more, would never get to the last attempt of a
// delivery, and so would never be disabled.
//
// Each first attempt that fails costs a workflow, for all its tenant's other receivers and for other
// tenants too. So first attempts at a webhook that keeps failing wait until its debt is paid: a
// success now and then does not let it have as many workflows as there are events.
type pace struct {
	allowed, underWay int
	owed              time.Time
	// debt grows by one with each failure. It is that of the time at.
	debt float64
	at   time.Time
}

// A webhook has as many failures as debtMost in a row before its first attempts wait. Of a debt
// debtPaid is paid in each second, and debtEased with each success: one that fails less than once in
// three times never waits.
const (
	debtMost  = 10
	debtPaid  = 0.2
	debtEased = 0.5
)

// owes returns the debt now.
func (p *pace) owes(now time.Time) float64 {
	return max(0, p.debt-debtPaid*max(0, now.Sub(p.at).Seconds()))
}

// owedFor is longer than the pause after which the workflow that found no place asks again.
const owedFor = 2 * busyPause

// turn says what an attempt is.
type turn int

const (
	firstAttempt turn = iota // the dispatcher makes it
	laterAttempt             // a workflow makes it
)

type paces struct {
	mu sync.Mutex
	of *lru.Cache[uuid.UUID, *pace]
}

func newPaces() *paces {
	of, err := lru.New[uuid.UUID, *pace](pacesKept)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	return &paces{of: of}
}

// begin counts an attempt. It returns nil where the webhook has as many under way as it may, and for
// a first attempt also where a later one waits for the place, or too many have failed.
func (p *paces) begin(webhook uuid.UUID, which turn, now time.Time) *pace {
	p.mu.Lock()
	defer p.mu.Unlock()
	of, known := p.of.Get(webhook)
	if !known {
		of = &pace{allowed: paceFirst}
		p.of.Add(webhook, of)
	}
	switch {
	case which == firstAttempt && (now.Before(of.owed) || of.owes(now) > debtMost):
		return nil
	case of.underWay >= of.allowed && which == laterAttempt:
		of.owed = now.Add(owedFor)
		return nil
	case of.underWay >= of.allowed:
		return nil
	}
	of.underWay++
	return of
}

// end counts an attempt as over.
func (p *paces) end(of *pace) {
	p.mu.Lock()
	defer p.mu.Unlock()
	of.underWay--
}

// learn changes the pace by the outcome of an attempt, and how long it took.
func (p *paces) learn(of *pace, succeeded bool, took time.Duration, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	owed := of.owes(now)
	of.at = now
	if of.debt = owed + 1; succeeded {
		of.debt = max(0, owed-debtEased)
	}
	switch {
	case !succeeded:
		of.allowed = 1
	case took > slowAnswer:
		of.allowed = paceSlow
	default:
		of.allowed = min(of.allowed+1, placesPerWebhook)
	}
}

// place is the right to make one attempt.
type place struct {
	pace    *pace
	release func()
}

// take returns the right to attempt a delivery to the webhook now, where there is one.
func (s *Service) take(tenant, webhook uuid.UUID, which turn) (place, bool) {
	p := s.paces.begin(webhook, which, s.now())
	if p == nil {
		return place{}, false
	}
	release, ok := s.places.Try(tenant.String(), webhook.String())
	if !ok {
		s.paces.end(p)
		return place{}, false
	}
	return place{p, release}, true
}

// leave gives a place back.
func (s *Service) leave(p place) {
	s.paces.end(p.pace)
	p.release()
	s.wake()
}

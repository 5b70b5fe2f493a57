package run

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
	lru "github.com/hashicorp/golang-lru/v2"

	"agentruntime/internal/base/flow"
)

// carried saves a step the reads that the step before it has made. The next step nearly
// always follows in the same process within milliseconds: Govern after the claim, where
// API and worker share a process, and Send after Govern. An entry may be stale, so every
// statement that writes compares the state in the row. A lost entry costs a read.
type carried struct {
	// claims are rows as their claim left them, for Govern.
	claims *lru.Cache[flow.RunRef, claimedRun]
	// judgements are rows with their verb and verdict, for Send.
	judgements *lru.Cache[flow.RunRef, prepared]
	// unsent are runs that this process may have marked as sending without knowing it.
	// Provably none of the attempt's bytes left.
	unsent *lru.Cache[flow.RunRef, lostMark]
	// pauses are those that a step of this process waits for; see pauseOf.
	pauses *lru.Cache[flow.RunRef, seenPause]
	// reads are what claims have read, for the next steps that make such calls; see ahead.go.
	reads *lru.Cache[readFor, lastRead]
}

// seenPause is the end of the pause after so many sends, by the clock of this process.
type seenPause struct {
	sends int32
	until time.Time
}

// claimedRun is a row, and what was read for its call in the same transaction; read is nil
// where nothing was.
type claimedRun struct {
	run  Run
	read json.RawMessage
	at   time.Time
}

// readKept is how long a call is judged by the verb, the credential and the policies that were
// read with the row. The gate of MarkSending compares them, so an older read would only be
// refused there. A run that waits longer for its workflow reads them again.
const readKept = 5 * time.Second

// lostMark is a mark whose answer was lost. Another process may make the mark of the same
// number, where this one was not made. So the audit record of the same transaction tells
// whether it was.
type lostMark struct {
	sends  int32 // the number of the attempt
	record uuid.UUID
}

// carriedMost is more than the number of runs that one worker has under way. carriedArgs, in
// bytes, limits the memory: runs with larger arguments are not carried.
const (
	carriedMost = 2048
	carriedArgs = 32 << 10
)

func newCarried() *carried {
	return &carried{
		claims: cacheOf[flow.RunRef, claimedRun](), judgements: cacheOf[flow.RunRef, prepared](), unsent: cacheOf[flow.RunRef, lostMark](),
		pauses: cacheOf[flow.RunRef, seenPause](), reads: cacheOf[readFor, lastRead](),
	}
}

func cacheOf[K comparable, T any]() *lru.Cache[K, T] {
	cache, err := lru.New[K, T](carriedMost)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	return cache
}

// addClaim hands a claimed row to Govern.
func (c *carried) addClaim(r claimedRun) {
	if r.run.weight() <= carriedArgs {
		c.claims.Add(r.run.ref(), r)
	}
}

// takeClaim returns the row that a claim left, once: a step that is repeated reads the row.
func (c *carried) takeClaim(ref flow.RunRef) (claimedRun, bool) {
	r, known := c.claims.Get(ref)
	if known {
		c.claims.Remove(ref)
	}
	return r, known
}

// addJudgement hands a judged run to Send. The entry stays, because Send may be repeated.
func (c *carried) addJudgement(p prepared) {
	if p.run.weight() <= carriedArgs {
		c.judgements.Add(p.run.ref(), p)
	}
}

// judgement returns what Govern found out about the run, and whether it is known here.
func (c *carried) judgement(ref flow.RunRef) (prepared, bool) { return c.judgements.Get(ref) }

// forget drops what is known of the run: its row has changed.
func (c *carried) forget(ref flow.RunRef) {
	c.forgetJudgement(ref)
	c.unsent.Remove(ref)
}

// forgetJudgement makes the next step read the run.
func (c *carried) forgetJudgement(ref flow.RunRef) {
	c.claims.Remove(ref)
	c.judgements.Remove(ref)
}

// notSent remembers that an attempt ended before it was known to be marked.
func (c *carried) notSent(ref flow.RunRef, m lostMark) {
	c.forgetJudgement(ref)
	c.unsent.Add(ref, m)
}

// mayBeUnsent returns the lost mark that the run may be in, and whether there is one.
func (c *carried) mayBeUnsent(r Run) (m lostMark, known bool) {
	m, known = c.unsent.Peek(r.ref())
	return m, known && r.State == StateSending && r.Sends == m.sends
}

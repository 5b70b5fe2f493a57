// Package jqchild evaluates the jq expressions that can take any amount of memory or time: each
// in a child process with a bound on both. The children are this program again, with a hidden
// subcommand. They have no environment, open no files and no connections, and are used again and
// again. One that passes a bound dies, alone.
package jqchild

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"agentruntime/internal/base/turns"
	"agentruntime/internal/maps/expression"
)

// Subcommand is the argument with which a program has to call Serve.
const Subcommand = "evaluate-expressions"

// Memory is how many bytes of address space a child may take beyond what it has when idle.
const Memory = 256 << 20

// Time is how long one evaluation may take. Only the time of the processor counts, so that a
// busy machine makes no expression fail: a child that gets too little of it ends after patience
// times as long, and the expression was not evaluated.
const (
	Time     = 2 * time.Second
	patience = 5
	// leastPatience is how long a child without the processor is waited for at least.
	leastPatience = 2 * time.Second
)

// together is how many times Time all expressions of one value may take. A definition can have 2,000
// of them in one value. Without this bound their evaluation would end before they do, be made again
// as after a fault of ours, and never come to its end.
const together = 3

// lasting is how long after its first expression a value may still begin others. Beyond it the processor
// is too busy for that many.
const lasting = 30 * time.Second

// Longest is how long one value takes at most of a caller that waits Briefly: what begins within lasting,
// and the last expression, which waits for its turn, starts a child, and is evaluated.
const Longest = lasting + waitBriefly + startLimit + patience*Time

// Here is how much work of this process one value may take, in bytes that are read: some 0.1 s. Paths
// into a root take ten times its bytes at most, so those into 4 MiB are followed here.
const Here = 64 << 20

// Config has the values of a Pool.
type Config struct {
	// Command runs a child: a program and its arguments; empty for this program with
	// Subcommand.
	Command []string
	// Children is how many children there are at most. Each can take Memory.
	Children int
	// Time bounds one evaluation; 0 for Time.
	Time time.Duration
	// Reading is how much longer an evaluation may take for each MiB that it reads, because reading
	// is no work of the expression; 0 where Time is enough for that too.
	Reading time.Duration
	// Here is how much work of this process one value may take; 0 for the constant of that name.
	Here int
	// Share is how many children one party may have at once; 0 for all but one.
	Share int
	// Wait is how long a caller waits for a child; 0 for waitForTurn.
	Wait time.Duration
	// Nice: the processor serves other processes before the children. It is for what no caller waits for.
	Nice bool
}

// Bounds of those who wait for a child.
const (
	waitForTurn = 30 * time.Second
	waitBriefly = 5 * time.Second
	waitersEach = 64
	waitersMost = 1024
)

// Pool has the children of this process. It is safe for concurrent use.
type Pool struct {
	command []string
	time    time.Duration
	reading time.Duration // for each MiB
	here    int           // work for each value
	turns   *turns.Turns
	share   int           // children that one party has at once
	wait    time.Duration // for a child
	nice    bool
	crowds  crowds

	mu     sync.Mutex
	idle   []*child
	closed bool
	hungry map[[sha256.Size]byte]time.Duration // see starved.go
}

// New returns a pool. Children start when they are needed.
func New(cfg Config) (*Pool, error) {
	if cfg.Children < 1 {
		return nil, errors.New("jqchild: at least one child is required")
	}
	command := cfg.Command
	if len(command) == 0 {
		program, err := self()
		if err != nil {
			return nil, fmt.Errorf("jqchild: find this program: %w", err)
		}
		command = []string{program, Subcommand}
	}
	share, wait := cmp.Or(cfg.Share, max(cfg.Children-1, 1)), cmp.Or(cfg.Wait, waitForTurn)
	return &Pool{
		command: command, time: cmp.Or(cfg.Time, Time), reading: cfg.Reading, here: cmp.Or(cfg.Here, Here), share: share, wait: wait, nice: cfg.Nice, crowds: crowds{of: map[string]*crowd{}},
		hungry: map[[sha256.Size]byte]time.Duration{},
		turns: turns.New(turns.Config{
			Slots: cfg.Children, Share: share, Wait: wait, Each: waitersEach, Most: waitersMost,
		}),
	}, nil
}

// Close ends all children that do nothing, and those that work when they have ended.
func (p *Pool) Close() {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.closed = nil, true
	p.mu.Unlock()
	for _, c := range idle {
		c.end()
	}
}

// For returns the sandbox of one party, a tenant, for one value. Parties get children in turn, so
// that the costly expressions of one do not delay the others.
func (p *Pool) For(party string) expression.Sandbox {
	return p.sandbox(party, p.wait)
}

// Briefly is For a caller that keeps a place of others while it waits for a child, so that it waits for
// 5 s at most.
func (p *Pool) Briefly(party string) expression.Sandbox {
	return p.sandbox(party, min(p.wait, waitBriefly))
}

func (p *Pool) sandbox(party string, wait time.Duration) *sandbox {
	return &sandbox{pool: p, party: party, here: p.here, left: together * p.time, wait: wait}
}

// sandbox is used by one caller at a time.
type sandbox struct {
	pool  *Pool
	party string
	here  int           // work that this process may still do
	left  time.Duration // for all that is still evaluated
	wait  time.Duration // for a child
	until time.Time     // others may begin; zero before the first one
}

// Spend implements expression.Sandbox. What is left after a refusal is nothing: the value has had its part
// of this process.
func (s *sandbox) Spend(work int) bool {
	if work > s.here {
		s.here = -1
		return false
	}
	s.here -= work
	return true
}

// Run implements expression.Sandbox. A child that dies over an expression is a *Failure with
// CodeLimit, and so is an expression for which those before it leave no time. A *expression.BusyError
// comes where all children are busy for too long, with an error of turns, and where the processor is, so
// that the child did not get its time.
func (s *sandbox) Run(ctx context.Context, source string, roots expression.Roots) ([]json.RawMessage, error) {
	question, err := json.Marshal(request{source, roots})
	if err != nil {
		return nil, fmt.Errorf("jqchild: write an expression: %w", err)
	}
	if len(question) > maxFrame {
		return nil, &expression.Failure{Code: expression.CodeLimit, Detail: fmt.Sprintf("the expression reads more than %d bytes", maxFrame)}
	}
	if s.left <= 0 {
		return nil, &expression.Failure{Code: expression.CodeLimit, Detail: fmt.Sprintf("the expressions of one value take longer than %s together", together*s.pool.time)}
	}
	if s.until.IsZero() {
		s.until = time.Now().Add(lasting)
	} else if time.Now().After(s.until) {
		return nil, &expression.BusyError{Reason: errStarved, Line: soon}
	}
	free, err := s.turn(ctx)
	if err != nil {
		return nil, err
	}
	defer free()
	began := time.Now()
	defer func() { s.pool.crowds.served(s.party, time.Since(began)) }()
	c, err := s.pool.take()
	if err != nil {
		return nil, err
	}
	clock := c.clock(min(s.pool.time, s.left) + time.Duration(len(question)>>10)*s.pool.reading/1024)
	answer, err := c.ask(ctx, question, clock)
	spent := clock.spent()
	s.left -= spent
	if errors.Is(err, errStarved) {
		c.end()
		return nil, s.starved(question, spent)
	}
	s.pool.fed(s.party, question)
	if err != nil {
		c.end()
		return nil, err
	}
	s.pool.give(c)
	return answer.results()
}

// turn waits for a child that the party may have.
func (s *sandbox) turn(ctx context.Context) (free func(), err error) {
	waiting, stop := context.WithTimeout(ctx, s.wait)
	defer stop()
	free, err = s.pool.turns.Take(waiting, s.party)
	switch {
	case err == nil:
		return free, nil
	case errors.Is(err, turns.ErrCrowded), errors.Is(err, turns.ErrBusy):
		return nil, s.busy(fmt.Errorf("jqchild: %w", err))
	case ctx.Err() == nil && waiting.Err() != nil:
		return nil, s.busy(fmt.Errorf("jqchild: %w", turns.ErrBusy))
	}
	return nil, fmt.Errorf("jqchild: %w", err)
}

func (s *sandbox) busy(why error) error {
	return &expression.BusyError{Reason: why, Line: func() time.Duration { return s.pool.crowds.join(s.party, s.pool.share, s.wait) }}
}

// take returns an idle child that lives, or a new one.
func (p *Pool) take() (*child, error) {
	for {
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			return nil, errors.New("jqchild: the pool is closed")
		}
		n := len(p.idle)
		if n == 0 {
			p.mu.Unlock()
			return start(p.command, p.nice)
		}
		c := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		if c.lives() {
			return c, nil
		}
	}
}

func (p *Pool) give(c *child) {
	p.mu.Lock()
	keep := !p.closed
	if keep {
		p.idle = append(p.idle, c)
	}
	p.mu.Unlock()
	if !keep {
		c.end()
	}
}

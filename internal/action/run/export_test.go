package run

import (
	"github.com/google/uuid"

	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/flow"
)

// LoseMark makes the process believe that the answer to its mark of the attempt was lost. The
// mark has the audit record.
func (s *Service) LoseMark(ref flow.RunRef, sends int32, record uuid.UUID) {
	s.carried.notSent(ref, lostMark{sends: sends, record: record})
}

// Awaited reports whether a call waits for the run in this process.
func (s *Service) Awaited(run uuid.UUID) bool { return s.hub.Awaited(run) }

// Forget makes the next step read the run.
func (s *Service) Forget(ref flow.RunRef) { s.carried.forgetJudgement(ref) }

// WithoutKey returns the run as one whose key, and what masks its texts, were not read.
func (r Run) WithoutKey() Run {
	r.key, r.masking = nil, nil
	return r
}

// CalledBy is Run.calledBy.
func CalledBy(r Run, who actor.Actor) bool { return r.calledBy(who) }

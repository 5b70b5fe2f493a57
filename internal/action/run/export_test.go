package run

import (
	"github.com/google/uuid"

	"agentruntime/internal/kernel/flow"
)

// LoseMark makes the process believe that the answer to its mark of the attempt was lost. The
// mark has the audit record.
func (s *Service) LoseMark(ref flow.RunRef, sends int32, record uuid.UUID) {
	s.carried.notSent(ref, lostMark{sends: sends, record: record})
}

// Forget makes the next step read the run.
func (s *Service) Forget(ref flow.RunRef) { s.carried.forgetJudgement(ref) }

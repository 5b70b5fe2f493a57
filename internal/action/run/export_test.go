package run

import "agentruntime/internal/kernel/flow"

// LoseMark makes the process believe that the answer to its mark of the attempt was lost.
func (s *Service) LoseMark(ref flow.RunRef, sends int32) { s.carried.notSent(ref, sends) }

package run

import (
	"strings"

	"agentruntime/internal/base/attempt"
	"agentruntime/internal/provider/providererror"
)

// maxWords is the most bytes of the provider's message that the message of an error repeats.
const maxWords = 300

// words returns what the provider said with the answer that ends the run; nil where the answer is the
// run's result, or none came.
func (p prepared) words(st settlement, a Answer) *providererror.Error {
	if st.again || st.end.state == StateExecuted || a.Phase != attempt.Answered {
		return nil
	}
	return p.target.Words(a.Said)
}

// message returns the message of the run's error with the provider's words. The row keeps them apart,
// sealed. What an operator wrote about an outcome stands alone.
func (r Run) message() string {
	if r.ResolvedBy != nil {
		return r.ErrorMessage
	}
	return saying(r.ErrorMessage, r.ProviderError)
}

// saying returns a message with what the provider said: behind its status, where that ends the message.
func saying(message string, words *providererror.Error) string {
	said := words.Line(maxWords)
	if said == "" {
		return message
	}
	if !strings.HasSuffix(said, "…") {
		said = strings.TrimRight(said, ". ") + "."
	}
	if before, ends := strings.CutSuffix(message, ")."); ends {
		return before + "): " + said
	}
	return message + " The provider said: " + said
}

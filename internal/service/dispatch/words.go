package dispatch

import (
	"maps"
	"slices"

	"agentruntime/internal/base/redact"
	"agentruntime/internal/provider/providererror"
)

// Words implements run.Target. Everybody who sees the error of a run sees them, so they are masked for
// all. A secret of the tenant in the call's arguments is hidden also where a provider put it into a
// sentence.
func (t *target) Words(answer providererror.Answer) *providererror.Error {
	if len(t.secrets) > 0 {
		scrubber := redact.NewScrubber(slices.Collect(maps.Keys(t.secrets))...)
		answer.Body = scrubber.Scrub(answer.Body)
		answer.RequestID = string(scrubber.Scrub([]byte(answer.RequestID)))
	}
	return providererror.Of(answer, wordsMasker{t})
}

// wordsMasker implements providererror.Masker.
type wordsMasker struct{ *target }

// MaskText implements providererror.Masker.
func (wordsMasker) MaskText(text string) string { return redact.Text(text) }

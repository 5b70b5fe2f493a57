package stepmachine

import (
	"fmt"
	"strings"

	"agentruntime/internal/base/fault"
)

// OfFault returns a refusal as expressions, callers and models see it. Its detail has at most mostDetail
// bytes.
func OfFault(f *fault.Error) *Error {
	e := NewError(string(f.Code), detailOf(f))
	e.Retryable, e.RetryAfterMS = f.Retryable, f.RetryAfter.Milliseconds()
	return e
}

// mostNamed is how many wrong arguments a detail names, and mostDetail how many bytes it has. The run has all
// of them.
const (
	mostNamed  = 3
	mostDetail = 500
)

// detailOf returns what a fault says. Of arguments that do not fit it names the first ones with the rules
// that they break: steps and models see nothing else of them. Rules say what is expected and never what was
// sent. A write of unknown outcome has the name by which people settle it.
func detailOf(f *fault.Error) string {
	text := strings.TrimSuffix(f.Message, ".")
	var named []string
	for _, d := range f.Details[:min(len(f.Details), mostNamed)] {
		named = append(named, d.Path+" "+strings.TrimSuffix(d.Message, "."))
	}
	if more := len(f.Details) - len(named); more > 0 {
		named = append(named, fmt.Sprintf("and %d more", more))
	}
	switch {
	case f.Code == fault.CodeValidation && len(named) > 0:
		text = strings.Join(named, "; ") // its message is that of the first detail
	case f.Code == fault.CodeInvalidArgs && len(named) > 0:
		text += ": " + strings.Join(named, "; ")
	case len(f.Suggestions) > 0:
		text += ". Near names: " + strings.Join(f.Suggestions[:min(len(f.Suggestions), mostNamed)], ", ")
	case f.Code == fault.CodeOutcomeUnknown && f.ExecutionID != "" && !strings.Contains(text, f.ExecutionID):
		text += ". The execution is " + f.ExecutionID
	default:
		text = f.Message
	}
	const end, cut = ".", "…"
	switch {
	case len(text) > mostDetail-len(end):
		return strings.ToValidUTF8(text[:mostDetail-len(cut)], "") + cut
	case text != f.Message:
		return text + end
	}
	return text
}

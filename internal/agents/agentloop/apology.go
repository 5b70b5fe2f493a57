package agentloop

import (
	"cmp"
	_ "embed" // the sentences
	"strings"
	"sync"
)

//go:embed apologies.txt
var apologiesFile string

// apologies are the sentences by the codes of their languages and their names.
//
//nolint:gochecknoglobals // it is read once
var apologies = sync.OnceValue(func() map[string]map[string]string {
	all := map[string]map[string]string{}
	code := ""
	for line := range strings.Lines(apologiesFile) {
		line = strings.TrimRight(line, "\n")
		name, text, is := strings.Cut(line, " = ")
		switch {
		case strings.HasPrefix(line, "["):
			code = strings.Trim(line, "[]")
			all[code] = map[string]string{}
		case is:
			all[code][name] = text
		}
	}
	return all
})

// Apology is the reply where the agent has stopped without one of its own. It is in the language with the
// code, and in English where it has no sentence in that.
func Apology(stop Stop, code string) string {
	var name string
	switch stop {
	case MaxTurns, LoopDetected:
		name = "steps"
	case TokenBudget, MoneyBudget:
		name = "budget"
	case WallClock:
		name = "time"
	case PendingApproval:
		name = "approval"
	case Escalated:
		name = "person"
	case MapCompleted:
		name = "done"
	case MapFailed:
		name = "failed"
	case MapRunning:
		name = "running"
	case NeedsInput:
		name = "input"
	default:
		name = "none"
	}
	return cmp.Or(apologies()[code][name], apologies()["en"][name])
}

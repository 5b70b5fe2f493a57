package audit

import (
	"strconv"
	"strings"

	"agentruntime/internal/record/chain"
)

// csvFormat is RFC 4180: a line of names, CRLF, every cell quoted. Only records that
// the filters let through are in it.
type csvFormat struct{}

func (csvFormat) begin(b []byte) []byte {
	return appendCSV(b, "seq", "hash", "id", "at", "actor_type", "actor_id", "action", "provider", "verb", "risk_level", "decision", "outcome",
		"subject_type", "subject_id", "execution_id", "session_id", "request_id", "source_addr", "input", "details")
}

func (csvFormat) record(b []byte, p *place) []byte {
	if !p.shown {
		return b
	}
	r := &p.record
	session := ""
	if r.SessionID != nil {
		session = *r.SessionID
	}
	return appendCSV(b, strconv.FormatInt(p.seq, 10), p.hash.String(), r.ID.String(), r.At.UTC().Format(chain.TimeFormat),
		r.ActorType, r.ActorID, r.Action, r.Provider, r.FullVerb(), r.RiskLevel, r.Decision, r.Outcome, r.SubjectType, r.SubjectID,
		r.ExecutionID, session, r.RequestID, r.SourceAddr, string(r.Input), string(r.Details))
}

func (csvFormat) checkpoint(b []byte, _ *chain.Checkpoint) []byte { return b }

func (csvFormat) end(b []byte) []byte { return b }

func appendCSV(b []byte, cells ...string) []byte {
	for i, cell := range cells {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '"')
		b = append(b, strings.ReplaceAll(harmless(cell), `"`, `""`)...)
		b = append(b, '"')
	}
	return append(b, '\r', '\n')
}

// harmless puts an apostrophe before what a spreadsheet would take for a formula, or
// would after dropping the white space before it: = + - @, also in full width, and
// tab, CR and LF (OWASP, CSV Injection).
func harmless(cell string) string {
	if strings.HasPrefix(cell, "\t") || strings.HasPrefix(cell, "\r") || strings.HasPrefix(cell, "\n") {
		return "'" + cell
	}
	for _, sign := range []string{"=", "+", "-", "@", "＝", "＋", "－", "＠"} {
		if strings.HasPrefix(strings.TrimSpace(cell), sign) {
			return "'" + cell
		}
	}
	return cell
}

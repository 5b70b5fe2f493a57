package chain

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// Record is an audit record as it is hashed and exported. Texts are as stored; those
// that do not apply are empty.
type Record struct {
	ID          uuid.UUID
	TenantID    uuid.UUID
	At          time.Time // to the microsecond
	ActorType   string
	ActorID     string
	Action      string
	Provider    string
	Verb        string // without the provider
	RiskLevel   string
	Decision    string
	Outcome     string
	SubjectType string
	SubjectID   string
	ExecutionID string
	SessionID   *string
	RequestID   string
	SourceAddr  string
	Input       []byte // JSON text, nil where there is none
	Details     []byte // JSON text, nil where there is none
}

// FullVerb returns the verb as callers write it, <provider>:<verb>, or "" where there is
// none.
func (r *Record) FullVerb() string {
	if r.Verb == "" {
		return ""
	}
	return r.Provider + ":" + r.Verb
}

// TimeFormat is RFC 3339 in UTC with six digits of the second, the precision of Postgres.
const TimeFormat = "2006-01-02T15:04:05.000000Z"

// AppendText appends the one text of the record: a JSON object of fixed members in fixed
// order without white space. JSON columns keep their members' order, numbers and escapes.
// They lose only the white space between tokens, so that a record is one line. Two records
// that differ have different texts.
func (r *Record) AppendText(b []byte) []byte {
	b = append(b, `{"id":"`...)
	b = appendUUID(b, r.ID)
	b = append(b, `","tenant_id":"`...)
	b = appendUUID(b, r.TenantID)
	b = append(b, `","at":"`...)
	b = r.At.UTC().AppendFormat(b, TimeFormat)
	b = append(b, '"')
	b = appendMember(b, "actor_type", r.ActorType)
	b = appendMember(b, "actor_id", r.ActorID)
	b = appendMember(b, "action", r.Action)
	b = appendMember(b, "provider", r.Provider)
	b = appendMember(b, "verb", r.FullVerb())
	b = appendMember(b, "risk_level", r.RiskLevel)
	b = appendMember(b, "decision", r.Decision)
	b = appendMember(b, "outcome", r.Outcome)
	b = appendMember(b, "subject_type", r.SubjectType)
	b = appendMember(b, "subject_id", r.SubjectID)
	b = appendMember(b, "execution_id", r.ExecutionID)
	if r.SessionID == nil {
		b = append(b, `,"session_id":null`...)
	} else {
		b = appendMember(b, "session_id", *r.SessionID)
	}
	b = appendMember(b, "request_id", r.RequestID)
	b = appendMember(b, "source_addr", r.SourceAddr)
	b = append(b, `,"input":`...)
	b = appendJSON(b, r.Input)
	b = append(b, `,"details":`...)
	b = appendJSON(b, r.Details)
	return append(b, '}')
}

func appendUUID(b []byte, id uuid.UUID) []byte {
	var text [36]byte
	enc, _ := id.MarshalText() // never fails
	copy(text[:], enc)
	return append(b, text[:]...)
}

func appendMember(b []byte, name, value string) []byte {
	b = append(b, ',', '"')
	b = append(b, name...)
	b = append(b, '"', ':')
	return appendString(b, value)
}

// appendString writes s with only the escapes that JSON demands.
func appendString(b []byte, s string) []byte {
	const hexDigits = "0123456789abcdef"
	b = append(b, '"')
	start := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[start:i]...)
		start = i + 1
		if c >= ' ' {
			b = append(b, '\\', c)
			continue
		}
		b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}

// JSONText returns a JSON column as AppendText writes it.
func JSONText(text []byte) []byte { return appendJSON(nil, text) }

// appendJSON appends a JSON text in one line, null where there is none. Text that is no
// JSON becomes {"text": …}, so that the line stays JSON.
func appendJSON(b, text []byte) []byte {
	if text == nil {
		return append(b, `null`...)
	}
	if oneLine(text) && json.Valid(text) {
		return append(b, text...)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err == nil {
		return append(b, compact.Bytes()...)
	}
	b = append(b, `{"text":`...)
	b = appendString(b, string(text))
	return append(b, '}')
}

// oneLine reports whether text has no white space and no control characters. It does not
// parse, so a space within a string counts too.
func oneLine(text []byte) bool {
	return !bytes.ContainsFunc(text, func(r rune) bool { return r <= ' ' })
}

func appendNumber(b []byte, name string, n int64) []byte {
	b = append(b, ',', '"')
	b = append(b, name...)
	b = append(b, '"', ':')
	return strconv.AppendInt(b, n, 10)
}

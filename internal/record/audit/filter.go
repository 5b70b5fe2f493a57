package audit

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"agentruntime/db"
	"agentruntime/internal/record/chain"
)

// Filter narrows a list or an export; zero fields do not.
type Filter struct {
	From, To    *time.Time // from this time on, before that one
	Provider    string
	Verb        string // without the provider
	Action      string
	Decision    string
	SessionID   string
	ExecutionID string
	ActorType   string
	ActorID     string
	SubjectType string
	SubjectID   string
	RequestID   string
	SourceAddr  string
}

// texts are the filters that compare a column with a text, named as in the API, in the
// order of an export's header.
func (f Filter) texts() []struct{ name, column, value string } {
	return []struct{ name, column, value string }{
		{"provider", "provider", f.Provider},
		{"verb", "verb", f.Verb},
		{"action", "action", f.Action},
		{"decision", "decision", f.Decision},
		{"session_id", "session_id", f.SessionID},
		{"execution_id", "execution_id", f.ExecutionID},
		{"actor_type", "actor_type", f.ActorType},
		{"actor", "actor_id", f.ActorID},
		{"subject_type", "subject_type", f.SubjectType},
		{"subject", "subject_id", f.SubjectID},
		{"request_id", "request_id", f.RequestID},
		{"source_addr", "source_addr", f.SourceAddr},
	}
}

// where adds the conditions on a record r to args and returns them, each with AND
// before it. The statement has only the conditions that were asked for. Postgres would plan
// a statement with all of them, switched off by NULLs, without the indexes.
func (f Filter) where(args *[]any) string {
	var b strings.Builder
	and := func(condition string, value any) {
		*args = append(*args, value)
		fmt.Fprintf(&b, " AND "+condition, len(*args))
	}
	for _, t := range f.texts() {
		if t.value != "" {
			and("r."+t.column+" = $%d", t.value)
		}
	}
	low, high := db.IDsOf(f.From, f.To)
	if f.From != nil {
		and("r.at >= $%d", *f.From)
		and("r.id >= $%d", *low)
	}
	if f.To != nil {
		and("r.at < $%d", *f.To)
		and("r.id < $%d", *high)
	}
	// Their indexes are of the rows that have one.
	if f.ExecutionID != "" {
		b.WriteString(" AND r.execution_id <> ''")
	}
	if f.Decision != "" && f.Decision != "allow" {
		b.WriteString(" AND r.decision NOT IN ('', 'allow')")
	}
	return b.String()
}

// none reports whether nothing is left out.
func (f Filter) none() bool { return f == Filter{} }

// header is the filter as an export names it: a JSON object.
func (f Filter) header() []byte {
	b := []byte{'{'}
	add := func(name, value string) {
		if value == "" {
			return
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		text, _ := json.Marshal(value) //nolint:errchkjson // a string always can be
		b = append(b, `"`+name+`":`...)
		b = append(b, text...)
	}
	if f.From != nil {
		add("from", f.From.UTC().Format(chain.TimeFormat))
	}
	if f.To != nil {
		add("to", f.To.UTC().Format(chain.TimeFormat))
	}
	for _, t := range f.texts() {
		value := t.value
		if t.column == "verb" && value != "" {
			value = f.Provider + ":" + value
		}
		add(t.name, value)
	}
	return append(b, '}')
}

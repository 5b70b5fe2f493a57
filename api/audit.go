package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"agentruntime/internal/kernel/chain"
	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/kernel/verb"
	"agentruntime/internal/record/audit"
)

// Audit is what the audit endpoints need.
type Audit interface {
	List(ctx context.Context, tenant uuid.UUID, f audit.Filter, before *uuid.UUID, limit int) (page []audit.Entry, more bool, err error)
	Verify(ctx context.Context, tenant uuid.UUID) (audit.Report, error)
	NDJSON(ctx context.Context, tenant uuid.UUID, f audit.Filter) (*audit.Export, error)
	CSV(ctx context.Context, tenant uuid.UUID, f audit.Filter) (*audit.Export, error)
	Keys() []chain.Key
}

// auditRecord is a record with its place in the chain; both are null until it is
// sealed, seconds after it was written.
type auditRecord struct {
	Seq         *int64          `json:"seq"`
	Hash        *string         `json:"hash"`
	ID          uuid.UUID       `json:"id"`
	At          time.Time       `json:"at"`
	ActorType   string          `json:"actor_type"`
	ActorID     string          `json:"actor_id"`
	Action      string          `json:"action"`
	Provider    string          `json:"provider"`
	Verb        string          `json:"verb"`
	RiskLevel   string          `json:"risk_level"`
	Decision    string          `json:"decision"`
	Outcome     string          `json:"outcome"`
	SubjectType string          `json:"subject_type"`
	SubjectID   string          `json:"subject_id"`
	ExecutionID string          `json:"execution_id"`
	SessionID   *string         `json:"session_id"`
	RequestID   string          `json:"request_id"`
	SourceAddr  string          `json:"source_addr"`
	Input       json.RawMessage `json:"input"`
	Details     json.RawMessage `json:"details"`
}

func viewAudit(e audit.Entry) auditRecord {
	v := auditRecord{
		Seq: e.Seq, ID: e.ID, At: e.At.UTC(), ActorType: e.ActorType, ActorID: e.ActorID, Action: e.Action, Provider: e.Provider,
		Verb: e.FullVerb(), RiskLevel: e.RiskLevel, Decision: e.Decision, Outcome: e.Outcome, SubjectType: e.SubjectType, SubjectID: e.SubjectID,
		ExecutionID: e.ExecutionID, SessionID: e.SessionID, RequestID: e.RequestID, SourceAddr: e.SourceAddr,
		Input: chain.JSONText(e.Input), Details: chain.JSONText(e.Details),
	}
	if h, sealed := chain.HashOf(e.Hash); sealed {
		text := h.String()
		v.Hash = &text
	}
	return v
}

func (s *Server) listAudit(ctx context.Context, c *call) (reply, error) {
	limit, err := c.limit()
	if err != nil {
		return reply{}, err
	}
	before, err := c.cursor()
	if err != nil {
		return reply{}, err
	}
	f, err := c.auditFilter()
	if err != nil {
		return reply{}, err
	}
	page, more, err := s.Audit.List(ctx, c.who.TenantID, f, before, limit)
	if err != nil {
		return reply{}, err
	}
	views := make([]auditRecord, len(page))
	var last uuid.UUID
	for i, e := range page {
		views[i], last = viewAudit(e), e.ID
	}
	return reply{data: views, page: pageOf(limit, more, last)}, nil
}

// auditFilter reads the filters that the list and the export have in common.
func (c *call) auditFilter() (f audit.Filter, err error) {
	var v problems
	f.Provider, f.Action, f.Decision = v.queryText(c, "provider"), v.queryText(c, "action"), v.queryText(c, "decision")
	f.SessionID, f.ExecutionID = v.queryText(c, "session_id"), v.queryText(c, "execution_id")
	f.ActorType, f.ActorID = v.queryText(c, "actor_type"), v.queryText(c, "actor")
	f.SubjectType, f.SubjectID = v.queryText(c, "subject_type"), v.queryText(c, "subject")
	if raw, given := c.query("verb"); given {
		name, err := verb.Parse(raw)
		if err != nil {
			return f, err
		}
		f.Provider, f.Verb = name.Provider, name.Verb
	}
	f.From, f.To = micros(v.time(c, "from")), micros(v.time(c, "to"))
	return f, v.err()
}

// micros is what Postgres keeps of a time.
func micros(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	short := t.UTC().Truncate(time.Microsecond)
	return &short
}

// auditKeys are the public keys that exports and checkpoints are verified with.
type auditKeys struct {
	Keys []chain.Key `json:"keys"`
}

func (s *Server) listAuditKeys(context.Context, *call) (reply, error) {
	return ok(auditKeys{s.Audit.Keys()}), nil
}

// auditReport is what a verification found.
type auditReport struct {
	Valid        bool          `json:"valid"`
	Records      int64         `json:"records"`
	Sealed       int64         `json:"sealed"`
	Unsealed     int64         `json:"unsealed"`
	Checkpoints  int64         `json:"checkpoints"`
	Head         auditHead     `json:"head"`
	Problems     int64         `json:"problems"`
	FirstProblem *auditProblem `json:"first_problem"`
}

type auditHead struct {
	Seq  int64  `json:"seq"`
	Hash string `json:"hash"`
}

type auditProblem struct {
	Seq      int64      `json:"seq"`
	RecordID *uuid.UUID `json:"record_id"`
	Problem  string     `json:"problem"`
}

func (s *Server) verifyAudit(ctx context.Context, c *call) (reply, error) {
	r, err := s.Audit.Verify(ctx, c.who.TenantID)
	if err != nil {
		return reply{}, err
	}
	v := auditReport{
		Valid: r.First == nil, Records: r.Records, Sealed: r.Sealed, Unsealed: r.Unsealed, Checkpoints: r.Checkpoints,
		Head: auditHead{r.HeadSeq, r.HeadHash.String()}, Problems: r.Problems,
	}
	if r.First != nil {
		v.FirstProblem = &auditProblem{r.First.Seq, r.First.RecordID, r.First.Problem}
	}
	return ok(v), nil
}

func (s *Server) exportAudit(ctx context.Context, c *call) (reply, error) {
	f, err := c.auditFilter()
	if err != nil {
		return reply{}, err
	}
	prepare, media, ending := s.Audit.NDJSON, "application/x-ndjson", "ndjson"
	switch format, given := c.query("format"); {
	case given && strings.EqualFold(format, "csv"):
		prepare, media, ending = s.Audit.CSV, "text/csv; charset=utf-8; header=present", "csv"
	case given && !strings.EqualFold(format, "ndjson"):
		return reply{}, fault.Invalid("query.format", "enum", "format is ndjson or csv.")
	}
	export, err := prepare(ctx, c.who.TenantID, f)
	if err != nil {
		return reply{}, err
	}
	h := c.w.Header()
	h.Set("Content-Type", media)
	h.Set("Content-Disposition", fmt.Sprintf(`attachment; filename="audit-%s.%s"`, s.Now().UTC().Format("20060102T150405Z"), ending))
	h.Set("Cache-Control", "no-store")
	return reply{}, c.stream(func(w io.Writer) error { return export.WriteTo(ctx, w) })
}

// pieceTimeout is how long a caller may take to read one piece of a stream.
const pieceTimeout = 30 * time.Second

// stream answers 200 with what write writes, piece by piece. Where write fails the
// connection is broken off, so that the caller does not take a part for the whole.
func (c *call) stream(write func(io.Writer) error) error {
	allowOrigin(c)
	c.streamed = true
	c.w.WriteHeader(http.StatusOK)
	control := http.NewResponseController(c.w)
	err := write(pieces{c.w, control})
	deadline := time.Time{} // of the next answer on this connection
	if err != nil {
		deadline = time.Unix(1, 0)
	}
	_ = control.SetWriteDeadline(deadline)
	return err
}

// pieces sends each write at once, and gives the caller pieceTimeout to take it.
type pieces struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

// Write implements io.Writer.
func (p pieces) Write(b []byte) (int, error) {
	_ = p.control.SetWriteDeadline(time.Now().Add(pieceTimeout)) // only a test's recorder has none
	n, err := p.w.Write(b)
	if err == nil {
		err = p.control.Flush()
	}
	return n, err
}

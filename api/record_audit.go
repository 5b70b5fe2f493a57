package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"

	"agentruntime/api/wire"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/near"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/chain"
)

// Audit is what the audit endpoints need.
type Audit interface {
	List(ctx context.Context, tenant uuid.UUID, f audit.Filter, before *uuid.UUID, limit int) (page []audit.Entry, more bool, err error)
	Verify(ctx context.Context, tenant uuid.UUID) (audit.Report, error)
	NDJSON(ctx context.Context, tenant uuid.UUID, f audit.Filter) (*audit.Export, error)
	CSV(ctx context.Context, tenant uuid.UUID, f audit.Filter) (*audit.Export, error)
	Keys() []chain.Key
}

// auditRecord is a record with its place in the chain. Seq and Hash are null until the
// record is sealed, seconds after it was written.
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

func (h *recordHandlers) listAudit(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	limit, before, err := c.PageByID()
	if err != nil {
		return wire.Reply{}, err
	}
	f, err := auditFilter(c)
	if err != nil {
		return wire.Reply{}, err
	}
	page, more, err := h.audit.List(ctx, c.Actor.TenantID, f, before, limit)
	if err != nil {
		return wire.Reply{}, err
	}
	return wire.ListByID(limit, page, more, viewAudit, func(e audit.Entry) uuid.UUID { return e.ID }), nil
}

// auditFilter reads the filters that the list and the export have in common.
func auditFilter(c *wire.Call) (f audit.Filter, err error) {
	var v wire.Validation
	f.Provider, f.Action, f.Decision = v.QueryText(c, "provider"), v.QueryText(c, "action"), v.QueryText(c, "decision")
	f.SessionID, f.ExecutionID = v.QueryText(c, "session_id"), v.QueryText(c, "execution_id")
	f.ActorType, f.ActorID = v.QueryText(c, "actor_type"), v.QueryText(c, "actor")
	f.SubjectType, f.SubjectID = v.QueryText(c, "subject_type"), v.QueryText(c, "subject")
	f.RequestID, f.SourceAddr = v.QueryText(c, "request_id"), v.QueryText(c, "source_addr")
	if name, given, err := c.QueryVerb(); err != nil {
		return f, err
	} else if given {
		f.Provider, f.Verb = name.Provider, name.Verb
	}
	f.From, f.To = micros(v.QueryTime(c, "from")), micros(v.QueryTime(c, "to"))
	return f, v.Err()
}

// micros returns a time in UTC with the precision of Postgres, microseconds.
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

func (h *recordHandlers) listAuditKeys(context.Context, *wire.Call) (wire.Reply, error) {
	return wire.OK(auditKeys{h.audit.Keys()}), nil
}

// auditReport is the result of a verification.
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

func (h *recordHandlers) verifyAudit(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	r, err := h.audit.Verify(ctx, c.Actor.TenantID)
	if err != nil {
		return wire.Reply{}, err
	}
	v := auditReport{
		Valid: r.First == nil, Records: r.Records, Sealed: r.Sealed, Unsealed: r.Unsealed, Checkpoints: r.Checkpoints,
		Head: auditHead{r.HeadSeq, r.HeadHash.String()}, Problems: r.Problems,
	}
	if r.First != nil {
		v.FirstProblem = &auditProblem{r.First.Seq, r.First.RecordID, r.First.Problem}
	}
	return wire.OK(v), nil
}

func (h *recordHandlers) exportAudit(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	f, err := auditFilter(c)
	if err != nil {
		return wire.Reply{}, err
	}
	prepare, media, ending := h.audit.NDJSON, "application/x-ndjson", "ndjson"
	switch format, given := c.Query("format"); {
	case given && strings.EqualFold(format, "csv"):
		prepare, media, ending = h.audit.CSV, "text/csv; charset=utf-8; header=present", "csv"
	case given && !strings.EqualFold(format, "ndjson"):
		return wire.Reply{}, fault.Invalid("query.format", "enum", near.Enum("format", format, "ndjson", "csv"))
	}
	export, err := prepare(ctx, c.Actor.TenantID, f)
	if err != nil {
		return wire.Reply{}, err
	}
	header := c.ResponseHeader()
	header.Set("Content-Type", media)
	header.Set("Content-Disposition", fmt.Sprintf(`attachment; filename="audit-%s.%s"`, h.now().UTC().Format("20060102T150405Z"), ending))
	header.Set("Cache-Control", "no-store")
	return wire.Reply{}, c.Stream(func(w io.Writer) error { return export.WriteTo(ctx, w) })
}

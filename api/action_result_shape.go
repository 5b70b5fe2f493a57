package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"agentruntime/api/wire"
	"agentruntime/internal/action/run"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/maps/expression"
)

// Sandboxes bound what the programs of a tenant take.
type Sandboxes interface {
	For(party string) expression.Sandbox
}

// form is how a caller wants the result of a run. It is no part of the call, so a repeat may ask
// for another one.
type form struct {
	// fields cuts the result; nil leaves it whole.
	fields *expression.Program
	// maxBytes is the most bytes of the result in the answer; 0 for any.
	maxBytes int
}

// programError says why a program has no result. The run has one.
type programError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// form reads how the caller wants the result.
func (b runBody) form() (form, error) {
	var v wire.Validation
	f := form{fields: program(&v, "/fields", b.Fields), maxBytes: maxBytes(&v, b.MaxBytes)}
	return f, v.Err()
}

// maxBytes reads how large the result in the answer may be; 0 where the caller says nothing.
func maxBytes(v *wire.Validation, raw json.RawMessage) int {
	if raw == nil || string(raw) == "null" {
		return 0
	}
	n, err := strconv.Atoi(string(raw))
	if err != nil || n < 1 || n > expression.MaxResult {
		v.Add("/max_bytes", "range", "max_bytes is a whole number from 1 to 4194304.")
		return 0
	}
	return n
}

// program reads a jq program; nil where there is none.
func program(v *wire.Validation, path string, source *string) *expression.Program {
	if source == nil {
		return nil
	}
	p, err := expression.ParseProgram(*source)
	if err != nil {
		v.Add(path, "jq", expression.Unfit(*source))
		return nil
	}
	return p
}

// shape gives the answer the form that the caller wants. What goes wrong there is told in the
// answer, because the call has had its effect. The error is that of a call which has ended.
func (h *actionHandlers) shape(ctx context.Context, tenant uuid.UUID, f form, r run.Run, d *runData) error {
	if r.Result == nil || r.Note.Error != nil {
		return nil
	}
	if err := h.normalize(ctx, tenant, r, d); err != nil {
		return err
	}
	if f.fields != nil && r.State == run.StateExecuted {
		cut, failed, err := h.evaluated(ctx, tenant, f.fields, d.Result)
		if err != nil {
			return err
		}
		if d.Result, d.FieldsError = cut, failed; failed != nil {
			d.ResultRef = r.ExecutionID
			return nil
		}
	}
	d.bound(f.maxBytes)
	return nil
}

// normalize gives the answer the normalized form of the result. The row has the result and the
// program, as the verb had it when the call was sent. So the form needs no row of its own: a repeat
// computes the same one, also after another import.
func (h *actionHandlers) normalize(ctx context.Context, tenant uuid.UUID, r run.Run, d *runData) error {
	if r.Normalizer == "" || r.State != run.StateExecuted {
		return nil
	}
	p, syntax := expression.ParseProgram(r.Normalizer)
	if syntax != nil { // an import has checked it
		d.NormalizedError = &programError{expression.CodeFailed, expression.Unfit(r.Normalizer)}
		return nil //nolint:nilerr // it is told in the answer
	}
	out, failed, err := h.evaluated(ctx, tenant, p, r.Result)
	switch {
	case err != nil:
		return err
	case failed != nil:
	case out[0] != '{':
		failed = &programError{expression.CodeResult, "The normalized form is an object, and the verb's program has another result."}
	case len(out) > maxNormalized:
		failed = &programError{expression.CodeLimit, "The normalized form has more than 65536 bytes."}
	default:
		d.Normalized = out
	}
	d.NormalizedError = failed
	return nil
}

// maxNormalized is how many bytes a normalized form may have.
const maxNormalized = 64 << 10

// bound leaves the result out of the answer where it has more than so many bytes, and says where it
// is read. The stored result is whole, also where the answer would have a part of it.
func (d *runData) bound(most int) {
	if most == 0 || len(d.Result) <= most {
		return
	}
	if d.Result = compacted(d.Result); len(d.Result) <= most {
		return
	}
	d.ResultBytes, d.ResultRef, d.Truncated = len(d.Result), d.ExecutionID, true
	d.Result = nil
	left := fmt.Sprintf("result has %d bytes, more than max_bytes. Read the stored result in pages at GET %s.", d.ResultBytes, resultPath(d.ResultRef))
	d.Message = strings.TrimSpace(d.Message + " " + left)
}

// evaluated returns the result of a program, or why it has none. The error is that of a call which
// has ended.
func (h *actionHandlers) evaluated(ctx context.Context, tenant uuid.UUID, p *expression.Program, input json.RawMessage) (json.RawMessage, *programError, error) {
	out, err := p.Eval(ctx, h.sandboxes.For(tenant.String()), input)
	if err == nil {
		return out, nil, nil
	}
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	if failure, own := errors.AsType[*expression.Failure](err); own {
		return nil, &programError{failure.Code, "The program failed: " + failure.Detail + "."}, nil
	}
	h.log.WarnContext(ctx, "a program was not evaluated", "tenant_id", tenant, "error", err)
	return nil, &programError{string(fault.CodeServiceUnavailable), "Your tenant has too many programs under way. Repeat the call with the same id later."}, nil
}

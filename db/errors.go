package db

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"agentruntime/internal/base/fault"
)

// quotaExceeded is the SQLSTATE that quota_exceeded raises.
const quotaExceeded = "AR002"

// overBudget is the SQLSTATE that over_budget raises.
const overBudget = "AR003"

// queryCanceled is the SQLSTATE of a statement that reached statement_timeout.
const queryCanceled = "57014"

// translate turns a failure to reach Postgres into the fault SERVICE_UNAVAILABLE,
// which a caller may repeat, an exceeded quota into QUOTA_EXCEEDED, a budget without room into
// BUDGET_EXCEEDED, and a statement that took too long into SERVICE_UNAVAILABLE. It leaves every
// other error as it is.
func translate(err error) error {
	if err == nil {
		return nil
	}
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok && pe.Code == quotaExceeded {
		return fault.New(fault.CodeQuotaExceeded, pe.Message)
	}
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok && pe.Code == overBudget {
		f := fault.New(fault.CodeBudgetExceeded, pe.Message)
		if ms, err := strconv.ParseInt(pe.Detail, 10, 64); err == nil {
			f.RetryAfter = time.Duration(ms) * time.Millisecond
		}
		f.Retryable = true
		return f
	}
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok && pe.Code == queryCanceled {
		f := fault.New(fault.CodeServiceUnavailable, "The database took too long. If the call reads a list, ask for less: a narrower filter, a shorter period or a smaller page.").Because(err)
		f.Retryable = true
		return f
	}
	if !unreachable(err) {
		return err
	}
	f := fault.New(fault.CodeServiceUnavailable, "").Because(err)
	f.Retryable = true
	return f
}

func unreachable(err error) bool {
	if errors.Is(err, context.Canceled) {
		return false
	}
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch {
		case len(pe.Code) != 5:
			return false
		case pe.Code[:2] == "08", pe.Code[:2] == "53", pe.Code[:3] == "57P": // connection, resources, shutdown
			return true
		default:
			return false
		}
	}
	var ce *pgconn.ConnectError
	var ne net.Error
	return errors.As(err, &ce) || errors.As(err, &ne) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		pgconn.SafeToRetry(err) || errors.Is(err, net.ErrClosed)
}

// MayHaveCommitted reports whether a transaction that failed with err may be committed: it was
// sent, and Postgres has not answered.
func MayHaveCommitted(err error) bool {
	if StateOf(err) != "" || pgconn.SafeToRetry(err) {
		return false
	}
	_, unconnected := errors.AsType[*pgconn.ConnectError](err)
	return !unconnected && unreachable(err)
}

// IsUnique reports whether err is a violation of the named unique constraint or
// index; an empty name means any.
func IsUnique(err error, constraint string) bool {
	pe, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pe.Code == "23505" && (constraint == "" || pe.ConstraintName == constraint)
}

// IsNoRows reports whether a :one query found nothing.
func IsNoRows(err error) bool { return errors.Is(err, pgx.ErrNoRows) }

// ErrNotChanged undoes a transaction: another transaction changed its row meanwhile, so
// nothing else of the change must be written either.
var ErrNotChanged = errors.New("db: another transaction changed the row")

// notChanged is the SQLSTATE that run_not_changed raises.
const notChanged = "AR001"

// IsNotChanged reports whether a transaction was undone because another one changed its row
// meanwhile.
func IsNotChanged(err error) bool {
	pe, ok := errors.AsType[*pgconn.PgError](err)
	return errors.Is(err, ErrNotChanged) || ok && pe.Code == notChanged
}

// windowMoved is the SQLSTATE that enter_windows raises.
const windowMoved = "AR004"

// IsWindowMoved reports whether a run was not sent, because a window contains more or less than when
// the call was judged. It is to be judged again.
func IsWindowMoved(err error) bool { return StateOf(err) == windowMoved }

// unsettled is the SQLSTATE that claim_run raises.
const unsettled = "AR013"

// Unsettled returns the execution_id of an equal write whose outcome is not known, because of which a call
// of a model was not claimed; "" where err says something else. underWay: that write is at the provider.
func Unsettled(err error) (execution string, underWay bool) {
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok && pe.Code == unsettled {
		return pe.Detail, pe.Hint != ""
	}
	return "", false
}

// IsUnsettled reports whether Unsettled names an execution.
func IsUnsettled(err error) bool { return StateOf(err) == unsettled }

// serializationFailure is the SQLSTATE of a transaction that lost a race and may be repeated.
const serializationFailure = "40001"

// deadlockDetected is the SQLSTATE of a transaction that waited for one that waited for it.
const deadlockDetected = "40P01"

// IsRaced reports whether a transaction was undone because it lost a race. The same
// transaction may be sent again.
func IsRaced(err error) bool {
	pe, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pe.Code == serializationFailure
}

// IsDeadlock reports whether a transaction was undone because it waited for one that waited for it. The
// same transaction may be sent again.
func IsDeadlock(err error) bool { return StateOf(err) == deadlockDetected }

// StateOf returns the SQLSTATE of err, "" where Postgres did not answer with one. It contains
// nothing of what was sent.
func StateOf(err error) string {
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pe.Code
	}
	return ""
}

// IsDataRefused reports whether Postgres refused what a statement contained: it would refuse
// the same again. The classes are data exceptions (22), violated constraints (23) and
// exceeded limits of the program (54).
func IsDataRefused(err error) bool {
	state := StateOf(err)
	return len(state) == 5 && slices.Contains([]string{"22", "23", "54"}, state[:2])
}

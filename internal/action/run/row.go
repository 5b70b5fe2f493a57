package run

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"agentruntime/db/dbsqlc"
	"agentruntime/internal/kernel/fault"
	"agentruntime/internal/kernel/verb"
)

// fromRow turns a row into a Run; rows do not leave the package.
func fromRow(r dbsqlc.Run) Run {
	out := Run{
		ID: r.ID, TenantID: r.TenantID, ExecutionID: r.ExecutionID, ClaimKey: r.ClaimKey, Attempt: r.Attempt,
		State: State(r.State), Verb: verb.Name{Provider: r.Provider, Verb: r.Verb}, Args: json.RawMessage(r.Args),
		Fingerprint: r.Fingerprint, DryRun: r.DryRun, SessionID: r.SessionID, Metadata: r.Metadata, KeyID: r.KeyID,
		RequestID: r.RequestID, SourceAddr: r.SourceAddr, GiveUpAt: r.GiveUpAt, Risk: verb.Risk(r.RiskLevel),
		Operation: verb.Operation(r.OperationType), Decision: r.Decision, PolicyName: r.PolicyName, Reason: r.Reason,
		ApprovalID: r.ApprovalID, CredentialID: r.CredentialID, Held: r.Held, GrantID: r.GrantID, Sends: r.Sends, MaybeSent: r.MaybeSent, ProviderStatus: int(r.ProviderStatus),
		ErrorCode: fault.Code(r.ErrorCode), ErrorMessage: r.ErrorMessage, Retryable: r.Retryable,
		RetryAfter: time.Duration(r.RetryAfterMs) * time.Millisecond,
		CreatedAt:  r.CreatedAt, UpdatedAt: r.UpdatedAt, SentAt: r.SentAt, FinishedAt: r.FinishedAt,
	}
	if r.Result != nil {
		out.Result = json.RawMessage(*r.Result)
	}
	if r.EditedArgs != nil {
		out.EditedArgs = json.RawMessage(*r.EditedArgs)
	}
	if len(r.ErrorDetails) > 0 {
		// Written by this package; a row that does not parse shows no details.
		_ = json.Unmarshal(r.ErrorDetails, &out.ErrorDetails)
	}
	return out
}

// fromListed is fromRow for the columns that a list has. The arguments and the result of
// a listed run are empty; EditedArgs is not nil where there are some.
func fromListed(r dbsqlc.ListRunsRow) Run {
	row := dbsqlc.Run{
		ID: r.ID, TenantID: r.TenantID, ExecutionID: r.ExecutionID, ClaimKey: r.ClaimKey, Attempt: r.Attempt, State: r.State,
		Provider: r.Provider, Verb: r.Verb, Fingerprint: r.Fingerprint, DryRun: r.DryRun, SessionID: r.SessionID, Metadata: r.Metadata,
		KeyID: r.KeyID, RequestID: r.RequestID, SourceAddr: r.SourceAddr, GiveUpAt: r.GiveUpAt, RiskLevel: r.RiskLevel,
		OperationType: r.OperationType, Decision: r.Decision, PolicyName: r.PolicyName, Reason: r.Reason, ApprovalID: r.ApprovalID,
		CredentialID: r.CredentialID, Sends: r.Sends, MaybeSent: r.MaybeSent, ProviderStatus: r.ProviderStatus, ErrorCode: r.ErrorCode,
		ErrorMessage: r.ErrorMessage, ErrorDetails: r.ErrorDetails, Retryable: r.Retryable, RetryAfterMs: r.RetryAfterMs,
		ResolvedBy: r.ResolvedBy, CancelRequested: r.CancelRequested, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt, SentAt: r.SentAt,
		FinishedAt: r.FinishedAt, Held: r.Held, GrantID: r.GrantID,
	}
	if r.Edited {
		row.EditedArgs = new(string)
	}
	return fromRow(row)
}

// oneRow reads the single row of a batched query; found is false where it gave none.
func oneRow(res pgx.BatchResults) (r Run, found bool, err error) {
	rows, err := res.Query()
	if err != nil {
		return Run{}, false, fmt.Errorf("run: read: %w", err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[dbsqlc.Run])
	if err != nil || len(all) == 0 {
		return Run{}, false, err
	}
	return fromRow(all[0]), true, nil
}

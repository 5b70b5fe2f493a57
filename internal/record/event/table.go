package event

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/google/uuid"

	"agentruntime/internal/provider/credential"
)

// Spec is one row of the table of types.
type Spec struct {
	Type Type
	When string // for people
	// sample is the event of the example. Its body also makes the schema.
	sample Event
}

// Types returns the table, in the order of docs/reference/events.md. Every type that is emitted has a row.
func Types() []Spec { //nolint:funlen // a table
	call := Call{Verb: "shop:create_order", Provider: "shop", RiskLevel: "medium", OperationType: "write"}
	about := About{ExecutionID: "order-2026-0001", SessionID: "sess_42", CustomerID: "cus_1001"}
	args := json.RawMessage(`{"customer_id":"cus_1001","amount":1999,"currency":"eur"}`)
	approval := "appr_0199a1f0-3b6e-7c40-9d55-0a3c5f0f6a22"
	customer := "0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a92"
	webhook := "0199a1f0-3b6e-7c40-9d55-0a3c5f0f6a23"
	key := "0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a91"
	until := time.Date(2026, 2, 1, 9, 0, 0, 0, time.UTC)
	of := func(kind CauseType, id string) []Cause { return []Cause{{kind, id}} }
	asked := []Cause{{CauseApproval, approval}, {CauseExecution, about.ExecutionID}}
	return []Spec{
		{ActionExecuted, "The provider did what was asked.", Event{About: about, Body: Executed{Outcome{
			Call: call, Attempt: 1, DurationMS: 184, ProviderStatus: 201, Result: json.RawMessage(`{"id":"ord_77","total":1999}`),
		}}}},
		{ActionFailed, "The call failed. A call that was refused before it was sent has this event only where people had to decide about it: otherwise its caller has the answer.", Event{About: about, Body: Failed{Outcome{
			Call: call, Attempt: 1, DurationMS: 184, ProviderStatus: 402, Error: &Problem{"PROVIDER_REJECTED", "The provider refused the call (402)."},
			Result: json.RawMessage(`{"error":"card_declined"}`),
		}}}},
		{ActionOutcomeUnknown, "The call was sent and its outcome is not known. A person, or the verb's read-back, settles it; then action.executed or action.failed follows.", Event{About: about, Body: Unknown{Outcome{
			Call: call, Attempt: 1, DurationMS: 20140, Error: &Problem{"OUTCOME_UNKNOWN", "The call was sent and the provider's answer was lost."},
		}}}},
		{ActionBlocked, "Governance blocked the call. Nothing was sent.", Event{About: about, Body: Blocked{
			Call: call, ApprovalID: approval, PolicyName: "No large orders", Reason: "Blocked by the policy \"No large orders\"", Args: args,
		}}},
		{ActionNotified, "A call is about to be sent of which the tenant is to be told: the verb's risk is medium, or a policy says so.", Event{About: about, Body: Notified{
			Call: call, Reason: "Medium risk: runs and notifies", Args: args,
		}}},
		{ApprovalRequested, "A call or a step of a Map waits for approval, or a dry run was stopped whose request can be sent.", Event{About: about, Causes: of(CauseExecution, about.ExecutionID), Body: Requested{
			ApprovalID: approval, Kind: "hold", Call: call, PolicyName: "Large orders", Reason: "Held by the policy \"Large orders\"", ExpiresAt: until, Args: args,
		}}},
		{ApprovalDecided, "An approval ended: people approved or rejected, no user decided in time, the call or the execution was cancelled, or the approval no longer fits the call.", Event{About: about, Causes: asked, Body: Decided{
			ApprovalID: approval, Status: "approved", DecidedBy: "user:0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a90", Reason: "Known customer", Verb: call.Verb, Provider: call.Provider,
		}}},
		{EscalationCreated, "People are asked to act: a call or a step of a Map waits for approval, nobody decided in time and owners and admins are asked too, or a Map hands over to people.", Event{About: about, Causes: asked, Body: Escalated{
			Kind: "approval", Reason: "Held by the policy \"Large orders\"", ApprovalID: approval, Verb: call.Verb, ExpiresAt: until,
		}}},
		{ConversationCompleted, "An agent has replied to a message, or stopped without a reply. A message whose call waits for people has one event when it begins to wait, and another one when it goes on.", Event{
			About: About{ExecutionID: "exec_0199a1f0-3b6e-7c40-9d55-0a3c5f0f6a24", SessionID: "sess_42", CustomerID: customer, AgentID: "0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a95"},
			Body:  Conversation{Message: "Your order ord_77 was sent today.", Status: "completed", StopReason: "final_answer", ActionsExecuted: 1, TokensUsed: 412},
		}},
		{GoalReached, "An agent has reached a goal: each of its criteria is met.", Event{
			About: About{ExecutionID: "exec_0199a1f0-3b6e-7c40-9d55-0a3c5f0f6a26", SessionID: "sess_42", CustomerID: customer, AgentID: "0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a95"},
			Body: GoalCompleted{Goal{
				Status: "completed", StopReason: "criteria_met", Reason: "The order is refunded.", Criteria: []GoalCriterion{{"refunded", true}}, ActionsExecuted: 2, TokensUsed: 1840,
			}},
		}},
		{GoalMissed, "An agent has stopped before it has reached a goal, or the goal was cancelled.", Event{
			About: About{ExecutionID: "exec_0199a1f0-3b6e-7c40-9d55-0a3c5f0f6a26", AgentID: "0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a95"},
			Body: GoalFailed{Goal{
				Status: "failed", StopReason: "step_cap", Reason: "I could not reach this goal: it took more steps than I may make.", Criteria: []GoalCriterion{{"refunded", false}}, ActionsExecuted: 20, TokensUsed: 31200,
			}},
		}},
		{SessionTakenOver, "A person took over a session with an agent. No model is asked until it is handed back.", Event{
			About: About{SessionID: "sess_42", CustomerID: customer, AgentID: "0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a95"},
			Body:  TakenOver{By: "user:0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a90"},
		}},
		{SessionMessage, "Something was said in a session that a person has taken over: by the customer, or by the person.", Event{
			About: About{SessionID: "sess_42", CustomerID: customer, AgentID: "0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a95"},
			Body:  SessionSaid{MessageID: "0199a1f0-3b6e-7c40-9d55-0a3c5f0f6a25", From: "person", By: "user:0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a90", Message: "I have looked at your order. It leaves today."},
		}},
		{SessionHandedBack, "A session was handed back to its agent, which answers again.", Event{
			About: About{SessionID: "sess_42", CustomerID: customer, AgentID: "0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a95"},
			Body:  HandedBack{By: "user:0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a90"},
		}},
		{FeedbackGiven, "A key or a user rated the reply to a message, or changed the rating.", Event{
			About: About{ExecutionID: "exec_0199a1f0-3b6e-7c40-9d55-0a3c5f0f6a24", SessionID: "sess_42", CustomerID: customer, AgentID: "0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a95"},
			Body:  Rated{Rating: "down", Comment: "It did not answer the question.", By: "key:0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a91"},
		}},
		{KillSwitchSet, "A user set a kill switch: no call that it covers begins from then on.", Event{Body: SwitchedOff{Switch{
			KillSwitchID: "0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a94", Scope: "provider", Target: "shop", Reason: "The shop charges twice.",
		}, "user:0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a90"}}},
		{KillSwitchLifted, "A user lifted a kill switch.", Event{Body: SwitchedOn{Switch{
			KillSwitchID: "0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a94", Scope: "provider", Target: "shop", Reason: "The shop charges twice.",
		}, "user:0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a90"}}},
		{CustomerCreated, "A customer was created.", Event{About: About{CustomerID: customer}, Body: NewCustomer{Fields: []string{"email", "name"}}}},
		{CustomerErased, "All that was stored about a customer is erased, but for masked audit records.", Event{About: About{CustomerID: customer}, Body: ErasedCustomer{Erased: []ErasedKind{{"executions", 3}, {"credentials", 1}}}}},
		{CustomerMerged, "A customer was merged into another one, which the event is about.", Event{About: About{CustomerID: customer}, Body: MergedCustomer{MergedID: "0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a93"}}},
		{CredentialExpiring, "A credential expires soon. Told 7 days before and 1 day before, once each.", Event{Body: Expiring{Expiry{
			CredentialID: "0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a95", Provider: "shop", Kind: string(credential.Bearer), Label: "Shop, live", ExpiresAt: until,
		}}}},
		{CredentialExpired, "A credential has expired. No call uses it from then on: a call that needs it is `CREDENTIAL_EXPIRED`.", Event{Body: ExpiredCredential{Expiry{
			CredentialID: "0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a95", Provider: "shop", Kind: string(credential.Bearer), Label: "Shop, live", ExpiresAt: until,
		}}}},
		{MapCompletedType, "An execution of a Map completed.", Event{About: about, Body: MapCompleted{MapEnd{
			MapID: "0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a95", Version: 3, Status: "completed", ActionsExecuted: 2, DurationMS: 412,
		}, json.RawMessage(`{"refund":"ref_12"}`)}}},
		{MapFailedType, "An execution of a Map failed or was cancelled.", Event{About: about, Body: MapFailed{MapEnd{
			MapID: "0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a95", Version: 3, Status: "failed", ActionsExecuted: 1, DurationMS: 305,
		}, &MapError{"PROVIDER_REJECTED", "The provider refused the call.", "/steps/2"}, &MapCompensation{Undone: 1}}}},
		{MapWaitingType, "An execution of a Map waits: for people, an event, a time, or what only people can find out.", Event{About: about, Body: MapWaiting{
			MapID: "0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a95", Version: 3, WaitingFor: "approval", Step: "ask", Until: &until,
		}}},
		{KeyRevoked, "An API key was revoked.", Event{Body: Revoked{APIKeyID: key, RevokedBy: "user:0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a90"}}},
		{LimitExceeded, "A request was refused because a window of the tenant's rate limits is full. Once for each window.", Event{Body: Exceeded{
			Window: "minute", Callers: "keys", Limit: 600, ResetsAt: until,
		}}},
		{BudgetWarning, "80 % of a budget are used. Once for each month and budget, within seconds.", Event{Body: BudgetWarned{Budget{
			Measure: "write_calls", Month: "2026-01", Limit: 10_000, Used: 8_000, ResetsAt: until,
		}}}},
		{BudgetExhausted, "A budget is used up, or a call did not fit into what is left. Once for each month and budget, within seconds.", Event{Body: BudgetUsedUp{Budget{
			Measure: "model_tokens", APIKeyID: key, Month: "2026-01", Limit: 1_000_000, Used: 999_900, ResetsAt: until,
		}}}},
		{VerbQuarantined, "An import changed verbs that policies, Maps or agents name. Their calls are blocked until a user accepts them.", Event{Body: Quarantined{
			Provider: "shop", Verbs: []string{"shop:create_refund"}, Total: 1, ImportedBy: "key:0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a91",
		}}},
		{CustomAny, "Software of the tenant sent it, by `POST /v1/events`. The type begins with `custom.`, and the sender chooses the rest.", Event{Body: Custom{
			kind: "custom.order_shipped", ID: "shipment-17", SentBy: "key:0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a91", Correlate: "order-2026-0001", Data: json.RawMessage(`{"order":"ord_77","carrier":"post"}`),
		}}},
		{WebhookDisabled, "The service disabled a webhook, because its receiver is gone or fails.", Event{Body: Disabled{WebhookID: webhook, Reason: "failing"}}},
		{WebhookTest, "A test of a webhook. Only that webhook is told of it.", Event{Body: Test{WebhookID: webhook}}},
	}
}

// Example returns an event of the type, as receivers get it.
func (s Spec) Example() json.RawMessage {
	return s.sample.encode(uuid.MustParse("0199a1f0-3b6e-7c40-9d55-0a3c5f0f6a10"), time.Date(2026, 1, 31, 9, 0, 0, 123456000, time.UTC))
}

// Schema returns the JSON Schema (2020-12) of the type. It allows members that it does not list,
// because later releases add some.
func (s Spec) Schema() json.RawMessage { return encoded(schemaOf(s)) }

// SchemaType returns the type whose schema an event has. All custom events share one.
func SchemaType(t Type) Type {
	if strings.HasPrefix(string(t), customPrefix) {
		return CustomAny
	}
	return t
}

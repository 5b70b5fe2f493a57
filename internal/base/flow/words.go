package flow

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"agentruntime/internal/maps/stepmachine"
)

// The texts that operators read in the Temporal UI. Summaries are in the clear, so they have
// only ids and words of the catalog. Details are encrypted, and the UI shows them as Markdown.

// Summary returns the line that operators read in the list: "provider:verb · risk", or the type
// of the event that is delivered.
func (l Listing) Summary() string {
	if l.Kind == KindDelivery {
		return "delivers " + l.Event + " to a webhook"
	}
	if l.Kind == KindMap {
		return "runs the Map " + l.named()
	}
	if l.Kind == KindMessage {
		return "answers a message to the agent " + l.named()
	}
	if l.Kind == KindGoal {
		return "pursues a goal of the agent " + l.named()
	}
	if l.Kind == KindChanges {
		return "applies the changes of a dry run of the Map " + l.named()
	}
	return l.Verb + " · " + l.Risk
}

// named returns the subject by its name, and by its id where the name is not known.
func (l Listing) named() string {
	if l.Name == "" {
		return l.Subject
	}
	return strconv.Quote(l.Name)
}

// DeliveryDetails returns the text below the summary of a delivery. publicURL is the address of
// the API, "" where it is not known.
func DeliveryDetails(publicURL string, ref DeliveryRef) string {
	return "The deliveries are at " + publicURL + "/v1/webhooks/" + ref.WebhookID.String() + "/deliveries"
}

// ExecutionDetails returns the text below the summary. publicURL is the address of the API,
// "" where it is not known. A caller may have chosen the id, so it is escaped.
func ExecutionDetails(publicURL, executionID string) string {
	return "The execution is at " + publicURL + "/v1/executions/" + url.PathEscape(executionID)
}

// HoldSummary returns the text that operators read at a timer that waits for approval. It
// says where to decide, and what operators can do themselves.
func HoldSummary(approvalID string) string {
	return "waits for " + approvalID + " · decide it at /v1/approvals/" + approvalID + " · the signal " + SignalReject + " stops the call"
}

// Texts that operators read at other timers.
const (
	CallSummary   = "waits for the call at the provider"
	RetrySummary  = "waits before the next attempt"
	FaultSummary  = "waits after a fault of the service"
	CrowdSummary  = "waits until other expressions of the tenant are evaluated"
	AnswerSummary = "waits for an answer"
	OtherSummary  = "waits for the execution that it has started"

	ErasureSummary = "erases a customer"
	ErasureWaits   = "waits for calls of the customer that are under way or held"
)

// AskSummary returns the text that operators read at an answer of a model, and ToolSummary that at a
// call that an agent asks for. Both are encrypted, and readable through the codec.
func AskSummary(model string) string { return "asks " + model }

// ToolSummary is described at AskSummary.
func ToolSummary(verb string) string { return "calls " + verb }

// MapCallSummary returns the text at the call of a step of a Map, MapAskSummary that at a question to
// people. They name the step by its place, and the question by its title as the definition has it: no
// argument is in either. Both are encrypted.
func MapCallSummary(verb, step string) string {
	return ToolSummary(verb) + " · " + step
}

// MapAskSummary is described at MapCallSummary.
func MapAskSummary(title, step string) string {
	if title == "" {
		return "asks people · " + step
	}
	return "asks people: " + title + " · " + step
}

// WaitSummary returns the text at a timer of a workflow that waits for a call, or for an execution that it
// has started. what is the verb or the execution, approvalID the approval; both are "" where they are not
// known.
func WaitSummary(waits stepmachine.Waiting, what, approvalID string) string {
	var text string
	switch waits {
	case "":
		return CallSummary
	case stepmachine.WaitsApproval:
		text = strings.TrimSuffix("waits for people to decide "+approvalID, " ")
	case stepmachine.WaitsResolve:
		text = "waits for people to find out what came of the call"
	case stepmachine.WaitsKillSwitch:
		text = "waits for a kill switch to be lifted"
	default:
		return OtherSummary
	}
	if what == "" {
		return text
	}
	return text + " · " + what
}

// StepSummary returns the text that operators read at a step, "" for one without a text.
func StepSummary(activity string) string {
	switch activity {
	case string(GovernRun):
		return "checks policies, arguments and connection"
	case string(SendRun):
		return "calls the provider"
	case string(DecideRun):
		return "counts a decision"
	case string(RejectRun):
		return "rejects the call for an operator"
	case string(HandOverRun):
		return "gives the run to a workflow of its own"
	case string(GiveUpRun):
		return "looks whether the time of the run is over"
	case string(AnswerTurn):
		return "has the model answer"
	case string(CallFromTurn):
		return "makes a call that the agent asks for"
	case string(EraseNext):
		return "erases the next batch"
	case string(BeginMap):
		return "reads the definition and the payload"
	case string(WriteMap):
		return "writes what the steps have done"
	case string(LookAtMap), string(LookAtTurn):
		return "looks for news"
	case string(EvaluateInMap):
		return "evaluates an expression"
	case string(StartMapOfMap):
		return "starts another Map"
	case string(FinishMap):
		return "writes how the execution ended"
	case string(EndTurn):
		return "writes how the message ended"
	case string(LookAtRun):
		return "reads how far the run is"
	case string(AttemptDelivery):
		return "sends the event to the webhook"
	}
	return ""
}

// Summaries returns all summaries that are fixed texts.
func Summaries() []string {
	all := []string{CallSummary, AnswerSummary, OtherSummary, RetrySummary, FaultSummary, CrowdSummary, ErasureSummary, ErasureWaits, StepSummary(string(EraseNext))}
	for _, a := range []Activity[RunRef, Step]{GovernRun, SendRun, RejectRun, GiveUpRun, LookAtRun} {
		all = append(all, StepSummary(string(a)))
	}
	for _, name := range []string{
		string(DecideRun), string(HandOverRun), string(AttemptDelivery), string(BeginMap), string(WriteMap), string(LookAtMap),
		string(EvaluateInMap), string(StartMapOfMap), string(FinishMap), string(EndTurn),
	} {
		all = append(all, StepSummary(name))
	}
	return all
}

// A Hold says what a run waits for, or the step of a Map.
type Hold struct {
	// Verb is "provider:verb", Risk its risk level. Step is the place of the step in the definition; ""
	// for a run.
	Verb, Risk, Step string
	ApprovalID       string
	// Who are the requirements, each in words.
	Who   []string
	Until time.Time
	// PublicURL is the address of the API, "" where it is not known.
	PublicURL string
}

// A HeldCall is a call of an agent that waits for people. Verb is "" for one that has started another
// execution. ApprovalID is "" where people have to find out what came of the call.
type HeldCall struct {
	Verb, ApprovalID string
	// Execution is that of the run, or the other one; "" where there is none yet.
	Execution string
}

func (c HeldCall) words() string {
	what := "`" + c.Verb + "`"
	if c.Verb == "" {
		what = "the execution " + c.Execution + ", which it has started"
	}
	if c.ApprovalID == "" {
		return what + ": find out what came of the call, and say so at /v1/executions/" + c.Execution + "/resolve"
	}
	return what + ": decide it at /v1/approvals/" + c.ApprovalID
}

// TurnDetails returns in words what a message waits for.
func TurnDetails(held []HeldCall) string {
	var b strings.Builder
	b.WriteString("**The message waits for people.** Others of its session are answered meanwhile.\n")
	for _, c := range held[:min(len(held), whoMost)] {
		b.WriteString("\n- " + c.words())
	}
	if more := len(held) - whoMost; more > 0 {
		b.WriteString("\n- " + strconv.Itoa(more) + " calls more")
	}
	return b.String()
}

// whoMost bounds the requirements that the details name.
const whoMost = 5

// HoldDetails returns in words who can decide, where and until when.
func HoldDetails(h Hold) string {
	var b strings.Builder
	what, here := fmt.Sprintf("%s (risk %s)", h.Verb, h.Risk), "the signal "+SignalReject+", or Cancel, stops the call"
	if h.Step != "" {
		what, here = "the step "+h.Step, "Cancel ends the execution"
	}
	fmt.Fprintf(&b, "**Waits for approval** of %s.\n\n", what)
	for _, who := range h.Who[:min(len(h.Who), whoMost)] {
		b.WriteString("- Needed: " + who + ".\n")
	}
	if more := len(h.Who) - whoMost; more > 0 {
		fmt.Fprintf(&b, "- Needed: %d more, which the approval lists.\n", more)
	}
	fmt.Fprintf(&b, "- Where: %s/v1/approvals/%s (with a login: POST to it, with /approve or /reject).\n", h.PublicURL, h.ApprovalID)
	fmt.Fprintf(&b, "- Until: %s.\n", clock(h.Until))
	b.WriteString("- Here: " + here + ". Nothing here approves it.")
	return b.String()
}

// PauseDetails returns in words what a run waits for that waits for no approval.
func PauseDetails(step Step, now time.Time) string {
	until := clock(now.Add(step.After))
	if step.UnderWay {
		return "**The call is at the provider**, or waits for its turn. The run looks at it again at " + until + "."
	}
	return "**Waits before the next attempt** to reach the provider, until " + until + "."
}

// FaultDetails returns in words which step fails by a fault of the service.
func FaultDetails(activity string, tries int, next time.Time) string {
	return fmt.Sprintf("**A fault of the service**: the step %s has failed %d times. The log of the workers says why. The next try is at %s.",
		activity, tries, clock(next))
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

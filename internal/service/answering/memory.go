package answering

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"agentruntime/internal/agents/agentdef"
	"agentruntime/internal/agents/agentloop"
	"agentruntime/internal/agents/conversation"
	"agentruntime/internal/agents/modelstep"
	"agentruntime/internal/agents/recall"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/internal/tenant/facts"
)

// The tools of the service that this package answers.
const (
	toolMemoryWrite = "tool:memory_write"
	toolMemoryRead  = "tool:memory_read"
)

// Bounds of what one message reads and writes of its customer's memory.
const (
	mostFound    = 8
	mostWritten  = 10
	mostKnown    = 20 // facts that the model reads which says what to remember
	learnAtMost  = time.Minute
	placeOfAuto  = "auto/"
	placeOfCalls = "calls/"
)

// remembers reports whether the message reads and writes what is remembered of its customer.
func (w *work) remembers() bool { return w.Turn.Remembers && w.Turn.Customer != nil }

// remember sets what the part reads of the customer's memory: what the message brings to mind, for all
// parts of the message.
func (a *Answerer) remember(ctx context.Context, w *work) error {
	if !w.remembers() {
		return nil
	}
	for _, answer := range w.Answers {
		if answer.Frame != nil {
			w.frame.Remembered = answer.Frame.Remembered
			return nil
		}
	}
	known, err := w.known(ctx)
	if err != nil {
		return err
	}
	w.frame.Remembered = recall.Choose(facts.Plain(known), w.Turn.Message)
	w.noteUsed(w.frame.Remembered)
	return nil
}

func (w *work) noteUsed(chosen []recall.Chosen) {
	if len(chosen) > 0 {
		w.Turn.Memory.Use(chosen)
		w.next.Memory = &w.Turn.Memory
	}
}

// recalled are the facts that the model reads in the next answer and not in those before.
func (w *work) recalled() (ids []uuid.UUID) {
	chosen := w.next.Recalled
	if w.next.Frame != nil {
		chosen = slices.Concat(w.next.Frame.Remembered, chosen)
	}
	for _, c := range chosen {
		ids = append(ids, c.ID)
	}
	return ids
}

// readUntrusted reports whether the agent has read a fact that others may have made an agent write.
func (w *work) readUntrusted() bool {
	return slices.ContainsFunc(append(slices.Clip(w.Answers), w.next), func(a conversation.Answer) bool { return len(a.UntrustedFacts()) > 0 })
}

// platform answers a call of a tool of the service. It can be repeated: a fact is written once.
func (a *Answerer) platform(ctx context.Context, w *work, means Resolved, number int) (modelstep.ToolEnd, error) {
	switch {
	case w.ended:
		return failed(flow.CodeNotMade, "The message has ended."), nil
	case !w.remembers():
		return failed(fault.CodeVerbNotFound, "Nothing is remembered for this message."), nil
	}
	switch means.Platform {
	case toolMemoryWrite:
		return a.memoryWrite(ctx, w, means.Args, number)
	case toolMemoryRead:
		return a.memoryRead(ctx, w, means.Args)
	default:
		return failed(fault.CodeVerbNotFound, "This tool does not exist yet."), nil
	}
}

func failed(code fault.Code, detail string) modelstep.ToolEnd {
	return modelstep.ToolEnd{Status: string(stepmachine.CallFailed), Error: stepmachine.NewError(string(code), detail)}
}

func answered(v any) (modelstep.ToolEnd, error) {
	raw, err := exactjson.Encode(v)
	if err != nil {
		return modelstep.ToolEnd{}, fmt.Errorf("answering: %w", err)
	}
	return modelstep.ToolEnd{Status: string(stepmachine.CallExecuted), Result: raw}, nil
}

func (a *Answerer) memoryWrite(ctx context.Context, w *work, raw json.RawMessage, number int) (modelstep.ToolEnd, error) {
	var args struct {
		Fact       string
		Profile    bool
		Supersedes string
	}
	if json.Unmarshal(raw, &args) != nil || strings.TrimSpace(args.Fact) == "" {
		return failed(fault.CodeInvalidArgs, "fact is a text, profile true or false, and supersedes the id of a fact."), nil //nolint:nilerr // the model reads it
	}
	if len(w.Turn.Memory.Written) >= mostWritten {
		return failed(fault.CodeQuotaExceeded, "This message has written "+strconv.Itoa(mostWritten)+" facts, and can write no others."), nil
	}
	l := recall.Learned{Text: args.Fact, Profile: args.Profile}
	if args.Supersedes != "" {
		id, err := uuid.Parse(args.Supersedes)
		if err != nil {
			return failed(fault.CodeInvalidArgs, "supersedes is the id of a fact."), nil //nolint:nilerr // the model reads it
		}
		l.Supersedes = &id
	}
	at := placeOfCalls + stepOf(len(w.Answers)-1, number)
	id, err := a.write(ctx, w, at, facts.ByTool, l)
	if f := fault.As(err); f != nil && f.Code != fault.CodeInternal && f.Code != fault.CodeServiceUnavailable {
		return modelstep.ToolEnd{Status: string(stepmachine.CallFailed), Error: stepmachine.OfFault(f)}, nil
	}
	if err != nil {
		return modelstep.ToolEnd{}, err
	}
	w.next.Memory = &w.Turn.Memory
	return answered(map[string]any{"fact_id": id, "remembered": true})
}

// write writes a fact of the message, and notes it. What it would supersede may be gone by now: then it
// supersedes nothing.
func (a *Answerer) write(ctx context.Context, w *work, at string, source facts.Source, l recall.Learned) (uuid.UUID, error) {
	t := w.Turn
	in := facts.NewFact{
		ID: facts.IDOf(t.ID, at), Text: l.Text, Profile: l.Profile, Tainted: w.tainted(), Source: source, Supersedes: l.Supersedes,
		AgentID: &t.AgentID, SessionID: t.SessionID, ExecutionID: t.ExecutionID,
	}
	who := actor.Actor{Kind: actor.Agent, TenantID: t.TenantID, ID: t.AgentID}
	id, written, err := a.d.Facts.Write(ctx, who, t.Customer.String(), in)
	if in.Supersedes != nil && fault.HasCode(err, fault.CodeValidation) {
		// Another message has superseded that fact meanwhile, or it was deleted. This one is true all the same.
		in.Supersedes = nil
		id, written, err = a.d.Facts.Write(ctx, who, t.Customer.String(), in)
	}
	if err == nil && (written || id == in.ID) {
		w.Turn.Memory.Write(conversation.FactWritten{ID: id, By: string(source), Text: l.Text})
	}
	return id, err
}

func (a *Answerer) memoryRead(ctx context.Context, w *work, raw json.RawMessage) (modelstep.ToolEnd, error) {
	var args struct{ Query string }
	if json.Unmarshal(raw, &args) != nil || strings.TrimSpace(args.Query) == "" {
		return failed(fault.CodeInvalidArgs, "query is a text with the words to look for."), nil //nolint:nilerr // the model reads it
	}
	known, err := a.d.Facts.InUse(ctx, w.Turn.TenantID, w.Turn.Customer.String())
	if err != nil {
		return modelstep.ToolEnd{}, err
	}
	found := recall.Search(facts.Plain(known), args.Query, mostFound)
	shown := make([]agentloop.Remembered, len(found))
	for i := range found {
		found[i].Why = recall.ByTool
		shown[i] = agentloop.RememberedOf(found[i].Fact)
	}
	w.next.Recalled = append(w.next.Recalled, found...)
	w.noteUsed(found)
	return answered(map[string]any{"facts": shown, "known_in_all": len(known)})
}

// retain asks the model that summarises what the message says of its customer, and remembers it, after the
// reply was given. What fails is logged only: the message is answered. The error is that of a context that
// ended, so that another worker does it.
func (a *Answerer) retain(ctx context.Context, w *work, reply conversation.Reply) error {
	if !w.retains() || w.in.Part != 0 || reply.Text == nil || reply.Status == conversation.StatusFailed {
		return nil
	}
	err := a.retainOf(ctx, w, *reply.Text)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		a.d.Log.WarnContext(ctx, "nothing was remembered of a message", "execution_id", w.Turn.ExecutionID, "error", err)
	}
	return nil
}

// retains reports whether it is to be found out what the message says, and was not yet. Without a language
// model nothing is. The words of a goal are those of the caller, and an agent that works by a Map reads no
// memory.
func (w *work) retains() bool {
	d := w.Agent.Definition
	return w.remembers() && w.Turn.Kind != flow.KindGoal && !w.Turn.Memory.Learned && d.Memory.Customer == agentdef.MemoryAuto && d.ExecutionMode != agentdef.WorkflowOnly &&
		agentloop.IsLanguageModel(w.summarizer())
}

// summarizer is the model that finds out what to remember.
func (w *work) summarizer() *agentdef.Model {
	return or(w.Agent.Definition.Models.Summarizer, w.Agent.Definition.Models.Worker)
}

// retainLate is retain for a message whose worker died after the reply.
func (a *Answerer) retainLate(ctx context.Context, w *work) error {
	if !w.remembers() || w.Turn.Memory.Learned || w.Turn.Reply == nil || len(w.Answers) == 0 {
		return nil
	}
	if err := a.d.Conversations.AgentOf(ctx, &w.Work); err != nil {
		return err
	}
	w.in.Part = int(w.Turn.Replies) - 1
	return a.retain(ctx, w, conversation.Reply{Text: w.Turn.Reply, Status: w.Turn.Status})
}

// mayChange returns the known facts that the model reads which says what to remember of a message: those
// that fit it, and then those of the profile. It reads no tainted fact: what it writes would not be marked.
func mayChange(known []recall.Fact, message string) (shown []recall.Fact) {
	var profile []recall.Fact
	trusted := slices.DeleteFunc(slices.Clone(known), func(f recall.Fact) bool { return f.Tainted })
	for _, c := range recall.Choose(trusted, message) {
		if c.Why == recall.OfProfile {
			profile = append(profile, c.Fact)
		} else {
			shown = append(shown, c.Fact)
		}
	}
	shown = append(shown, profile...)
	return shown[:min(len(shown), mostKnown)]
}

func (a *Answerer) retainOf(ctx context.Context, w *work, reply string) error {
	t := w.Turn
	if err := a.d.Facts.RequireCustomer(ctx, t.TenantID, t.Customer.String()); fault.HasCode(err, fault.CodeCustomerNotFound) {
		return nil // erased since the message: no model reads their words again
	} else if err != nil {
		return err
	}
	all, err := a.d.Facts.InUse(ctx, t.TenantID, t.Customer.String())
	if err != nil {
		return err
	}
	shown := mayChange(facts.Plain(all), t.Message)
	answer, err := a.askAside(ctx, w, w.summarizer(), agentloop.LearnRequest(t.Message, reply, shown), a.d.Now().Add(learnAtMost))
	if err != nil {
		return err
	}
	learned := agentloop.Learned(answer, shown)
	for i, l := range learned {
		if _, err := a.write(ctx, w, placeOfAuto+strconv.Itoa(i), facts.Auto, l); err != nil && !fault.HasCode(err, fault.CodeValidation) {
			return err
		}
	}
	w.Turn.Memory.Learned = true
	return a.d.Conversations.NoteMemory(ctx, w.Work, w.Turn.Memory)
}

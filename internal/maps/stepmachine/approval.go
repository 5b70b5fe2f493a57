package stepmachine

import (
	"encoding/json"
	"time"

	"agentruntime/internal/maps/mapdef"
)

// approvalTime is how long people have where the step does not say.
const approvalTime = 24 * time.Hour

// ask asks people. In a dry run they are not asked: the step goes on as if they approved.
func (m *machine) ask(t *Task, do *mapdef.DoApproval, input Value) {
	if m.s.DryRun {
		m.complete(t, decision(Decided{Decision: Approve}))
		return
	}
	title := input.member("title")
	var text string
	_ = json.Unmarshal(title.raw(), &text) // a text, by its evaluation
	within := do.Timeout.Std()
	if within <= 0 {
		within = approvalTime
	}
	m.enter(t, phaseApproval)
	ask := AskApproval{
		Ref: t.still(), Title: text, Payload: t.Input.member("payload"), Approvers: do.Approvers, Required: max(1, do.Required),
		Form: do.Form, SelfApproval: do.SelfApproval, ExpiresAt: m.now.Add(within),
	}
	if title.referred() {
		ask.StoredTitle = &title
	}
	m.do(ask)
	m.startTimer(t, TimerApproval, m.now.Add(within))
	m.record(t, StepWaiting, nil, nil)
}

// member returns a member of an object that has it.
func (v Value) member(name string) Value {
	if v.Stored != nil {
		at := *v.Stored
		at.At += "/" + name
		at.Bytes, at.Items = 0, nil
		return Value{Stored: &at, Invented: v.Invented}
	}
	for _, m := range v.Members {
		if m.Name == name {
			return m.Value
		}
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(v.raw(), &members); err != nil {
		return Value{}
	}
	return Value{JSON: members[name], Invented: v.Invented}
}

// decided goes on with what people decided, or with the end of their time.
func (m *machine) decided(e Decided) {
	t := m.task(e.Ref.still(), phaseApproval)
	if t == nil {
		return
	}
	if e.Error != nil {
		m.fail(t, e.Error)
		return
	}
	output := decision(e)
	switch e.Decision {
	case Reject:
		m.fail(t, NewError(mapdef.CodeApprovalRejected, e.Reason))
	case Expired:
		m.expired(t, output)
	case Approve, Edit, Respond:
		m.complete(t, output)
	}
}

// expired goes on where nobody decided in time.
func (m *machine) expired(t *Task, output Value) {
	do, _ := m.p.step(t).Do.(*mapdef.DoApproval)
	switch do.OnTimeout {
	case mapdef.TimeoutContinue:
		m.complete(t, output)
	case mapdef.TimeoutFail:
		m.fail(t, NewError(mapdef.CodeApprovalExpired, "nobody decided in time"))
	default: // reject
		m.fail(t, NewError(mapdef.CodeApprovalRejected, "nobody decided in time"))
	}
}

// decision returns the output of an approval.
func decision(e Decided) Value {
	optional := func(text string) Value {
		if text == "" {
			return Value{}
		}
		return Text(text)
	}
	members := []Named{
		{"by", optional(e.By)}, {"decision", Text(string(e.Decision))}, {"reason", optional(e.Reason)}, {"response", e.Response},
	}
	if e.Decision == Edit {
		members = append(members, Named{"payload", e.Payload})
	}
	return object(members)
}

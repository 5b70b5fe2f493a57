package simulate

import (
	"fmt"
	"strings"

	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/maps/stepmachine"
)

// lines writes an event and its commands as text, one line each. Lines of another Map than
// the one of the case begin with its id.
func lines(x *execution, e stepmachine.Event, commands []stepmachine.Command) []string {
	prefix := ""
	if x.id != "exec" {
		prefix = strings.TrimPrefix(x.id, "exec/") + ": "
	}
	first := "start"
	if e != nil {
		first = describe(e.Name(), e)
	}
	list := []string{prefix + first}
	for _, c := range commands {
		list = append(list, prefix+"  "+describe(c.Name(), c))
	}
	return list
}

// describe writes a command or an event without what repeats: times and empty members.
func describe(name string, what any) string {
	switch c := what.(type) {
	case stepmachine.StartVerb:
		return fmt.Sprintf("%s %s %s %s", name, c.Ref, c.Verb, short(c.Args))
	case stepmachine.StartModel:
		return fmt.Sprintf("%s %s %s %s", name, c.Ref, c.Type, short(c.Input))
	case stepmachine.StartMap:
		return fmt.Sprintf("%s %s %s %s", name, c.Ref, c.MapID, short(c.Payload))
	case stepmachine.StopCall:
		return fmt.Sprintf("%s %s", name, c.Ref)
	case stepmachine.Evaluate:
		return fmt.Sprintf("%s %s %s", name, c.Ref, c.What)
	case stepmachine.StartTimer:
		return fmt.Sprintf("%s %s %s +%s", name, c.Ref, c.Timer, c.At.Sub(epoch()))
	case stepmachine.CancelTimer:
		return fmt.Sprintf("%s %s %s", name, c.Ref, c.Timer)
	case stepmachine.AskApproval:
		var who strings.Builder
		for _, a := range c.Approvers {
			fmt.Fprintf(&who, " by %s %s", a.Type, a.Value)
		}
		if c.SelfApproval {
			who.WriteString(" self_approval")
		}
		return fmt.Sprintf("%s %s %q %s%s", name, c.Ref, c.Title, short(c.Payload), who.String())
	case stepmachine.CloseApproval:
		return fmt.Sprintf("%s %s", name, c.Ref)
	case stepmachine.AwaitEvent:
		return fmt.Sprintf("%s %s %s", name, c.Ref, c.Type)
	case stepmachine.StopAwaiting:
		return fmt.Sprintf("%s %s", name, c.Ref)
	case stepmachine.Emit:
		return fmt.Sprintf("%s %s %s %s", name, c.Ref, c.Type, short(c.Data))
	case stepmachine.Escalate:
		return fmt.Sprintf("%s %s %q", name, c.Ref, c.Reason)
	case stepmachine.StoreValue:
		return fmt.Sprintf("%s %s", name, c.ID)
	case stepmachine.StoreIteration:
		return fmt.Sprintf("%s %s %d %s%s", name, c.Ref, c.Index, short(c.Output), failure(c.Error))
	case stepmachine.RecordStep:
		return fmt.Sprintf("%s %s %s %s%s", name, c.Ref, c.ID, c.Status, failure(c.Error))
	default:
		return describeRest(name, what)
	}
}

func describeRest(name string, what any) string {
	switch c := what.(type) {
	case stepmachine.RecordChange:
		return fmt.Sprintf("%s %s %s %s %s depends on %v", name, c.ID, c.Ref, c.Verb, short(c.Args), c.DependsOn)
	case stepmachine.KeepCompensation:
		return fmt.Sprintf("%s %d %s %s %s", name, c.Seq, c.Ref, c.Verb, short(c.Args))
	case stepmachine.Compensate:
		return fmt.Sprintf("%s %d#%d", name, c.Seq, c.Attempt)
	case stepmachine.Finish:
		return fmt.Sprintf("%s %s %s%s", name, c.Status, short(c.Output), failure(c.Error))
	case stepmachine.VerbEnded:
		return ended(name, c.CallEnd)
	case stepmachine.ModelEnded:
		return ended(name, c.CallEnd)
	case stepmachine.MapEnded:
		return ended(name, c.CallEnd)
	case stepmachine.Resolved:
		return ended(name, c.CallEnd)
	case stepmachine.CompensationEnded:
		return fmt.Sprintf("%s %d#%d %s", name, c.Seq, c.Attempt, c.Status)
	case stepmachine.CompensationWaits:
		return fmt.Sprintf("%s %d#%d %s", name, c.Seq, c.Attempt, c.For)
	case stepmachine.Evaluated:
		return fmt.Sprintf("%s %s %s", name, c.Ref, short(c.Value))
	case stepmachine.TimerFired:
		return fmt.Sprintf("%s %s %s", name, c.Ref, c.Timer)
	case stepmachine.Decided:
		return fmt.Sprintf("%s %s %s", name, c.Ref, c.Decision)
	case stepmachine.EventArrived:
		return fmt.Sprintf("%s %s %s", name, c.Ref, c.ID)
	case stepmachine.Signalled:
		return fmt.Sprintf("%s %s", name, c.Signal)
	default:
		return name
	}
}

func ended(name string, c stepmachine.CallEnd) string {
	return fmt.Sprintf("%s %s %s%s", name, c.Ref, c.Status, failure(c.Error))
}

func failure(e *stepmachine.Error) string {
	if e == nil {
		return ""
	}
	return " " + e.Code
}

// short writes a value in one line, cut where it is long.
func short(v stepmachine.Value) string {
	const most = 200
	if v.Stored != nil {
		return "<" + v.Stored.ID + v.Stored.At + ">"
	}
	text := string(v.JSON)
	if v.Members != nil {
		text = exactjson.Text(v.Members)
	}
	if text == "" {
		return "null"
	}
	if len(text) > most {
		return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(text[:most], ""), len(text))
	}
	return text
}

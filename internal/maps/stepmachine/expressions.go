package stepmachine

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/maps/expression"
	"agentruntime/internal/maps/mapdef"
)

// The fields of a step that are evaluated, as Evaluate names them. A number follows those
// that end in a slash.
const (
	fieldSkipIf     = "skip_if"
	fieldDefault    = "default"
	fieldMock       = "mock"
	fieldCompensate = "compensate/args"
	fieldInput      = "input" // what the step does its work with: of most types one object of several fields
	fieldAssign     = "assign/"
	fieldCase       = "cases/"
	fieldWhen       = "when"
	fieldFilter     = "event/filter"
	fieldCheck      = "check"  // whether a result or a value fits the step's schema
	fieldRoom       = "room"   // how many events the tenant has room for, of those that are wished
	fieldVars       = "vars/"  // of the Map
	fieldOutput     = "output" // of the Map
)

// evaluable is something of a definition that has a value.
type evaluable interface {
	References() expression.References
	eval(ctx context.Context, sandbox expression.Sandbox, roots expression.Roots) (json.RawMessage, error)
}

type (
	valueField     struct{ expression.Value }
	textField      struct{ expression.Template }
	conditionField struct{ expression.Condition }
	// objectOnly is a value that must be an object. The definition has checked a constant. Null stands for
	// none, because a step that did not run leaves null behind.
	objectOnly struct {
		valueField

		name string // of the member of the step
	}
	// objectField is an object of several fields, sorted by name.
	objectField []namedField
	namedField  struct {
		name  string
		field evaluable
	}
)

func (f valueField) eval(ctx context.Context, sandbox expression.Sandbox, roots expression.Roots) (json.RawMessage, error) {
	if f.IsZero() {
		return json.RawMessage("null"), nil
	}
	return f.Eval(ctx, sandbox, roots)
}

func (f objectOnly) eval(ctx context.Context, sandbox expression.Sandbox, roots expression.Roots) (json.RawMessage, error) {
	raw, err := f.valueField.eval(ctx, sandbox, roots)
	if err != nil {
		return nil, err
	}
	if text := bytes.TrimSpace(raw); !bytes.HasPrefix(text, []byte("{")) && string(text) != "null" {
		return nil, &expression.Failure{Code: expression.CodeResult, Detail: f.name + " is not an object"}
	}
	return raw, nil
}

func (f textField) eval(ctx context.Context, sandbox expression.Sandbox, roots expression.Roots) (json.RawMessage, error) {
	text, err := f.Text(ctx, sandbox, roots)
	if err != nil {
		return nil, err
	}
	return exactjson.Encode(text)
}

func (f conditionField) eval(ctx context.Context, sandbox expression.Sandbox, roots expression.Roots) (json.RawMessage, error) {
	yes, err := f.Eval(ctx, sandbox, roots)
	return json.RawMessage(strconv.FormatBool(yes)), err
}

func (f objectField) eval(ctx context.Context, sandbox expression.Sandbox, roots expression.Roots) (json.RawMessage, error) {
	b := []byte{'{'}
	for i, member := range f {
		if i > 0 {
			b = append(b, ',')
		}
		raw, err := member.field.eval(ctx, sandbox, roots)
		if err != nil {
			return nil, err
		}
		b = append(append(append(b, Text(member.name).JSON...), ':'), raw...)
	}
	return append(b, '}'), nil
}

// References returns what all members read.
func (f objectField) References() expression.References {
	var all expression.References
	for _, member := range f {
		all.Add(member.field.References())
	}
	return all
}

// expressionsOf lists the fields of a step that are evaluated.
func expressionsOf(s *mapdef.Step) []string {
	list := []string{fieldSkipIf, fieldDefault, fieldMock, fieldCompensate}
	switch do := s.Do.(type) {
	case *mapdef.DoSet:
		for i := range do.Assign {
			list = append(list, fieldAssign+strconv.Itoa(i))
		}
	case *mapdef.DoSwitch:
		for i := range do.Cases {
			list = append(list, fieldCase+strconv.Itoa(i))
		}
	case *mapdef.DoWhile:
		list = append(list, fieldWhen)
	default:
		list = append(list, fieldInput, fieldFilter)
	}
	return list
}

// expression returns a field of a step.
func (p *Program) expression(s *mapdef.Step, what string) evaluable {
	switch what {
	case fieldSkipIf:
		return conditionField{s.SkipIf}
	case fieldDefault:
		return valueField{s.Default}
	case fieldMock:
		return valueField{s.Mock}
	case fieldCompensate:
		if s.Compensate == nil {
			return valueField{}
		}
		return valueField{s.Compensate.Args}
	case fieldInput:
		return inputOf(s)
	case fieldCheck:
		return checkField{p.schemas[s.Pointer], s.Do.Type() == mapdef.TypeValidate}
	case fieldWhen:
		return conditionField{s.Do.(*mapdef.DoWhile).When}
	case fieldFilter:
		if do, ok := s.Do.(*mapdef.DoWait); ok && do.Event != nil {
			return conditionField{do.Event.Filter}
		}
		return valueField{}
	}
	if i, ok := numbered(what, fieldAssign); ok {
		return valueField{s.Do.(*mapdef.DoSet).Assign[i].Value}
	}
	i, _ := numbered(what, fieldCase)
	return conditionField{s.Do.(*mapdef.DoSwitch).Cases[i].When}
}

// mapExpression returns a field of the Map itself.
func (p *Program) mapExpression(what string) evaluable {
	if i, ok := numbered(what, fieldVars); ok {
		return valueField{p.def.Vars[i].Value}
	}
	return valueField{p.def.Output}
}

// mapField returns the JSON Pointer of a field of the Map.
func (p *Program) mapField(what string) string {
	if i, ok := numbered(what, fieldVars); ok {
		return "/" + fieldVars + p.def.Vars[i].Name
	}
	return "/" + what
}

// numbered returns the number that follows the name of a field.
func numbered(what, field string) (int, bool) {
	digits, ok := strings.CutPrefix(what, field)
	if !ok {
		return 0, false
	}
	i, err := strconv.Atoi(digits)
	return i, err == nil
}

// inputOf returns what a step does its work with.
func inputOf(s *mapdef.Step) evaluable {
	text := func(t expression.Template) evaluable { return textField{t} }
	value := func(v expression.Value) evaluable { return valueField{v} }
	switch do := s.Do.(type) {
	case *mapdef.DoVerb:
		return value(do.Args)
	case *mapdef.DoTransform:
		return value(do.Expr)
	case *mapdef.DoValidate:
		return value(do.Value)
	case *mapdef.DoForeach:
		return value(do.Items)
	case *mapdef.DoWait:
		if do.Event != nil {
			return text(do.Event.Correlate)
		}
		if do.For.IsZero() {
			return value(do.Until)
		}
		return value(do.For)
	case *mapdef.DoApproval:
		return objectField{{"payload", objectOnly{valueField{do.Payload}, "payload"}}, {"title", text(do.Title)}}
	case *mapdef.DoMap:
		return value(do.Payload)
	case *mapdef.DoRaise:
		return objectField{{"detail", text(do.Detail)}, {"title", text(do.Title)}}
	case *mapdef.DoEmit:
		return objectOnly{valueField{do.Data}, "data"}
	case *mapdef.DoEscalate:
		return text(do.Reason)
	case *mapdef.DoReturn:
		return value(do.Output)
	case *mapdef.DoAgent:
		return objectField{{"goal", text(do.Goal)}}
	case *mapdef.DoExtract:
		return objectField{{"input", value(do.Input)}}
	case *mapdef.DoClassify:
		return objectField{{"input", value(do.Input)}}
	case *mapdef.DoSummarize:
		return objectField{{"input", value(do.Input)}}
	case *mapdef.DoReason:
		return objectField{{"context", value(do.Context)}, {"question", text(do.Question)}}
	default: // the others have none
		return valueField{}
	}
}

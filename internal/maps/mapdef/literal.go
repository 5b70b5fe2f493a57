package mapdef

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/near"
	"agentruntime/internal/maps/expression"
)

// literal checks the type of a value as far as it is constant. One expression can result in
// anything; a text with an expression in it is a text. An expression that cannot be read has its
// fault already, and may be meant as anything.
func (c *checker) literal(v expression.Value, path string, want wanted) {
	if v.Template().Single() != nil || v.Kind() == expression.Text && v.Faulty() {
		return
	}
	text, plain := v.Template().Plain()
	plain = plain && v.Kind() == expression.Text
	switch want {
	case anObject:
		if v.Kind() != expression.Object {
			c.add(path, ruleType, "must be an object, or one expression that results in one")
		}
	case anArray:
		if v.Kind() != expression.List {
			c.add(path, ruleType, "must be an array, or one expression that results in one")
		}
	case aDuration:
		if _, err := ParseDuration(text); v.Kind() != expression.Text || (plain && err != nil) {
			c.add(path, "duration", ErrDuration.Error())
		}
	case aTime:
		if _, err := time.Parse(time.RFC3339, text); v.Kind() != expression.Text || (plain && err != nil) {
			c.add(path, "format", "must be a time such as 2026-12-31T18:00:00Z, or one expression that results in one")
		}
	case anything:
	}
}

// retry checks which codes are tried again, those of a step or of the defaults.
func (c *checker) retry(r *Retry, path string, s *Step) {
	if r == nil {
		return
	}
	if r.MaxInterval < r.Initial {
		c.add(path+"/max_interval", "minimum", "must be at least initial")
	}
	for i, code := range r.RetryOn {
		at := at(path+"/retry_on", i)
		switch {
		case code == string(fault.CodeOutcomeUnknown):
			c.add(at, ruleRetry, "a call whose outcome is unknown is never tried again: it may have had its effect")
		case s != nil && matches(codePattern, code) && !s.canEndWith(code):
			c.addf(at, "unknown_code", "no step of type %s ends with this code", s.Do.Type())
		}
	}
}

const ruleRetry = "retry"

// RetryFaults returns the codes in retry_on that name an end of a write that may not be
// repeated. The caller knows from the catalog whether a call of the step's verb may be. The
// defaults are not judged: their codes count for such a step where it may be repeated.
func (s *Step) RetryFaults() []Fault {
	if s.Retry == nil {
		return nil
	}
	f := &faults{}
	for i, code := range s.Retry.RetryOn {
		if slices.Contains(afterSending(), code) {
			f.add(at(s.Pointer+"/retry/retry_on", i), ruleRetry, "a write that cannot be repeated is never tried again after it was sent. Leave this code out")
		}
	}
	return f.list
}

// canEndWith reports whether a failure of the step can have the code.
func (s *Step) canEndWith(code string) bool {
	if code == AnyError || s.Do == nil || s.Do.Type() == TypeMap || len(s.Blocks()) > len(s.Catch) {
		return true
	}
	if raise, ok := s.Do.(*DoRaise); ok && raise.Code == code {
		return true
	}
	return slices.Contains(Codes(s.Do.Type()), code)
}

// catchCodes checks the codes of a handler.
func (c *checker) catchCodes(codes []string, path string, s *Step) {
	for i, code := range codes {
		switch {
		case code == string(fault.CodeOutcomeUnknown):
			c.warnings.add(at(path, i), "unreachable", "never happens: the Map waits until a person settles the outcome, and goes on by that")
		case matches(codePattern, code) && !s.canEndWith(code):
			c.addf(at(path, i), "unknown_code", "no step of type %s ends with this code", s.Do.Type())
		}
	}
}

func (c *checker) approvers(do *DoApproval, p string) {
	for i, a := range do.Approvers {
		path := at(p+"/approvers", i) + "/value"
		switch a.Type {
		case governance.ApproverRole:
			if !actor.Role(a.Value).Valid() {
				c.add(path, ruleEnum, near.OneOf(actor.Role(a.Value), actor.RoleOwner, actor.RoleAdmin, actor.RoleApprover, actor.RoleMember))
			}
		case governance.ApproverUser:
			if id, err := uuid.Parse(a.Value); err != nil || id == uuid.Nil || id.String() != a.Value {
				c.add(path, "uuid", "must be a user's id")
			}
		}
	}
}

// warn finds what is allowed and hardly meant.
func (c *checker) warn(d *Definition) {
	w := &c.warnings
	w.unreachable(d.Steps)
	w.unreachable(d.OnFailure)
	see := func(path string, v expression.Value) { w.bare(path, v) }
	eachValue(d, see)
	Sort(w.list)
}

// bare finds texts that look like an expression without ${ }.
func (f *faults) bare(path string, v expression.Value) {
	v.Walk(func(below string, part expression.Value) {
		for _, p := range part.Template().Parts() {
			if p.Expr != nil {
				continue
			}
			if text := bareText(p.Text); text != "" {
				f.add(path+below, "bare_expression", text)
				return
			}
		}
	})
}

// bareText says what in a text looks like an expression and is none, "" where nothing does.
func bareText(text string) string {
	if _, rest, opens := strings.Cut(text, "{{"); opens && strings.Contains(rest, "}}") {
		return "{{ }} stands here as plain text. Write ${ } around an expression, as in ${trigger_data.order_id}"
	}
	for _, root := range []string{"trigger_data.", "trigger."} {
		if hasBare(text, root) {
			return root + " stands here as plain text. Write ${trigger_data…} for its value"
		}
	}
	return ""
}

// hasBare reports whether a text has the root followed by a name, and not as a part of a longer word.
func hasBare(text, root string) bool {
	for rest := text; ; {
		i := strings.Index(rest, root)
		if i < 0 {
			return false
		}
		before := i == 0 || !isWord(rest[i-1])
		rest = rest[i+len(root):]
		if before && rest != "" && isWord(rest[0]) {
			return true
		}
	}
}

func isWord(b byte) bool {
	return b == '_' || (b >= '0' && b <= '9') || (b >= 'a' && b <= 'z') || (b >= 'A' && b <= 'Z')
}

// eachValue calls f with all values and texts of a definition that may have expressions.
func eachValue(d *Definition, f func(path string, v expression.Value)) {
	for _, v := range d.Vars {
		f(under("/vars", v.Name), v.Value)
	}
	f("/output", d.Output)
	if d.Concurrency != nil {
		f("/concurrency/key", expression.TextValue(d.Concurrency.Key))
	}
	see := func(s *Step) { eachOfStep(s, f) }
	Walk(d.Steps, see)
	Walk(d.OnFailure, see)
}

func eachOfStep(s *Step, f func(path string, v expression.Value)) {
	p := s.Pointer
	text := func(name string, t expression.Template) { f(p+"/"+name, expression.TextValue(t)) }
	value := func(name string, v expression.Value) { f(p+"/"+name, v) }
	value("mock", s.Mock)
	value("default_output", s.Default)
	if s.Compensate != nil {
		value("compensate/args", s.Compensate.Args)
	}
	switch do := s.Do.(type) {
	case *DoVerb:
		value("args", do.Args)
	case *DoSet:
		for _, a := range do.Assign {
			f(under(p+"/assign", a.Name), a.Value)
		}
	case *DoTransform:
		value("expr", do.Expr)
	case *DoValidate:
		value("value", do.Value)
	case *DoForeach:
		value("items", do.Items)
	case *DoWait:
		value("for", do.For)
		value("until", do.Until)
		if do.Event != nil {
			text("event/correlate", do.Event.Correlate)
		}
	case *DoApproval:
		text("title", do.Title)
		value("payload", do.Payload)
	case *DoMap:
		value("payload", do.Payload)
	default:
		eachOfEnds(s, text, value)
	}
}

// eachOfEnds is eachOfStep for the types that end or tell something, and those of models.
func eachOfEnds(s *Step, text func(string, expression.Template), value func(string, expression.Value)) {
	switch do := s.Do.(type) {
	case *DoRaise:
		text("error/title", do.Title)
		text("error/detail", do.Detail)
	case *DoEmit:
		value("data", do.Data)
	case *DoEscalate:
		text("reason", do.Reason)
	case *DoReturn:
		value("output", do.Output)
	case *DoAgent:
		text("goal", do.Goal)
	case *DoExtract:
		value("input", do.Input)
	case *DoClassify:
		value("input", do.Input)
	case *DoSummarize:
		value("input", do.Input)
	case *DoReason:
		text("question", do.Question)
		value("context", do.Context)
	}
}

// unreachable finds the first step in each list that can never run.
func (f *faults) unreachable(list []Step) {
	over := ""
	for i := range list {
		s := &list[i]
		if over != "" {
			f.addf(s.Pointer, "unreachable", "never runs: %s ends the Map before it", over)
			over = ""
		}
		if isLiteral(s.SkipIf, true) {
			f.add(s.Pointer+"/skip_if", "unreachable", "is always true: the step never runs")
		}
		f.unreachableWithin(s)
		if s.ends() && i < len(list)-1 {
			over = s.ID
		}
	}
}

func (f *faults) unreachableWithin(s *Step) {
	switch do := s.Do.(type) {
	case *DoSwitch:
		for i, c := range do.Cases {
			path := at(s.Pointer+"/cases", i)
			if isLiteral(c.When, false) {
				f.add(path, "unreachable", "never runs: its condition is always false")
			}
			if isLiteral(c.When, true) && (i < len(do.Cases)-1 || len(do.Default) > 0) {
				f.add(path, "unreachable", "is always taken: what comes after it never runs")
			}
		}
	case *DoWhile:
		if isLiteral(do.When, false) {
			f.add(s.Pointer+"/when", "unreachable", "is always false: the steps never run")
		}
	case *DoForeach:
		if do.Items.Kind() == expression.List && len(do.Items.Items()) == 0 {
			f.add(s.Pointer+"/items", "unreachable", "has no items: the steps never run")
		}
	}
	for i, c := range s.Catch {
		if i < len(s.Catch)-1 && slices.Contains(c.Errors, AnyError) {
			f.add(s.Pointer+"/catch/"+strconv.Itoa(i), "unreachable", "takes every error: what comes after it never runs")
		}
	}
	for _, b := range s.Blocks() {
		f.unreachable(b.Steps)
	}
}

// isLiteral reports whether a condition is the literal true or false.
func isLiteral(c expression.Condition, is bool) bool {
	e := c.Single()
	return e != nil && strings.TrimSpace(e.Source()) == strconv.FormatBool(is)
}

// ends reports whether nothing after the step runs.
func (s *Step) ends() bool {
	if !s.SkipIf.IsZero() {
		return false
	}
	switch do := s.Do.(type) {
	case *DoReturn:
		return true
	case *DoRaise:
		return len(s.Catch) == 0 && s.OnError == OnErrorFail
	case *DoSwitch:
		if do.Default == nil || len(s.Catch) > 0 || s.OnError != OnErrorFail {
			return false
		}
		for _, c := range do.Cases {
			if !endsList(c.Steps) {
				return false
			}
		}
		return endsList(do.Default)
	default:
		return false
	}
}

func endsList(list []Step) bool {
	return slices.ContainsFunc(list, func(s Step) bool { return s.ends() })
}

package mapdef

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"agentruntime/internal/base/argschema"
	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/maps/expression"
)

// Check finds what is wrong with the meaning of a definition: ids, references, values that do
// not fit their place, schemas, codes; and warnings about what is allowed and hardly meant. It
// can be asked about a definition that Read has found faults in. What depends on the catalog,
// on policies or on other Maps is left to the caller.
func (d *Definition) Check() (wrong, warnings []Fault) {
	c := &checker{ids: map[string]string{}}
	c.unique(d.Steps)
	c.unique(d.OnFailure)
	c.definition(d)
	for _, path := range d.zeros {
		c.add(path, "minimum", "must be more than 0, or left out")
	}
	c.warn(d)
	return c.list, c.warnings.list
}

// Sort orders faults by their place in the definition, as a reader expects it.
func Sort(list []Fault) {
	slices.SortStableFunc(list, func(a, b Fault) int { return comparePointers(a.Path, b.Path) })
}

// comparePointers compares token by token, numbers by their value.
func comparePointers(a, b string) int {
	left, right := strings.Split(a, "/"), strings.Split(b, "/")
	for i := range min(len(left), len(right)) {
		x, errX := strconv.Atoi(left[i])
		y, errY := strconv.Atoi(right[i])
		order := strings.Compare(left[i], right[i])
		if errX == nil && errY == nil {
			order = cmp.Compare(x, y)
		}
		if order != 0 {
			return order
		}
	}
	return cmp.Compare(len(left), len(right))
}

// HasModel reports whether a step of the definition asks a model. A Map is cognitive where it
// or a Map that it starts has one.
func (d *Definition) HasModel() bool {
	found := false
	see := func(s *Step) { found = found || (s.Do != nil && s.Do.Type().IsModel()) }
	Walk(d.Steps, see)
	Walk(d.OnFailure, see)
	return found
}

type checker struct {
	faults

	warnings  faults
	ids       map[string]string // where each id is defined
	asked     int               // how many unknown ids were compared with them
	variables map[string]bool   // that the Map declares, or a step sets
	schemas   int               // JSON values in schemas so far
}

// unique finds ids that two steps have, or two branches of a step.
func (c *checker) unique(steps []Step) {
	Walk(steps, func(s *Step) {
		if first, taken := c.ids[s.ID]; taken {
			c.addf(s.Pointer+"/id", "unique", "another step has this id: %s", first)
		} else if s.ID != "" {
			c.ids[s.ID] = s.Pointer
		}
		do, ok := s.Do.(*DoParallel)
		if !ok {
			return
		}
		seen := map[string]bool{}
		for i, b := range do.Branches {
			if b.ID != "" && seen[b.ID] {
				c.add(at(s.Pointer+"/branches", i)+"/id", "unique", "another branch of the step has this id")
			}
			seen[b.ID] = true
		}
	})
}

// variablesOf returns the names of the variables that anything gives a value.
func variablesOf(d *Definition) map[string]bool {
	names := map[string]bool{}
	add := func(list []Assignment) {
		for _, a := range list {
			names[a.Name] = true
		}
	}
	add(d.Vars)
	for _, steps := range [][]Step{d.Steps, d.OnFailure} {
		Walk(steps, func(s *Step) {
			if do, ok := s.Do.(*DoSet); ok {
				add(do.Assign)
			}
		})
	}
	return names
}

func (c *checker) definition(d *Definition) {
	c.schema(d.TriggerSchema, "/trigger_schema")
	c.variables = variablesOf(d)
	start := newScope()
	start.vars, start.steps = false, false
	for _, v := range d.Vars {
		c.value(v.Value, under("/vars", v.Name), start, anything)
	}
	if d.Concurrency != nil {
		key := newScope()
		key.vars, key.steps, key.now = false, false, false
		c.template(d.Concurrency.Key, "/concurrency/key", key)
	}
	main := newScope()
	c.steps(d.Steps, main)
	c.value(d.Output, "/output", main, anything)
	c.retry(d.Defaults.Retry, "/defaults/retry", nil)
	after := main.with("failure")
	c.steps(d.OnFailure, after)
	Walk(d.OnFailure, func(s *Step) {
		if _, ok := s.Do.(*DoReturn); ok {
			c.add(s.Pointer+"/type", "placement", "return is not allowed in on_failure: the Map ends failed")
		}
	})
}

// steps checks a list, one step after the other: each adds to what the next ones may read.
func (c *checker) steps(list []Step, s *scope) {
	for i := range list {
		c.step(&list[i], s)
		s.ran(&list[i])
	}
}

func (c *checker) step(s *Step, sc *scope) {
	c.condition(s.SkipIf, s.Pointer+"/skip_if", sc)
	c.value(s.Mock, s.Pointer+"/mock", sc, anything)
	if s.Do != nil {
		c.action(s, sc)
	}
	c.retry(s.Retry, s.Pointer+"/retry", s)
	own := sc.copy()
	own.did(s)
	c.onError(s, own)
	if s.Compensate != nil {
		c.value(s.Compensate.Args, s.Pointer+"/compensate/args", own, anObject)
	}
	for i, h := range s.Catch {
		path := at(s.Pointer+"/catch", i)
		c.name(h.As, path+"/as")
		c.catchCodes(h.Errors, path+"/errors", s)
		handler := own.copy()
		if h.As != "" {
			handler = own.with(h.As)
		}
		c.steps(h.Steps, handler)
	}
}

func (c *checker) onError(s *Step, own *scope) {
	switch path := s.Pointer + "/default_output"; {
	case s.OnError == OnErrorDefault && s.Default.IsZero():
		c.add(path, ruleRequired, "is required with on_error: default")
	case s.OnError != OnErrorDefault && !s.Default.IsZero():
		c.add(path, "conflict", "needs on_error: default")
	default:
		c.value(s.Default, path, own, anything)
	}
}

// name checks a name that "as" gives.
func (c *checker) name(name, path string) {
	if name != "" && expression.IsReserved(name) {
		c.add(path, "reserved", "is a root or a function of expressions already. Choose another name")
	}
}

func (c *checker) action(s *Step, sc *scope) {
	p := s.Pointer
	switch do := s.Do.(type) {
	case *DoVerb:
		c.value(do.Args, p+"/args", sc, anObject)
		c.schema(do.Expect, p+"/expect")
	case *DoSet:
		for _, a := range do.Assign {
			c.value(a.Value, under(p+"/assign", a.Name), sc, anything)
		}
	case *DoTransform:
		c.value(do.Expr, p+"/expr", sc, anything)
	case *DoValidate:
		c.value(do.Value, p+"/value", sc, anything)
		c.schema(do.Schema, p+"/schema")
	case *DoSwitch:
		for i, k := range do.Cases {
			c.condition(k.When, at(p+"/cases", i)+"/when", sc)
			c.steps(k.Steps, sc.copy())
		}
		c.steps(do.Default, sc.copy())
	case *DoWhile:
		body := sc.loop()
		c.steps(do.Steps, body)
		c.condition(do.When, p+"/when", body)
	case *DoForeach:
		c.foreach(do, p, sc)
	case *DoParallel:
		for _, b := range do.Branches {
			c.steps(b.Steps, sc.copy())
		}
	case *DoWait:
		c.wait(do, p, sc)
	default:
		c.more(s, sc)
	}
}

func (c *checker) more(s *Step, sc *scope) {
	p := s.Pointer
	switch do := s.Do.(type) {
	case *DoApproval:
		c.template(do.Title, p+"/title", sc)
		c.value(do.Payload, p+"/payload", sc, anObject)
		c.schema(do.Form, p+"/form")
		c.approvers(do, p)
	case *DoMap:
		c.value(do.Payload, p+"/payload", sc, anObject)
	case *DoRaise:
		if isOurs(do.Code) {
			c.add(p+"/error/code", "reserved", "is a code of the service. Choose one of your own")
		}
		c.template(do.Title, p+"/error/title", sc)
		c.template(do.Detail, p+"/error/detail", sc)
	case *DoEmit:
		c.value(do.Data, p+"/data", sc, anObject)
	case *DoEscalate:
		c.template(do.Reason, p+"/reason", sc)
	case *DoReturn:
		c.value(do.Output, p+"/output", sc, anything)
	case *DoAgent:
		c.template(do.Goal, p+"/goal", sc)
		c.schema(do.OutputSchema, p+"/output_schema")
		c.condition(do.CompleteWhen, p+"/complete_when", sc.withDot())
		c.criteria(do.Criteria, p+"/criteria")
	case *DoExtract:
		c.value(do.Input, p+"/input", sc, anything)
		c.schema(do.Schema, p+"/schema")
	case *DoClassify:
		c.value(do.Input, p+"/input", sc, anything)
		c.labels(do.Labels, p+"/labels")
	case *DoSummarize:
		c.value(do.Input, p+"/input", sc, anything)
	case *DoReason:
		c.template(do.Question, p+"/question", sc)
		c.value(do.Context, p+"/context", sc, anything)
	default: // those of action
	}
}

func (c *checker) labels(labels []string, path string) {
	for i, l := range labels {
		if slices.Contains(labels[:i], l) {
			c.add(at(path, i), "unique", "is there twice")
		}
	}
}

func (c *checker) criteria(list []Criterion, path string) {
	ids := map[string]bool{}
	for i, one := range list {
		if ids[one.ID] {
			c.add(under(at(path, i), "id"), "unique", "must differ from the ids of the other criteria")
		}
		ids[one.ID] = true
	}
}

func (c *checker) foreach(do *DoForeach, p string, sc *scope) {
	c.value(do.Items, p+"/items", sc, anArray)
	if do.Items.Kind() == expression.List && len(do.Items.Items()) > MaxItems {
		c.addf(p+"/items", "maxItems", "must have at most %d items", MaxItems)
	}
	c.name(do.As, p+"/as")
	if do.Mode != Concurrently && do.Concurrency != 1 {
		c.add(p+"/concurrency", "conflict", "needs mode: parallel")
	}
	body := sc.loop()
	body.item = true
	if do.As != "" {
		body = body.with(do.As)
	}
	c.steps(do.Steps, body)
}

func (c *checker) wait(do *DoWait, p string, sc *scope) {
	given := 0
	for _, is := range []bool{!do.For.IsZero(), !do.Until.IsZero(), do.Event != nil} {
		if is {
			given++
		}
	}
	if given != 1 {
		c.add(p, "oneOf", "must have exactly one of for, until and event")
	}
	c.value(do.For, p+"/for", sc, aDuration)
	c.value(do.Until, p+"/until", sc, aTime)
	if do.Event != nil {
		c.condition(do.Event.Filter, p+"/event/filter", sc.withDot())
		c.template(do.Event.Correlate, p+"/event/correlate", sc)
	}
}

// schema compiles a JSON Schema. All schemas of a definition together are bounded, because
// compiling takes longer than reading.
func (c *checker) schema(raw json.RawMessage, path string) {
	if raw == nil {
		return
	}
	_, values := exactjson.Shape(raw)
	if c.schemas += values; c.schemas > maxSchemas {
		c.addf(path, "complexity", "the schemas of a definition have at most %d values together", maxSchemas)
		return
	}
	if _, err := argschema.Compile(raw); err != nil {
		c.add(path, "schema", "must be a JSON Schema (draft 2020-12) that is complete in itself and not too complex")
	}
}

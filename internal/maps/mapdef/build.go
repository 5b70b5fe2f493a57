package mapdef

import (
	"encoding/json"
	"slices"
	"strconv"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/maps/expression"
)

// builder makes a definition of a tree whose form has been checked. Where the form is wrong
// it leaves out what it cannot read.
type builder struct {
	*faults

	expressions int
	parsed      int // bytes of expressions
	steps       int
	zeros       []string // bounds of time that are 0
}

// node is a place in the tree.
type node struct {
	exactjson.Node

	path string
	b    *builder
}

func (n node) get(name string) (node, bool) {
	v, ok := n.Get(name)
	return node{v, under(n.path, name), n.b}, ok
}

func (n node) text(name string) string {
	v, _ := n.get(name)
	if v.Kind != exactjson.TextNode {
		return ""
	}
	return v.Text
}

// choice returns one of the values of a field, the first where it is left out.
func (n node) choice(name, otherwise string) string {
	if v := n.text(name); v != "" {
		return v
	}
	return otherwise
}

func (n node) whole(name string, otherwise int) int {
	v, ok := n.get(name)
	if !ok || v.Kind != exactjson.NumberNode {
		return otherwise
	}
	i, err := strconv.Atoi(v.Text)
	if err != nil {
		return otherwise
	}
	return i
}

func (n node) number(name string, otherwise float64) float64 {
	v, ok := n.get(name)
	if !ok || v.Kind != exactjson.NumberNode {
		return otherwise
	}
	x, err := strconv.ParseFloat(v.Text, 64)
	if err != nil {
		return otherwise
	}
	return x
}

func (n node) flag(name string, otherwise bool) bool {
	v, ok := n.get(name)
	if !ok {
		return otherwise
	}
	return v.Kind == exactjson.TrueNode
}

func (n node) duration(name string, otherwise Duration) Duration {
	d, err := ParseDuration(n.text(name))
	if err != nil {
		return otherwise
	}
	if path := under(n.path, name); d == 0 && (name == "timeout" || name == "max_duration") && !slices.Contains(n.b.zeros, path) {
		n.b.zeros = append(n.b.zeros, path) // 0 stands for none
	}
	return d
}

func (n node) texts(name string) []string {
	v, _ := n.get(name)
	var list []string
	for _, item := range v.Items {
		if item.Kind == exactjson.TextNode {
			list = append(list, item.Text)
		}
	}
	return list
}

func (n node) schema(name string) json.RawMessage {
	v, ok := n.get(name)
	switch {
	case !ok:
		return nil
	case v.Kind == exactjson.TrueNode:
		return json.RawMessage("true")
	case v.Kind == exactjson.FalseNode:
		return json.RawMessage("false")
	}
	return v.Raw
}

// items returns the items of a list that are objects.
func (n node) items(name string) []node {
	v, _ := n.get(name)
	var list []node
	for i, item := range v.Items {
		list = append(list, node{item, at(v.path, i), n.b})
	}
	return list
}

func (n node) criteria(name string) (list []Criterion) {
	for _, item := range n.items(name) {
		list = append(list, Criterion{item.text("id"), item.text("description")})
	}
	return list
}

func (n node) value(name string) expression.Value {
	v, ok := n.get(name)
	if !ok {
		return expression.Value{}
	}
	return n.b.value(v)
}

func (n node) assignments(name string) []Assignment {
	v, _ := n.get(name)
	var list []Assignment
	for _, m := range v.Members {
		list = append(list, Assignment{m.Name, n.b.value(node{m.Value, under(v.path, m.Name), n.b})})
	}
	return list
}

func (n node) template(name string) expression.Template {
	v, ok := n.get(name)
	if !ok || v.Kind != exactjson.TextNode {
		return expression.Template{}
	}
	return n.b.value(v).Template()
}

func (n node) condition(name string) expression.Condition {
	t := n.template(name)
	v, ok := n.get(name)
	if ok && v.Kind == exactjson.TextNode && v.Text != "" && t.Single() == nil && !n.b.has(v.path, ruleExpression) {
		n.b.add(v.path, "condition", "must be one expression and nothing beside it: ${ … }")
	}
	if t.Single() == nil {
		return expression.Condition{}
	}
	return expression.Condition{Template: t}
}

// ruleExpression is the rule of an expression that cannot be read.
const ruleExpression = "expression"

// has reports whether the last fault is of that place and rule.
func (f *faults) has(path, rule string) bool {
	if len(f.list) == 0 {
		return false
	}
	last := f.list[len(f.list)-1]
	return last.Path == path && last.Rule == rule
}

// value reads a value and its expressions. A value with a fault is kept, else its place would look
// empty to the checks that follow.
func (b *builder) value(n node) expression.Value {
	v, problems := expression.NewValue(n.Node)
	for _, p := range problems {
		b.addf(n.path+p.Path, ruleExpression, "%s (at byte %d of the text)", p.Message, p.Offset)
	}
	b.count(n.path, v)
	return v
}

// count bounds the expressions, and finds names that jq does not know.
func (b *builder) count(path string, v expression.Value) {
	v.Walk(func(below string, part expression.Value) {
		for _, p := range part.Template().Parts() {
			if p.Expr == nil {
				continue
			}
			b.parsed += len(p.Expr.Source())
			if b.expressions++; b.expressions > maxExpression {
				if b.expressions == maxExpression+1 {
					b.addf(path+below, "complexity", "a definition has at most %d expressions", maxExpression)
				}
				continue
			}
			if err := p.Expr.Check(); err != nil {
				b.add(path+below, ruleExpression, err.Message)
			}
		}
	})
}

func (b *builder) definition(d *Definition, tree exactjson.Node) {
	n := node{tree, "", b}
	d.SchemaVersion, d.Name, d.Description = n.text("schema_version"), n.text("name"), n.text("description")
	d.When, d.Examples, d.Keywords = n.text("when"), n.texts("examples"), n.texts("keywords")
	d.TriggerSchema = n.schema("trigger_schema")
	d.Vars = n.assignments("vars")
	if defaults, ok := n.get("defaults"); ok {
		d.Defaults = Defaults{defaults.duration("timeout", 0), defaults.retry()}
	}
	d.Steps = b.list(n, "steps", 0)
	d.Output = n.value("output")
	d.OnFailure = b.list(n, "on_failure", 0)
	if l, ok := n.get("limits"); ok {
		d.Limits = Limits{l.duration("max_duration", 0), l.whole("max_steps", 0), l.whole("max_actions", 0)}
	}
	if c, ok := n.get("concurrency"); ok {
		d.Concurrency = &Concurrency{c.template("key"), c.whole("limit", 1), WhenFull(c.choice("when_full", string(Queue)))}
	}
	d.DryRun = n.flag("dry_run", false)
}

func (n node) retry() *Retry {
	r, ok := n.get("retry")
	if !ok {
		return nil
	}
	retry := &Retry{
		MaxAttempts: r.whole("max_attempts", 1), Initial: r.duration("initial", defaultInitial), Backoff: r.number("backoff", defaultBackoff),
		MaxInterval: r.duration("max_interval", defaultInterval), Jitter: r.number("jitter", 0), RetryOn: r.texts("retry_on"),
	}
	if _, ok := r.get("retry_on"); !ok {
		retry.RetryOn = []string{AnyError}
	}
	return retry
}

// list reads a list of steps. depth is how many blocks it is in: those of the definition itself are in
// none.
func (b *builder) list(n node, name string, depth int) []Step {
	v, ok := n.get(name)
	if !ok || v.Kind != exactjson.ArrayNode {
		return nil
	}
	if depth > MaxNesting {
		b.addf(v.path, "nesting", "blocks nest at most %d deep", MaxNesting)
		return nil
	}
	list := make([]Step, 0, len(v.Items))
	for i, item := range v.Items {
		if b.steps++; b.steps > MaxSteps {
			if b.steps == MaxSteps+1 {
				b.addf(at(v.path, i), "maxItems", "a definition has at most %d steps", MaxSteps)
			}
			continue
		}
		if item.Kind != exactjson.ObjectNode {
			b.add(at(v.path, i), ruleType, "must be an object: a step")
			continue
		}
		list = append(list, b.step(node{item, at(v.path, i), b}, depth))
	}
	return list
}

func (b *builder) step(n node, depth int) Step {
	t := Type(n.text("type"))
	if !t.known() {
		// Without a type nobody knows which further members the step may have.
		n.checkKnown(stepFields())
	} else {
		checkFields(n.Node, n.path, t.allFields(), b.faults)
	}
	s := Step{
		ID: n.text("id"), Name: n.text("name"), Pointer: n.path,
		SkipIf: n.condition("skip_if"), Timeout: n.duration("timeout", 0), Retry: n.retry(),
		OnError: OnError(n.choice("on_error", string(OnErrorFail))), Default: n.value("default_output"), Mock: n.value("mock"),
	}
	if t == TypeApproval {
		s.Timeout = 0 // the member is the approval's own
	}
	if c, ok := n.get("compensate"); ok {
		s.Compensate = &Compensate{verb.Canonical(c.text("verb")), c.value("args")}
	}
	s.Do = b.action(t, n, depth)
	for _, c := range n.items("catch") {
		s.Catch = append(s.Catch, Catch{c.texts("errors"), c.text("as"), b.list(c, "steps", depth+1)})
	}
	return s
}

// canonicals returns the canonical spelling of each pattern.
func canonicals(patterns []string) []string {
	for i, pattern := range patterns {
		patterns[i] = verb.Canonical(pattern)
	}
	return patterns
}

func (t Type) known() bool {
	return slices.Contains(Types(), t)
}

// checkKnown checks the members that a step of any type has, and leaves the others.
func (n node) checkKnown(fields []field) {
	var known exactjson.Node
	known.Kind = exactjson.ObjectNode
	for _, m := range n.Members {
		for _, f := range fields {
			if f.name == m.Name {
				known.Members = append(known.Members, m)
			}
		}
	}
	checkFields(known, n.path, fields, n.b.faults)
}

func (b *builder) action(t Type, n node, depth int) Action {
	switch t {
	case TypeVerb:
		return &DoVerb{verb.Canonical(n.text("verb")), n.value("args"), n.text("credential_id"), n.schema("expect")}
	case TypeSet:
		return &DoSet{n.assignments("assign")}
	case TypeTransform:
		return &DoTransform{n.value("expr")}
	case TypeValidate:
		return &DoValidate{n.value("value"), n.schema("schema")}
	case TypeSwitch:
		do := &DoSwitch{Default: b.list(n, "default", depth+1)}
		for _, c := range n.items("cases") {
			do.Cases = append(do.Cases, Case{c.condition("when"), b.list(c, "steps", depth+1)})
		}
		return do
	case TypeWhile:
		return &DoWhile{n.condition("when"), n.whole("max_iterations", 1), b.list(n, "steps", depth+1)}
	case TypeForeach:
		return b.foreach(n, depth)
	case TypeParallel:
		do := &DoParallel{Join: Join(n.choice("join", string(JoinAll))), OnBranchError: OnPartError(n.choice("on_branch_error", string(Stop)))}
		for _, c := range n.items("branches") {
			do.Branches = append(do.Branches, Branch{c.text("id"), b.list(c, "steps", depth+1)})
		}
		return do
	case TypeWait:
		return n.wait()
	case TypeApproval:
		return n.approval()
	default:
		return n.simple(t)
	}
}

func (b *builder) foreach(n node, depth int) Action {
	do := &DoForeach{
		Items: n.value("items"), As: n.text("as"), Mode: Mode(n.choice("mode", string(Sequential))), Concurrency: n.whole("concurrency", 1),
		OnItemError: OnPartError(n.choice("on_item_error", string(Stop))), Steps: b.list(n, "steps", depth+1),
	}
	if do.Mode == Concurrently {
		do.Concurrency = n.whole("concurrency", defaultConcurrency)
	}
	return do
}

// Defaults of fields that are left out.
const (
	defaultConcurrency = 10
	defaultInitial     = Duration(1e9)
	defaultInterval    = Duration(60e9)
	defaultBackoff     = 2
)

func (n node) wait() Action {
	do := &DoWait{For: n.value("for"), Until: n.value("until")}
	if e, ok := n.get("event"); ok {
		do.Event = &EventWait{
			Type: e.text("type"), Filter: e.condition("filter"), Correlate: e.template("correlate"),
			Timeout: e.duration("timeout", 0), Since: Since(e.choice("since", string(SinceTrigger))),
		}
	}
	return do
}

func (n node) approval() Action {
	do := &DoApproval{
		Title: n.template("title"), Payload: n.value("payload"), Required: n.whole("required", 1), Form: n.schema("form"),
		SelfApproval: n.flag("self_approval", false), Timeout: n.duration("timeout", 0), OnTimeout: OnTimeout(n.choice("on_timeout", string(TimeoutReject))),
	}
	for _, a := range n.items("approvers") {
		do.Approvers = append(do.Approvers, governance.Approver{Type: governance.ApproverType(a.text("type")), Value: a.text("value")})
	}
	return do
}

// simple reads the types without blocks.
func (n node) simple(t Type) Action {
	switch t {
	case TypeMap:
		return &DoMap{n.text("map_id"), n.whole("version", 0), n.value("payload"), n.flag("wait", true)}
	case TypeRaise:
		e, _ := n.get("error")
		return &DoRaise{e.text("code"), e.template("title"), e.template("detail")}
	case TypeEmit:
		return &DoEmit{n.text("event"), n.value("data")}
	case TypeEscalate:
		return &DoEscalate{n.template("reason"), n.flag("wait", false)}
	case TypeReturn:
		return &DoReturn{n.value("output")}
	case TypeAgent:
		return &DoAgent{n.text("agent_id"), n.template("goal"), canonicals(n.texts("tools")), n.schema("output_schema"), n.condition("complete_when"), n.whole("max_attempts", 1), n.criteria("criteria")}
	case TypeExtract:
		return &DoExtract{n.value("input"), n.schema("schema")}
	case TypeClassify:
		return &DoClassify{n.value("input"), n.texts("labels")}
	case TypeSummarize:
		return &DoSummarize{n.value("input"), n.whole("max_words", 0)}
	case TypeReason:
		return &DoReason{n.template("question"), n.value("context")}
	default:
		return nil
	}
}

package authoring

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"agentruntime/db"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/policy"
	"agentruntime/internal/base/argschema"
	"agentruntime/internal/base/redact"
	"agentruntime/internal/base/schemagraph"
	"agentruntime/internal/base/strictjson"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/maps/expression"
	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/provider/catalog"
	"agentruntime/internal/provider/credential"
)

// The rules of the calls of verbs, in faults and warnings.
const (
	ruleUnknownVerb  = "unknown_verb"
	ruleBlocked      = "governance_block"
	ruleHeld         = "governance_hold"
	ruleNotConnected = "not_connected"
	ruleNotJudged    = "governance_not_judged"
	ruleUnknownTool  = "unknown_tool"
	ruleQuarantined  = "quarantined"
)

// judgeTime bounds the work of governance on all calls of a definition. A policy can take half a
// second for a call.
const judgeTime = 2 * time.Second

// call is one call of a verb in a definition.
type call struct {
	at   string // the JSON Pointer of what has the members verb and args
	name verb.Name
	args expression.Value
	// retry is what is wrong with the step's retry_on where the verb may not be repeated.
	retry []mapdef.Fault
}

// callsOf returns the calls of a definition. What is no name of a verb is a fault of its form.
func callsOf(d *mapdef.Definition) (list []call) {
	add := func(at, name string, args expression.Value, retry []mapdef.Fault) {
		if parsed, err := verb.Parse(name); err == nil {
			list = append(list, call{at: at, name: parsed, args: args, retry: retry})
		}
	}
	see := func(s *mapdef.Step) {
		if do, is := s.Do.(*mapdef.DoVerb); is {
			add(s.Pointer, do.Verb, do.Args, s.RetryFaults())
		}
		if s.Compensate != nil {
			add(s.Pointer+"/compensate", s.Compensate.Verb, s.Compensate.Args, nil)
		}
	}
	mapdef.Walk(d.Steps, see)
	mapdef.Walk(d.OnFailure, see)
	return list
}

// tool is a verb that an agent step names as one of its tools.
type tool struct {
	at   string // its JSON Pointer
	name verb.Name
}

// toolsOf returns the tools of a definition that are named in full, without a `*`.
func toolsOf(d *mapdef.Definition) (list []tool) {
	see := func(s *mapdef.Step) {
		do, is := s.Do.(*mapdef.DoAgent)
		if !is {
			return
		}
		for i, name := range do.Tools {
			if parsed, err := verb.Parse(name); err == nil && !strings.Contains(name, "*") {
				list = append(list, tool{fmt.Sprintf("%s/tools/%d", s.Pointer, i), parsed})
			}
		}
	}
	mapdef.Walk(d.Steps, see)
	mapdef.Walk(d.OnFailure, see)
	return list
}

// schema is the schema of a verb's arguments in the form that checks use.
type schema struct {
	args   *argschema.Schema
	fields *governance.Fields
	masker *redact.Masker
	size   int
}

func compile(raw json.RawMessage) *schema {
	s, err := argschema.Compile(raw)
	if err != nil { // as where a call is made: what cannot be judged accepts no arguments
		s = argschema.Unjudged()
	}
	graph := schemagraph.Read(raw)
	return &schema{args: s, fields: governance.FieldsOf(graph), masker: redact.MaskerOf(graph), size: s.Size() + graph.Size()}
}

// calls checks the calls of a definition. It reads all verbs and the version of the policies in
// one round trip, the schemas that were not read before in one, and new policies in one.
func (s *Service) calls(ctx context.Context, who Caller, d *mapdef.Definition, r *Report) error {
	tenant := who.TenantID
	list, tools := callsOf(d), toolsOf(d)
	if len(list)+len(tools) == 0 {
		return nil
	}
	distinct := map[verb.Name]bool{}
	for _, t := range tools {
		distinct[t.name] = true
	}
	for _, c := range list {
		distinct[c.name] = true
	}
	b := &db.Batch{}
	many := catalog.QueueMany(b, tenant, slices.Collect(maps.Keys(distinct)))
	version := policy.QueueVersion(b, tenant)
	if err := s.d.DB.Send(ctx, tenant, b); err != nil {
		return fmt.Errorf("authoring: read the verbs: %w", err)
	}
	verbs := many()
	for _, t := range tools {
		if _, known := verbs[t.name]; !known {
			r.Warnings = append(r.Warnings, mapdef.Fault{Path: t.at, Rule: ruleUnknownTool, Message: "is no verb of the catalog, so the agent is not offered it"})
		}
	}
	schemas, err := s.load(ctx, tenant, verbs)
	if err != nil {
		return err
	}
	policies, err := s.d.Policies.Load(ctx, tenant, version())
	if err != nil {
		return err
	}
	j := judge{policies: policies.Judge(), masks: policies.Masks()}
	var stop func()
	j.ctx, stop = context.WithTimeout(ctx, judgeTime)
	defer stop()
	near := neighbours{catalog: s.d.Catalog, who: who}
	for _, c := range list {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		seen, known := verbs[c.name]
		if !known {
			r.Errors = append(r.Errors, mapdef.Fault{Path: c.at + "/verb", Rule: ruleUnknownVerb, Message: unknownVerb + near.text(ctx, c.name)})
			continue
		}
		r.Warnings = append(r.Warnings, c.unavailable(seen)...)
		if seen.Operation == verb.Write && seen.Idempotency == verb.IdempotencyNone {
			r.Errors = append(r.Errors, c.retry...)
		}
		if sch := schemas[seen.SchemaHash]; sch != nil {
			c.check(sch, r)
			if seen.Quarantine == nil {
				j.look(c, seen, sch, r)
			}
		}
	}
	return nil
}

// unknownVerb is what a fault says of a verb that the catalog does not have.
const unknownVerb = "must be a verb of the catalog. GET /v1/runtime/actions/catalog lists the verbs that it has."

// mostNear is for how many unknown verbs of a definition near names are looked up: each costs a
// round trip, and a definition can have hundreds.
const mostNear = 3

// neighbours finds the near names of the first unknown verbs of a definition.
type neighbours struct {
	catalog *catalog.Catalog
	who     Caller
	found   map[verb.Name]string
}

// text names verbs that may be meant by an unknown one. It is empty where there are none, and where
// the caller may not read the catalog.
func (n *neighbours) text(ctx context.Context, name verb.Name) string {
	text, looked := n.found[name]
	if looked || !n.who.ReadsCatalog || len(n.found) == mostNear {
		return text
	}
	meant, err := n.catalog.Near(ctx, n.who.TenantID, name)
	if err == nil { // else the fault stands without names
		text = meant.Text()
	}
	if n.found == nil {
		n.found = map[verb.Name]string{}
	}
	n.found[name] = text
	return text
}

// load returns the compiled schemas of the verbs by their hashes. One that an import replaced in
// this moment is missing, and then its arguments are not checked.
func (s *Service) load(ctx context.Context, tenant uuid.UUID, verbs map[verb.Name]catalog.Seen) (map[catalog.Hash]*schema, error) {
	found := map[catalog.Hash]*schema{}
	var missing []catalog.Meta
	for _, v := range verbs {
		if kept, ok := s.schemas.Get(v.SchemaHash); ok {
			found[v.SchemaHash] = kept
		} else {
			missing = append(missing, v.Meta)
		}
	}
	read, err := s.d.Catalog.Schemas(ctx, tenant, missing)
	if err != nil {
		return nil, err
	}
	for hash, raw := range read {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		c := compile(raw)
		s.schemas.Add(hash, c, c.size, nil)
		found[hash] = c
	}
	return found, nil
}

// unavailable warns of why no call of the verb goes through now.
func (c call) unavailable(seen catalog.Seen) (list []mapdef.Fault) {
	if !seen.Connected {
		list = append(list, mapdef.Fault{
			Path: c.at + "/verb", Rule: ruleNotConnected,
			Message: "No active credential of " + seen.Name.Provider + " has what the call needs: " + credential.SecurityText(seen.Security) + ". Store one with POST /v1/credentials.",
		})
	}
	if q := seen.Quarantine; q != nil {
		list = append(list, mapdef.Fault{
			Path: c.at + "/verb", Rule: ruleQuarantined, Message: "Governance blocks each call. " + governance.QuarantineVerdict(seen.Name, *q).Reason,
		})
	}
	return list
}

// check compares the arguments that are constant with the verb's schema.
func (c call) check(s *schema, r *Report) {
	args, open := constant(c.args)
	if args == nil {
		return // one expression makes them all
	}
	for _, d := range s.args.Validate(args) {
		if slices.ContainsFunc(open, func(at string) bool { return related("/args"+at, d.Path) }) {
			continue
		}
		r.Errors = append(r.Errors, mapdef.Fault{Path: c.at + d.Path, Rule: d.Rule, Message: d.Message})
	}
	if len(open) == 0 {
		return
	}
	// Whatever an expression makes, its name is known: a misspelt one is none of the verb's.
	for _, d := range s.args.Validate(named(c.args)) {
		if d.Rule == strictjson.RuleUnknownField && slices.Contains(open, strings.TrimPrefix(d.Path, "/args")) {
			r.Errors = append(r.Errors, mapdef.Fault{Path: c.at + d.Path, Rule: d.Rule, Message: d.Message})
		}
	}
}

// related reports whether one of two JSON Pointers is the other, or leads to it.
func related(a, b string) bool {
	return a == b || strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/")
}

// judge asks governance about the calls of a definition.
type judge struct {
	ctx      context.Context
	policies *governance.Set
	masks    policy.Masks
	told     bool // that the time was over
}

// look warns of a call that governance would block or hold. What an expression makes is missing
// in the arguments that are judged.
func (j *judge) look(c call, seen catalog.Seen, s *schema, r *Report) {
	if j.ctx.Err() != nil { // an evaluation looks at that after many policies only
		j.giveUp(c, r)
		return
	}
	args, open := constant(c.args)
	if args == nil {
		args = json.RawMessage("{}")
	}
	call := governance.Call{
		Verb: seen.Name, Domain: seen.Domain, Risk: seen.Risk, Operation: seen.Operation, Args: args, Fields: s.fields,
		Masked: func() json.RawMessage { return mask(s.masker, j.masks, seen.Name, args) }, Done: j.ctx.Done(),
	}
	ruling := j.policies.Decide(call)
	if j.ctx.Err() == nil && ruling.Decision == governance.Allow {
		return
	}
	v := j.policies.Evaluate(call) // with the reason
	if j.ctx.Err() != nil {
		j.giveUp(c, r)
		return
	}
	rule, what := ruleBlocked, "block"
	if v.Decision == governance.PendingApproval {
		rule, what = ruleHeld, "hold"
	}
	message := "Governance would " + what + " this call: " + v.Reason + "."
	if len(open) > 0 || len(v.Lookups) > 0 {
		message = "Governance may " + what + " this call, depending on what is known only when it runs: " + v.Reason + "."
	}
	r.Warnings = append(r.Warnings, mapdef.Fault{Path: c.at, Rule: rule, Message: message})
}

// giveUp warns of the first call that is not judged.
func (j *judge) giveUp(c call, r *Report) {
	if j.told {
		return
	}
	j.told = true
	r.Warnings = append(r.Warnings, mapdef.Fault{
		Path: c.at, Rule: ruleNotJudged, Message: "The policies take too long to judge all calls. This call and those after it were not judged.",
	})
}

// mask returns arguments as they may be shown in a reason.
func mask(m *redact.Masker, masks policy.Masks, name verb.Name, args json.RawMessage) json.RawMessage {
	shown, _ := m.Also(masks.Paths(policy.PartArgs, name)...).Mask(args)
	return shown
}

package openapi

import (
	"fmt"
	"slices"
	"strings"

	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/httpfield"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/maps/expression"
	"agentruntime/internal/provider/correction"
)

// nearWork is what looking for names like that of a rule takes.
const nearWork = 2 * verb.NearWindow

// maxSuggestions is how many suggestions one report names.
const maxSuggestions = 200

// rule is a rule of the import with its values read.
type rule struct {
	correction.Rule
	at          string // its JSON pointer in the body
	values      verb.Definition
	idempotency verb.Idempotency
	timeoutMS   int64
	readBack    *verb.ReadBack
	matched     int
}

// readRules checks the rules of an import. The VALIDATION_ERROR has a detail for each fault.
func readRules(in ImportInput) ([]rule, error) {
	var details []fault.Detail
	for _, f := range correction.Check(in.Rules) {
		details = append(details, fault.Detail{Path: "/rules" + f.Path, Rule: f.Rule, Message: f.Message})
	}
	if len(in.Rules) > correction.MaxRules {
		return nil, invalid(details)
	}
	rules := make([]rule, len(in.Rules))
	for i, r := range in.Rules {
		rules[i] = rule{Rule: r, at: fmt.Sprintf("/rules/%d", i)}
		details = append(details, rules[i].read(in.Slug)...)
	}
	if len(details) > 0 {
		return nil, invalid(details)
	}
	return rules, nil
}

func invalid(details []fault.Detail) error {
	f := fault.New(fault.CodeValidation, details[0].Message)
	f.Details = details[:min(len(details), 50)]
	return f
}

// read reads the values of the rule, and returns those that cannot be used.
func (r *rule) read(slug string) (details []fault.Detail) {
	text := func(name string, value *string, set func(string) bool, hint string) {
		if value != nil && !set(*value) {
			details = append(details, fault.Detail{Path: r.at + "/" + name, Rule: name, Message: name + " " + hint})
		}
	}
	text("risk_level", r.Risk, func(s string) bool { return setRisk(&r.values, s) }, "is low, medium or high.")
	text("operation_type", r.Operation, func(s string) bool { return setOperation(&r.values, s) }, "is read or write.")
	text("domain", r.Domain, func(s string) bool { r.values.Domain = domainName(s); return r.values.Domain != "" }, "has letters or digits.")
	text("idempotency", r.Idempotency, func(s string) (ok bool) {
		r.idempotency, ok = verb.ParseIdempotency(s)
		return ok && !httpfield.ForbiddenArg(r.idempotency.Header())
	}, "is none, intrinsic or header:<Name>.")
	text("rename", r.Rename, func(s string) bool {
		name, err := verb.Parse(slug + ":" + s)
		return err == nil && name.Verb == s && verb.Fit(slug, s) == s
	}, "is a verb's name: lower-case letters, digits, _ and -, at most 64 characters together with the slug and two underscores.")
	if len(r.Timeout) > 0 {
		var known bool
		value, err := exactjson.Decode(r.Timeout)
		if err == nil {
			r.timeoutMS, known = timeout(value)
		}
		if !known {
			details = append(details, fault.Detail{Path: r.at + "/timeout", Rule: "timeout", Message: "timeout is 1 to 60 seconds, as a number or a duration."})
		}
	}
	if r.Normalized != nil {
		if why := expression.Unfit(*r.Normalized); why != "" {
			details = append(details, fault.Detail{Path: r.at + "/normalized", Rule: "jq", Message: why})
		}
	}
	if why := r.readReadBack(); why != nil {
		details = append(details, fault.Detail{Path: r.at + "/read_back", Rule: "read_back", Message: "read_back: " + why.Error() + "."})
	}
	return details
}

func (r *rule) readReadBack() error {
	if len(r.ReadBack) == 0 {
		return nil
	}
	value, err := exactjson.Decode(r.ReadBack)
	if err != nil {
		return reason("it is not JSON")
	}
	r.readBack, err = readBack(value)
	return err
}

// correct applies the rules to a verb. declared is the idempotency that the document declares;
// correct returns the one that counts.
func (o *operation) correct(v *verb.Definition, declared verb.Idempotency) verb.Idempotency {
	op := correction.Operation{Verb: v.Name, Method: o.method, Path: o.path, Tags: o.tags()}
	for i := range o.im.rules {
		r := &o.im.rules[i]
		if !o.im.doc.spend(r.Match.Cost(op)) {
			break
		}
		if !r.Match.Matches(op) {
			continue
		}
		r.matched++
		o.apply(v, r)
		if r.Idempotency != nil {
			declared = r.idempotency
		}
	}
	if v.Operation == verb.Write && v.Risk == verb.RiskLow && v.RiskBy == verb.ByMethod {
		v.Risk = verb.RiskMedium // a GET that is declared to write
	}
	return declared
}

// apply sets what the rule says.
func (o *operation) apply(v *verb.Definition, r *rule) {
	if r.Risk != nil {
		v.Risk, v.RiskBy = r.values.Risk, verb.ByRule
	}
	if r.Operation != nil {
		v.Operation, o.typed = r.values.Operation, true
	}
	if r.Domain != nil {
		v.Domain = r.values.Domain
	}
	if r.Hidden != nil {
		o.hidden = *r.Hidden
	}
	if r.timeoutMS > 0 {
		o.plan.TimeoutMS = r.timeoutMS
	}
	if r.readBack != nil {
		o.readBack, o.readBackBy = r.readBack, r.at+"/read_back"
	}
	if r.Normalized != nil {
		o.plan.Normalized = *r.Normalized
	}
	if r.Rename != nil {
		o.im.renamed[v.Name] = *r.Rename
	}
}

// tags returns the operation's tags as the document writes them.
func (o *operation) tags() []string {
	list, _ := o.node["tags"].([]any)
	tags := make([]string, 0, len(list))
	for _, entry := range list {
		if tag, ok := entry.(string); ok && o.im.doc.spend(1) {
			tags = append(tags, tag)
		}
	}
	return tags
}

// judgeName raises the risk of a write whose name says that it is severe, where nothing but the
// method says a risk.
func (o *operation) judgeName(v *verb.Definition) {
	if v.Operation != verb.Write || v.RiskBy != verb.ByMethod || v.Risk == verb.RiskHigh {
		return
	}
	if v.RiskWhy = correction.Severe(v.Name, snake(correction.LastSegment(o.path))); v.RiskWhy != "" {
		v.Risk, v.RiskBy = verb.RiskHigh, verb.ByName
	}
}

// suggest reports a POST whose name says that it only reads, where nothing says its type.
func (im *importer) suggest(o *operation, v verb.Definition) {
	if o.method != "POST" || o.typed || v.RiskBy == verb.ByName {
		return
	}
	why := correction.Reads(v.Name, snake(correction.LastSegment(o.path)))
	if why == "" {
		return
	}
	if im.out.ReadsTotal++; len(im.out.Reads) < maxSuggestions {
		im.out.Reads = append(im.out.Reads, correction.SuggestRead(label(o.method, o.path), v.Name, why))
	}
}

// rename gives verbs the names of the rules, and reports the rules that were about nothing. A
// rename that matches several operations, or whose name is taken, is a fault.
func (im *importer) rename() error {
	names := make(map[string]bool, len(im.out.Verbs))
	for i := range im.out.Verbs {
		v := &im.out.Verbs[i]
		if name, renamed := im.renamed[v.Name]; renamed {
			v.Name = name
		}
		names[v.Name] = true
	}
	var details []fault.Detail
	for _, r := range im.rules {
		switch {
		case r.matched == 0:
			im.out.Unused = append(im.out.Unused, r.at)
			im.nearOf(r)
		case r.Rename != nil && r.matched > 1:
			details = append(details, fault.Detail{Path: r.at + "/match", Rule: "rename", Message: fmt.Sprintf("rename is about one operation, and the rule matches %d.", r.matched)})
		}
	}
	if len(details) == 0 && len(names) < len(im.out.Verbs) {
		details = im.taken()
	}
	if len(details) > 0 {
		return invalid(details)
	}
	return nil
}

// nearOf reports the verbs that a rule which is about nothing may mean. A pattern means no one verb.
func (im *importer) nearOf(r rule) {
	if r.Match.Verb == nil || strings.Contains(*r.Match.Verb, "*") || !im.doc.spend(nearWork) {
		return
	}
	if im.proposed == nil {
		im.proposed = sorted(im.names.taken)
	}
	if near := verb.Nearest(*r.Match.Verb, im.proposed); len(near) > 0 {
		im.out.UnusedNear = append(im.out.UnusedNear, correction.Near{Path: r.at, Names: near})
	}
}

// taken names the rules whose names other verbs have.
func (im *importer) taken() (details []fault.Detail) {
	count := map[string]int{}
	for _, v := range im.out.Verbs {
		count[v.Name]++
	}
	for _, r := range slices.Backward(im.rules) {
		if r.Rename != nil && count[*r.Rename] > 1 {
			details = append(details, fault.Detail{Path: r.at + "/rename", Rule: "taken", Message: fmt.Sprintf("Another verb has the name %q.", *r.Rename)})
		}
	}
	return details
}

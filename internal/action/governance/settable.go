package governance

import (
	"errors"
	"strings"
)

// SetBy says who can set what a condition reads. A policy that loosens by a caller's word lets through
// every caller who writes that word.
type SetBy string

// Who sets a field. docs/use/policies.md shows these words.
const (
	SetByTenant   SetBy = "the tenant, by JWT or a key that manages it"
	SetByService  SetBy = "the service"
	SetByCall     SetBy = "the call: it is sent so, or it is not sent"
	SetByCaller   SetBy = "the caller: it is their word"
	SetByVisitor  SetBy = "the caller or their visitor: it is their word"
	SetByProvider SetBy = "the provider"
)

// isWord reports whether a caller may write whatever they like there.
func (s SetBy) isWord() bool { return s == SetByCaller || s == SetByVisitor }

// FieldInfo is a field that conditions can ask about. A name that ends in <path> stands for all
// fields that begin so.
type FieldInfo struct {
	Name  string
	SetBy SetBy

	kind kind // of a field with one value: what it is where it is not null
}

// FieldInfos returns all fields. docs/use/policies.md has a row for each.
func FieldInfos() []FieldInfo {
	return []FieldInfo{
		{argsPrefix + anyPath, SetByCall, 0},
		{metadataPrefix + anyPath, SetByCaller, 0},
		{fieldVerb, SetByTenant, kindString},
		{fieldProvider, SetByTenant, kindString},
		{fieldRisk, SetByTenant, kindString},
		{fieldOperation, SetByTenant, kindString},
		{fieldDomain, SetByTenant, kindString},
		{fieldAgentID, SetByCaller, kindAny},
		{fieldAgent, SetByService, kindString},
		{agentPrefix + "name", SetByTenant, 0},
		{agentPrefix + "version", SetByTenant, 0},
		{agentPrefix + "executionMode", SetByTenant, 0},
		{fieldMapID, SetByService, kindString},
		{fieldCustomerID, SetByCaller, kindAny},
		{customerPrefix + "id", SetByService, 0},
		{customerPrefix + "external_id", SetByCaller, 0},
		{customerPrefix + "tags", SetByTenant, 0},
		{customerPrefix + "metadata." + anyPath, SetByTenant, 0},
		{customerPrefix + "claimed." + anyPath, SetByVisitor, 0},
		{fieldSessionID, SetByCaller, kindString},
		{FieldTainted, SetByService, kindAny},
		{fieldSources, SetByService, 0},
		{fieldKeyID, SetByService, kindString},
		{fieldDryRun, SetByCall, kindBool},
		{fieldHour, SetByService, kindNumber},
		{fieldWeekday, SetByService, kindString},
		{lookupPrefix + "<name>." + anyPath, SetByProvider, 0},
	}
}

const anyPath = "<path>"

// fieldInfos are those of FieldInfos by their names.
//
//nolint:gochecknoglobals // immutable
var fieldInfos = func() map[string]FieldInfo {
	m := map[string]FieldInfo{}
	for _, info := range FieldInfos() {
		m[info.Name] = info
	}
	return m
}()

var errPath = func() error {
	var names []string
	for _, info := range FieldInfos() {
		names = append(names, info.Name)
	}
	last := len(names) - 1
	return errors.New("is not a field: " + strings.Join(names[:last], ", ") + " or " + names[last])
}()

// contextKind returns what a field with one value is where it is not null; 0 for any other name.
func contextKind(name string) kind { return fieldInfos[name].kind }

// setBy returns who sets the field.
func (f *field) setBy() SetBy {
	switch f.from {
	case ofArgs:
		return SetByCall
	case ofMetadata:
		return SetByCaller
	case ofLookup:
		return SetByProvider
	case ofCustomer:
		if len(f.path) > 1 {
			return fieldInfos[customerPrefix+f.path[0].name+"."+anyPath].SetBy
		}
	default:
	}
	return fieldInfos[f.name].SetBy
}

// CallersWord is a condition by which a policy loosens, on a field that callers write.
type CallersWord struct{ Place, Field string }

// LoosensByCallersWord is the code of the warning about a CallersWord.
const LoosensByCallersWord = "loosens_by_callers_word"

// Message is the warning.
func (w CallersWord) Message() string {
	return "Condition " + w.Place + " is on " + w.Field + ", which the caller writes or chooses: a caller with another value there may be let through."
}

// CallersWords returns the conditions by which a caller's word lets a call through. A policy that
// allows loosens by each of its conditions. Any other one loosens where a condition is true of a caller who
// is silent, so that a word makes it false. A window is left by another word. A customer's record is the
// tenant's, but a caller over HTTP says whose record is read. It ignores conditions that cannot be read.
func CallersWords(action Action, list []Condition) []CallersWord {
	var found []CallersWord
	for place, source := range Leaves(list) {
		source.Operator = lower(source.Operator)
		c, problems := compileCondition(source)
		if len(problems) > 0 {
			continue
		}
		name := ""
		switch {
		case c.window != nil:
			if c.window.by.setBy().isWord() {
				name = c.window.by.name
			}
		case c.setBy().isWord() || c.from == ofCustomer:
			name = c.name
		case c.other != nil && (c.other.setBy().isWord() || c.other.from == ofCustomer):
			name = c.other.name
		}
		if name == "" {
			continue
		}
		isNot := strings.Count(place, memberNot)%2 == 1
		if action == ActionAllow || c.window != nil || c.looksUp || c.trueOfSilence(!isNot) != isNot {
			found = append(found, CallersWord{place, name})
		}
	}
	return found
}

// trueOfSilence reports whether the condition is true of a call that has nothing. What is compared with
// another field counts as true where the operator does not ask that both are alike.
func (c *condition) trueOfSilence(strict bool) bool {
	if c.other != nil {
		return !c.op.alike
	}
	e := evaluation{args: document{data: []byte("{}"), left: maxWork}}
	ok, _ := c.isMet(&e, strict)
	return ok
}

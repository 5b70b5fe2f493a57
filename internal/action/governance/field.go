package governance

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // the zones of conditions, also where the machine has none

	"agentruntime/internal/base/near"
	"agentruntime/internal/base/taint"
)

// FieldTainted is true where an agent has read what others than the tenant wrote.
const FieldTainted = sessionPrefix + "tainted"

// The fields of a call besides its arguments.
const (
	fieldAgentID    = "agent_id"
	fieldAgent      = agentPrefix + "id"
	fieldCustomerID = "customer_id"
	fieldSources    = sessionPrefix + memberSources
	fieldSessionID  = "session.id"
	fieldMapID      = "map_id"
	fieldKeyID      = "key.id"
	fieldDryRun     = "dry_run"
	fieldVerb       = "verb"
	fieldProvider   = "provider"
	fieldRisk       = "risk_level"
	fieldOperation  = "operation_type"
	fieldDomain     = "domain"
	fieldHour       = "time.hour"
	fieldWeekday    = "time.weekday"

	argsPrefix     = "args."
	fieldCustomer  = "customer"
	customerPrefix = fieldCustomer + "." // of the record of the call's customer
	metadataPrefix = "metadata."
	fieldOwnAgent  = "agent"
	agentPrefix    = fieldOwnAgent + "." // of the agent of ours that makes the call
	lookupPrefix   = "lookup."           // of the answer of a look-up
	sessionPrefix  = "session."
	memberSources  = "taint_sources" // a list, so it is of a document
)

// fieldValues are the values of fields that have only a few.
//
//nolint:gochecknoglobals // immutable
var fieldValues = map[string][]string{
	fieldRisk:      {"low", "medium", "high"},
	fieldOperation: {"read", "write"},
	fieldWeekday:   {"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"},
}

// origin says where the values of a field are.
type origin uint8

const (
	ofCall     origin = iota // one of those with a kind
	ofArgs                   // the values at a path of the arguments
	ofCustomer               // of the customer's record
	ofMetadata               // of what the caller has written about the call
	ofAgent                  // of the agent's description
	ofSources                // the sources of the taint
	ofLookup                 // of the answer of a look-up of the policy
)

// field is a field of a call that is ready to be read.
type field struct {
	name string
	from origin
	path []segment
	zone *time.Location // of time.hour and time.weekday
	// lookupName is the name of the look-up, and lookup its place in the policy.
	lookupName string
	lookup     int
}

// readField reads the name of a field, and the zone beside it. The error never repeats either.
func readField(name, zone string) (f field, p *problem) {
	f.name = name
	var err error
	switch {
	case strings.HasPrefix(name, argsPrefix):
		f.from = ofArgs
		f.path, err = parsePath(name[len(argsPrefix):])
	case strings.HasPrefix(name, customerPrefix):
		f.from = ofCustomer
		if f.path, err = parsePath(name[len(customerPrefix):]); err == nil && !isOfCustomer(f.path) {
			err = errPath
		}
	case strings.HasPrefix(name, metadataPrefix):
		f.from = ofMetadata
		f.path, err = parsePath(name[len(metadataPrefix):])
	case strings.HasPrefix(name, agentPrefix) && name != fieldAgent:
		f.from = ofAgent
		if f.path, err = parsePath(name[len(agentPrefix):]); err == nil && !isOfAgent(f.path) {
			err = errPath
		}
	case strings.HasPrefix(name, lookupPrefix):
		f.from = ofLookup
		if f.path, err = parsePath(name[len(lookupPrefix):]); err == nil && len(f.path) < 2 {
			err = errPath
		}
		if err == nil {
			f.lookupName, f.path = f.path[0].name, f.path[1:]
		}
	case name == fieldSources:
		f.from = ofSources
		f.path, err = parsePath(memberSources)
	case contextKind(name) == 0:
		err = errPath
	}
	if err != nil {
		return f, &problem{"field", "field", err.Error() + near.Sentence(name, fieldNames(name))}
	}
	return f, f.readZone(zone)
}

// fieldNames returns the names that a field may have which is like name. Those with a path of the
// author's own have that of name.
func fieldNames(name string) []string {
	var names []string
	for _, info := range FieldInfos() {
		if !strings.Contains(info.Name, anyPath) {
			names = append(names, info.Name)
		}
	}
	if _, path, has := strings.Cut(name, "."); has {
		names = append(names, argsPrefix+path, metadataPrefix+path, customerPrefix+path, lookupPrefix+path)
	}
	return names
}

// isOfCustomer reports whether conditions can ask about this place of a customer's record.
func isOfCustomer(path []segment) bool {
	switch path[0].name {
	case "id", "external_id", "tags":
		return len(path) == 1
	case "metadata", "claimed":
		return len(path) > 1
	}
	return false
}

// isOfAgent reports whether conditions can ask about this place of an agent's description.
func isOfAgent(path []segment) bool {
	return len(path) == 1 && slices.Contains([]string{"name", "version", "executionMode"}, path[0].name)
}

// zones are the zones that were read, by their names. Only names that exist are in it.
//
//nolint:gochecknoglobals // a cache of what never changes
var zones sync.Map

// readZone sets the zone of a field of time, UTC where none is given.
func (f *field) readZone(name string) *problem {
	ofTime := f.name == fieldHour || f.name == fieldWeekday
	switch {
	case !ofTime && name == "":
		return nil
	case !ofTime:
		return &problem{"zone", "unexpected", "must be absent: only time.hour and time.weekday have one"}
	case name == "":
		f.zone = time.UTC
		return nil
	}
	if known, ok := zones.Load(name); ok {
		f.zone, _ = known.(*time.Location)
		return nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return &problem{"zone", "zone", "must be a name of the IANA time zone database, as in Europe/Berlin"}
	}
	zones.Store(name, zone)
	f.zone = zone
	return nil
}

// checkOperands returns what is wrong with values that the field never has.
func (f *field) checkOperands(list []operand) *problem {
	types, of := contextKind(f.name), fieldValues[f.name]
	if f.from != ofCall || types == kindAny {
		return nil
	}
	for _, o := range list {
		switch {
		case o.kind == kindNull:
		case o.kind&types == 0:
			return &problem{"value", "type", "has a type that " + f.name + " never has"}
		case of != nil && !slices.Contains(of, string(o.text)):
			return &problem{"value", ruleEnum, near.OneOf(string(o.text), of...)}
		}
	}
	return nil
}

// inContext returns the value of a field that has one value, null where the call has none.
func (f *field) inContext(c *Call) value {
	about := &c.Context
	switch f.name {
	case fieldAgentID:
		return optionalText(about.AgentID)
	case fieldAgent:
		return optionalText(about.OwnAgentID)
	case fieldMapID:
		return optionalText(about.MapID)
	case fieldCustomerID:
		return optionalText(about.CustomerID)
	case fieldSessionID:
		return optionalText(about.SessionID)
	case fieldKeyID:
		return optionalText(about.KeyID)
	case FieldTainted:
		return optionalBool(about.Tainted)
	case fieldDryRun:
		return optionalBool(about.DryRun)
	case fieldVerb:
		return textValue(c.Verb.String())
	case fieldProvider:
		return textValue(c.Verb.Provider)
	case fieldRisk:
		return textValue(string(c.Risk))
	case fieldOperation:
		return textValue(string(c.Operation))
	case fieldDomain:
		return textValue(c.Domain)
	default:
		return f.ofTime(about.Now)
	}
}

// ofTime returns the hour or the weekday of the decision in the field's zone.
func (f *field) ofTime(now time.Time) value {
	switch {
	case now.IsZero():
		return nullValue()
	case f.name == fieldHour:
		return value{kind: kindNumber, text: strconv.AppendInt(nil, int64(now.In(f.zone).Hour()), 10)}
	default:
		return textValue(strings.ToLower(now.In(f.zone).Weekday().String()))
	}
}

// document returns the document that the field's path is of, which is not the arguments. A call
// without one has an empty one.
func (f *field) document(e *evaluation) *document {
	if f.from == ofLookup {
		return &e.ask(f.lookup).answer
	}
	return f.record(e)
}

// record is document for what the call itself has.
func (f *field) record(e *evaluation) *document {
	switch f.from {
	case ofMetadata:
		return lazily(&e.metadata, e.call.Context.Metadata)
	case ofAgent:
		return lazily(&e.agent, e.call.Context.Agent)
	case ofSources:
		return lazily(&e.sources, sourcesDocument(e.call.Context.TaintSources))
	default:
		if e.record.data == nil {
			e.record.data = e.call.Context.Customer
		}
		return &e.record
	}
}

// sourcesDocument returns the sources as a document of one member; nil where there are none. A list that
// does not name all is none that can be read, so that a condition takes the stricter side.
func sourcesDocument(sources []string) []byte {
	if len(sources) == 0 {
		return nil
	}
	if slices.Contains(sources, taint.More) {
		return []byte("more")
	}
	raw, _ := json.Marshal(map[string][]string{memberSources: sources}) //nolint:errchkjson // texts can be written
	return raw
}

func lazily(d **document, data []byte) *document {
	if *d == nil {
		*d = &document{data: data}
	}
	return *d
}

func nullValue() value { return value{kind: kindNull, text: []byte("null")} }

func textValue(s string) value { return value{kind: kindString, text: []byte(s)} }

func optionalText(s *string) value {
	if s == nil {
		return nullValue()
	}
	return textValue(*s)
}

func optionalBool(b *bool) value {
	if b == nil {
		return nullValue()
	}
	return value{kind: kindBool, text: strconv.AppendBool(nil, *b)}
}

package agentdef

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/strictjson"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/maps/mapdef"
)

// MaxBytes is how large a definition may be, as JSON with its defaults.
const MaxBytes = 256 << 10

// Default returns the definition that an author changes: all members but the name.
func Default() Definition {
	return Definition{
		ExecutionMode: Conversational,
		Models:        Models{Worker: &Model{Provider: BuiltIn, Model: Rules}},
		// No verb of a provider unless the author names it.
		Tools: Tools{Allow: []string{"tool:*"}, Deny: []string{}, MaxPerTurn: 20, Parallel: 4},
		// A conversation answers in a few turns; ten minutes leave room for slow providers.
		Limits:      Limits{MaxTurns: 10, StepAttempts: 3, GoalSteps: 20, WallClock: Duration(10 * time.Minute)},
		SOPs:        []SOP{},
		Maps:        []uuid.UUID{},
		Concurrency: Enqueue,
		Language:    Follow,
		// About ten exchanges with their calls.
		Memory: Memory{WindowMessages: 40, Summarize: true, Customer: MemoryTools},
		// An agent without people behind it must not stop to answer, so only the customer's wish counts.
		Escalation: Escalation{OnRequest: true},
	}
}

// Read reads a definition from JSON of at most MaxBytes, and fills in what it leaves out. It refuses
// with INVALID_JSON, and with VALIDATION_ERROR whose details name all that is wrong.
func Read(source []byte) (*Definition, error) {
	if len(source) > MaxBytes {
		return nil, fault.Invalid("", "maxLength", fmt.Sprintf("The definition of an agent has at most %d bytes.", MaxBytes))
	}
	d := Default()
	d.Models.Worker = nil // one that the author names takes nothing of the default
	err := strictjson.Decode(source, &d, strictjson.Options{})
	if err != nil && !fault.HasCode(err, fault.CodeValidation) {
		return nil, err
	}
	d.complete()
	v := &faults{}
	if err != nil {
		v.list = fault.As(err).Details
	}
	d.check(v)
	if len(v.list) == 0 && len(d.Encode()) > MaxBytes {
		v.add("", "maxLength", fmt.Sprintf("has at most %d bytes with its defaults", MaxBytes))
	}
	if err := v.fault(); err != nil {
		return nil, err
	}
	return &d, nil
}

// lower returns a value of a list of ours, which authors may write in any case.
func lower[S ~string](s S) S { return S(strings.ToLower(string(s))) }

// complete gives what is null or left out its default.
func (d *Definition) complete() {
	otherwise := Default()
	d.ExecutionMode, d.Concurrency, d.Memory.Customer = lower(d.ExecutionMode), lower(d.Concurrency), lower(d.Memory.Customer)
	if d.Memory.Customer == "" {
		d.Memory.Customer = otherwise.Memory.Customer
	}
	if d.Language = lower(d.Language); d.Language == "" {
		d.Language = otherwise.Language
	}
	if d.Models.Worker == nil {
		d.Models.Worker = otherwise.Models.Worker
	}
	if d.Tools.Allow == nil {
		d.Tools.Allow = otherwise.Tools.Allow
	}
	if d.Tools.Deny == nil {
		d.Tools.Deny = otherwise.Tools.Deny
	}
	if d.SOPs == nil {
		d.SOPs = otherwise.SOPs
	}
	if d.Maps == nil {
		d.Maps = otherwise.Maps
	}
	lists := [][]string{d.Tools.Allow, d.Tools.Deny}
	for _, p := range d.SOPs {
		lists = append(lists, p.Tools)
	}
	for _, list := range lists {
		for i, pattern := range list {
			list[i] = verb.Canonical(pattern)
		}
	}
	for _, m := range d.Models.all() {
		m.model.complete()
	}
}

// answerTime is how long an answer of a model may take where the definition does not say it.
const answerTime = Duration(time.Minute)

func (m *Model) complete() {
	if m.Timeout == 0 {
		m.Timeout = answerTime
	}
	for i := range m.Fallback {
		m.Fallback[i].complete()
	}
}

// role is a model and the member that it stands in.
type role struct {
	name  string
	model *Model
}

// all returns the models that the definition names.
func (m Models) all() []role {
	list := []role{{"worker", m.Worker}, {"manager", m.Manager}, {"planner", m.Planner}, {"summarizer", m.Summarizer}, {"embedder", m.Embedder}}
	return slices.DeleteFunc(list, func(r role) bool { return r.model == nil })
}

// Change returns the definition with the top-level members of a JSON object in the place of its own.
// A member that is null gets its default. It refuses as Read does.
func (d *Definition) Change(patch []byte) (*Definition, error) {
	given := map[string]json.RawMessage{}
	if err := strictjson.Decode(patch, &given, strictjson.Options{}); err != nil {
		return nil, err
	}
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(d.Encode(), &members); err != nil {
		return nil, fmt.Errorf("change a definition: %w", err)
	}
	for name, value := range given {
		if string(value) == "null" {
			delete(members, name)
			if !known(name) {
				members[name] = value // so that Read names it
			}
			continue
		}
		members[name] = value
	}
	source, err := json.Marshal(members)
	if err != nil {
		return nil, fmt.Errorf("change a definition: %w", err)
	}
	return Read(source)
}

// known reports whether a definition has the member.
func known(name string) bool {
	return slices.Contains(Members(), name)
}

// Members returns the names of the members of a definition.
func Members() []string {
	return []string{
		"name", "executionMode", "instructions", "models", "tools", "limits", "sops", "maps", "concurrency", "language", "memory", "escalation",
		"map_id", "completion_criteria",
	}
}

// Encode returns the definition as JSON.
func (d *Definition) Encode() []byte {
	raw, err := json.Marshal(d)
	if err != nil { // texts, numbers and lists are always JSON
		return []byte("{}")
	}
	return raw
}

// Decode returns the definition that Encode has written.
func Decode(source []byte) (*Definition, error) {
	d := &Definition{}
	if err := json.Unmarshal(source, d); err != nil {
		return nil, fmt.Errorf("read a stored definition: %w", err)
	}
	return d, nil
}

// UnmarshalJSON reads an SOP, which is enabled unless it says otherwise.
func (p *SOP) UnmarshalJSON(raw []byte) error {
	type plain SOP
	read := plain{Enabled: true}
	err := strictjson.Decode(raw, &read, strictjson.Options{})
	*p = SOP(read) // with what could be read, so that no place has two faults
	return err
}

// UnmarshalJSON reads a duration as Maps write it: 400ms, 30s, 5m, 2h or 7d.
func (d *Duration) UnmarshalJSON(raw []byte) error {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return fault.Invalid("", strictjson.RuleType, mapdef.ErrDuration.Error())
	}
	read, err := mapdef.ParseDuration(text)
	if err != nil {
		return fault.Invalid("", "format", err.Error())
	}
	*d = Duration(read)
	return nil
}

// MarshalJSON writes the duration in its largest whole unit.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// String returns the duration as definitions write it.
func (d Duration) String() string {
	units := []struct {
		name string
		size time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}}
	for _, u := range units {
		if n := d.Std(); n > 0 && n%u.size == 0 {
			return fmt.Sprintf("%d%s", n/u.size, u.name)
		}
	}
	return fmt.Sprintf("%dms", d.Std().Milliseconds())
}

// Std returns the duration as Go's.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// faults collects what is wrong with a definition.
type faults struct{ list []fault.Detail }

// add notes a fault, unless the place, or what it stands in, has one already.
func (f *faults) add(path, rule, message string) {
	for _, known := range f.list {
		if known.Path == path || strings.HasPrefix(path, known.Path+"/") {
			return
		}
	}
	f.list = append(f.list, fault.Detail{Path: path, Rule: rule, Message: message})
}

func (f *faults) addf(path, rule, format string, args ...any) {
	f.add(path, rule, fmt.Sprintf(format, args...))
}

// maxFaults is how many faults one answer names.
const maxFaults = 50

// fault returns the VALIDATION_ERROR, nil where nothing is wrong.
func (f *faults) fault() error {
	if len(f.list) == 0 {
		return nil
	}
	message := strings.TrimPrefix(f.list[0].Path+": "+f.list[0].Message, ": ")
	if n := len(f.list) - 1; n > 0 {
		message += fmt.Sprintf(" (and %d more)", n)
	}
	e := fault.New(fault.CodeValidation, message)
	e.Details = f.list[:min(len(f.list), maxFaults)]
	return e
}

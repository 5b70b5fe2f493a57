package governance

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"agentruntime/internal/base/strictjson"
	"agentruntime/internal/base/verb"
)

// Look-ups: reads whose results the conditions of a policy use. This package never makes one. It
// says which ones a call needs (Verdict.Lookups), and judges by the answers (Context.Lookups).

// Lookup is a read that a policy needs before it can judge a call.
type Lookup struct {
	// Name is how conditions name it: lookup.<name>.<path>.
	Name string `json:"name"`
	Verb string `json:"verb"` // provider:verb_name, a read
	// Args are those of the read. In the place of any value, {"field": "args.order_id"} takes a
	// field of the call.
	Args json.RawMessage `json:"args,omitempty"`
}

// Limits of look-ups.
const (
	MaxLookups       = 3       // of one policy
	maxCallLookups   = 10      // of one call, of all policies together
	maxLookupArgs    = 4 << 10 // bytes, as written
	maxLookupCall    = 64 << 10
	maxLookupName    = 32
	maxLookupKept    = 64 << 10
	lookupCharacters = "abcdefghijklmnopqrstuvwxyz0123456789_"
)

// LookupCall is a read that has to be made before a call can be judged.
type LookupCall struct {
	// Key names the answer in Context.Lookups. It differs where the read, its arguments or what
	// conditions ask of its answer differ.
	Key  string
	Verb verb.Name
	Args json.RawMessage
	// For are the look-ups that ask for it.
	For []LookupOf

	keep [][]segment
}

// LookupOf names a look-up of a policy.
type LookupOf struct {
	PolicyID   uuid.UUID `json:"policy_id"`
	PolicyName string    `json:"policy_name"`
	Version    int32     `json:"version"`
	Name       string    `json:"lookup"`
}

// Answer is what came of a look-up: what conditions ask of the answer, or why there is none.
type Answer struct {
	Value   json.RawMessage `json:"value,omitempty"`
	Failure LookupFailure   `json:"failure,omitempty"`
}

// LookupFailure says why a look-up has no answer. Rows store it as text.
type LookupFailure string

// Why a look-up has no answer.
const (
	LookupNoVerb       LookupFailure = "no_verb"
	LookupNoRead       LookupFailure = "no_read"
	LookupArgs         LookupFailure = "args"
	LookupNotConnected LookupFailure = "not_connected"
	LookupStopped      LookupFailure = "stopped"
	LookupQuarantined  LookupFailure = "quarantined"
	LookupRefused      LookupFailure = "refused"
	LookupTimeout      LookupFailure = "timeout"
	LookupFailed       LookupFailure = "failed"
	LookupTooLarge     LookupFailure = "too_large"
)

// why returns the failure as what a condition in doubt says.
func (f LookupFailure) why() why {
	switch f {
	case LookupNoVerb:
		return whyLookupNoVerb
	case LookupNoRead:
		return whyLookupNoRead
	case LookupArgs:
		return whyLookupArgs
	case LookupNotConnected:
		return whyLookupConnect
	case LookupStopped:
		return whyLookupStopped
	case LookupQuarantined:
		return whyLookupQuarantined
	case LookupRefused:
		return whyLookupRefused
	case LookupTimeout:
		return whyLookupTimeout
	case LookupTooLarge:
		return whyLookupTooLarge
	default:
		return whyLookupFailed
	}
}

// Answered returns the answer as the conditions need it: of the result only what they ask about. There
// is none where that could be read in two ways, as a name that stands twice.
func (c LookupCall) Answered(result json.RawMessage) Answer {
	d := document{data: result, left: maxWork}
	if !d.load() {
		return Answer{Failure: LookupFailed}
	}
	var b bytes.Buffer
	d.keep(&b, 0, c.keep)
	if d.left < 0 || b.Len() > maxLookupKept {
		return Answer{Failure: LookupTooLarge}
	}
	if strictjson.Check(b.Bytes(), strictjson.Options{Free: []string{""}, MaxDepth: maxDepth}) != nil {
		return Answer{Failure: LookupFailed}
	}
	return Answer{Value: b.Bytes()}
}

// keep writes value i with what the paths lead to, and without the rest. An element of an array
// that no path leads to becomes null, so that the others keep their places.
func (d *document) keep(b *bytes.Buffer, i uint32, paths [][]segment) {
	n := d.node(i)
	whole := slices.ContainsFunc(paths, func(p []segment) bool { return len(p) == 0 })
	if whole || n.kind&(kindObject|kindArray) == 0 {
		b.Write(d.raw(i))
		return
	}
	first := true
	next := func() {
		if !first {
			b.WriteByte(',')
		}
		first = false
	}
	if n.kind == kindArray {
		b.WriteByte('[')
		at := 0
		for e := i + 1; e < n.next && b.Len() <= maxLookupKept && d.spend(placeWork); e = d.node(e).next {
			next()
			if rest := within(paths, at); len(rest) > 0 {
				d.keep(b, e, rest)
			} else {
				b.WriteString("null")
			}
			at++
		}
		b.WriteByte(']')
		return
	}
	b.WriteByte('{')
	for m := i + 1; m < n.next && b.Len() <= maxLookupKept && d.spend(placeWork); m = d.node(m).next {
		var rest [][]segment
		for _, p := range paths {
			if d.compare(m, p[0]) != nameOther {
				rest = append(rest, p[1:])
			}
		}
		if len(rest) > 0 {
			next()
			b.WriteByte('"')
			b.Write(d.data[d.node(m).nameFrom:d.node(m).nameEnd])
			b.WriteString(`":`)
			d.keep(b, m, rest)
		}
	}
	b.WriteByte('}')
}

// within returns the paths that lead into element at of an array.
func within(paths [][]segment, at int) (rest [][]segment) {
	for _, p := range paths {
		switch p[0].index {
		case -1:
			rest = append(rest, p)
		case at:
			rest = append(rest, p[1:])
		}
	}
	return rest
}

// lookup is a Lookup that is ready to be asked for.
type lookup struct {
	name string
	read *read
}

// read is what look-ups of several policies may share: the same verb with the same arguments.
type read struct {
	verb verb.Name
	args []part
	keep map[string][]segment // what conditions ask of the answer, by the path
	id   string               // of all of these; "" until the set is complete
}

// part is a piece of the arguments of a look-up: text, or a field of the call.
type part struct {
	text  []byte
	field *field
}

// readLookup reads a look-up. The problem's field is the member that is wrong.
func readLookup(source Lookup) (*lookup, *problem) {
	l := &lookup{name: source.Name, read: &read{keep: map[string][]segment{}}}
	if n := len(source.Name); n == 0 || n > maxLookupName || strings.Trim(source.Name, lookupCharacters) != "" {
		return nil, &problem{"name", "pattern", fmt.Sprintf("must be 1 to %d of a to z, 0 to 9 and _", maxLookupName)}
	}
	var err error
	if l.read.verb, err = verb.Parse(source.Verb); err != nil || l.read.verb.Provider == verb.ReservedSlug {
		return nil, &problem{"verb", "verb", "must be a verb of a provider: <provider>:<verb_name>"}
	}
	var p *problem
	l.read.args, p = readTemplate(source.Args)
	return l, p
}

// readTemplate splits the arguments at the fields of the call that they take.
func readTemplate(args json.RawMessage) ([]part, *problem) {
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	switch {
	case len(args) > maxLookupArgs:
		return nil, &problem{"args", "maxLength", fmt.Sprintf("is longer than %d bytes", maxLookupArgs)}
	case strictjson.Check(args, strictjson.Options{Free: []string{""}}) != nil:
		return nil, &problem{"args", "json", "is not acceptable JSON"}
	}
	var compact bytes.Buffer
	d := document{}
	if json.Compact(&compact, args) == nil {
		d.data = compact.Bytes()
	}
	if !d.load() || d.node(0).kind != kindObject {
		return nil, &problem{"args", "type", "must be an object"}
	}
	var parts []part
	done := uint32(0)
	for i := uint32(1); i < d.size; i++ {
		name, ok := d.takesField(i)
		if !ok {
			continue
		}
		f, p := readField(name, "")
		switch {
		case p != nil:
			return nil, &problem{"args", p.rule, `has a "field" that ` + p.message}
		case f.from == ofLookup:
			return nil, &problem{"args", "field", `has a "field" of a look-up: it may take fields of the call only`}
		}
		parts = append(parts, part{text: d.data[done:d.node(i).from]}, part{field: &f})
		done = d.node(i).end
		i++ // its one member
	}
	return append(parts, part{text: d.data[done:]}), nil
}

// takesField returns the field that value i stands for, where it is an object with the one member
// "field".
func (d *document) takesField(i uint32) (name string, ok bool) {
	n := d.node(i)
	if n.kind != kindObject || n.count != 1 || d.node(i+1).kind != kindString {
		return "", false
	}
	member := d.node(i + 1)
	return string(d.text(i + 1)), string(d.data[member.nameFrom:member.nameEnd]) == "field"
}

// resolve returns the arguments of the read for the call.
func (r *read) resolve(e *evaluation) (json.RawMessage, why) {
	var b bytes.Buffer
	for _, p := range r.args {
		if b.Write(p.text); p.field == nil {
			continue
		}
		value, reason := p.field.given(e)
		if reason != whyJudged {
			return nil, reason
		}
		if b.Write(value); b.Len() > maxLookupCall {
			return nil, whyLookupArgs
		}
	}
	return b.Bytes(), whyJudged
}

// given returns the one value of a field as JSON. Where the call has none, or several, the look-up
// that takes it cannot be made.
func (f *field) given(e *evaluation) (json.RawMessage, why) {
	d := &e.args
	switch f.from {
	case ofCall:
		v := f.inContext(&e.call)
		if v.kind != kindString {
			return v.text, lacking(v.kind == kindNull)
		}
		text, err := json.Marshal(string(v.text))
		return text, lacking(err != nil)
	case ofArgs:
	default:
		d = f.record(e)
		d.left = e.args.left
		defer func() { e.args.left = d.left }()
	}
	if !d.load() {
		return nil, whyUnreadable
	}
	var value json.RawMessage
	places := 0
	d.each(0, f.path, func(i uint32, found bool) bool {
		if places++; found && d.node(i).kind != kindNull {
			value = d.raw(i)
		}
		return places == 1
	})
	if d.left < 0 {
		return nil, whyWork
	}
	return value, lacking(places != 1 || value == nil)
}

func lacking(lacks bool) why {
	if lacks {
		return whyLookupLacks
	}
	return whyJudged
}

// share makes look-ups of one read share it, so that one call of the verb answers them all.
func (s *sharing) share(p *policy) {
	for i := range p.lookups {
		l := &p.lookups[i]
		name := l.read.text()
		shared, known := s.reads[name]
		if !known {
			if s.reads == nil {
				s.reads = map[string]*read{}
			}
			s.reads[name], s.order = l.read, append(s.order, l.read)
			continue
		}
		maps.Copy(shared.keep, l.read.keep)
		l.read = shared
	}
}

// sharing are the reads of a set while it is compiled.
type sharing struct {
	reads map[string]*read
	order []*read
}

// finish names the reads by all that they are made of.
func (s *sharing) finish() {
	for _, r := range s.order {
		paths := make([]string, 0, len(r.keep))
		for path := range r.keep {
			paths = append(paths, path)
		}
		slices.Sort(paths)
		r.id = r.text() + "\x00" + strings.Join(paths, "\x00")
	}
}

// text returns the verb and the arguments as they are written.
func (r *read) text() string {
	var b strings.Builder
	b.WriteString(r.verb.String())
	for _, p := range r.args {
		b.WriteByte(0)
		b.Write(p.text)
		if p.field != nil {
			b.WriteByte(1)
			b.WriteString(p.field.name)
		}
	}
	return b.String()
}

// asked is a read for the call that is judged.
type asked struct {
	reason why      // why there is no answer; whyJudged where there is one
	answer document // what the conditions ask of it
	key    string
	args   json.RawMessage
}

// ask returns the answer to look-up i of the policy that is judged.
func (e *evaluation) ask(i int) *asked {
	r := e.at.lookups[i].read
	if known := e.answers[r]; known != nil {
		return known
	}
	a := &asked{}
	if e.answers == nil {
		e.answers = map[*read]*asked{}
	}
	e.answers[r] = a
	if a.args, a.reason = r.resolve(e); a.reason != whyJudged {
		return a
	}
	sum := sha256.Sum256(append([]byte(r.id+"\x00"), a.args...))
	a.key = hex.EncodeToString(sum[:])
	given, known := e.call.Context.Lookups[a.key]
	switch {
	case !known && len(e.call.Context.Lookups) >= maxCallLookups:
		a.reason = whyLookupTooMany
	case !known:
		a.reason = whyNotRun
	case given.Failure != "":
		a.reason = given.Failure.why()
	default:
		a.answer = document{data: given.Value}
	}
	return a
}

// pass says how a look-up that was not made counts while a policy is judged.
type pass uint8

const (
	passJudge  pass = iota // in doubt
	passLeast              // so that the policy matches only where it does whatever the answer is
	passLikely             // so that it matches where any answer may make it
)

// unanswered returns the look-up without an answer that the condition needs, nil where it has all.
func (c *condition) unanswered(e *evaluation) *asked {
	if c.from == ofLookup {
		if a := e.ask(c.lookup); a.reason != whyJudged {
			return a
		}
	}
	if c.other != nil && c.other.from == ofLookup {
		if a := e.ask(c.other.lookup); a.reason != whyJudged {
			return a
		}
	}
	return nil
}

// without returns how a condition counts whose look-up has no answer.
func (e *evaluation) without(c *condition, a *asked, strict bool) (ok bool, reason why) {
	if a.reason != whyNotRun || e.pass == passJudge {
		return strict, a.reason
	}
	if e.waits == nil {
		e.waits, e.waitsFor = a, c.lookupOf(a, e)
	}
	// A condition within a not counts the other way round.
	inside := strict != e.at.tightens()
	return inside != (e.pass == passLikely), whyNotRun
}

// lookupOf returns which look-up of the policy has the answer a.
func (c *condition) lookupOf(a *asked, e *evaluation) int {
	if c.from == ofLookup && e.ask(c.lookup) == a {
		return c.lookup
	}
	return c.other.lookup
}

// matches reports whether all conditions of the policy are met, and whether that depends on a
// look-up that was not made. Where it does, the first such look-up is asked for.
func (e *evaluation) matches(p *policy) (ok, depends bool) {
	e.at = p
	if len(p.lookups) == 0 {
		return e.meets(p, passJudge), false
	}
	e.waits = nil
	least := e.meets(p, passLeast)
	waits, i := e.waits, e.waitsFor
	if depends = least != e.meets(p, passLikely); depends && waits != nil {
		if e.need(p, i, waits); e.call.Context.LookupsLater && p.ID != e.call.Context.LookupsNow {
			return e.meets(p, passLeast), true
		}
	}
	return e.meets(p, passJudge), depends
}

func (e *evaluation) meets(p *policy, how pass) bool {
	strict := p.tightens()
	e.pass = how
	e.found.reset()
	for later := range 2 { // what needs no look-up comes first
		for i := range p.conditions {
			if c := &p.conditions[i]; c.looksUp == (later == 1) && !c.isMet(e, strict) {
				return false
			}
		}
		if len(p.lookups) == 0 {
			break
		}
	}
	return true
}

// need notes that a look-up of the policy has to be made.
func (e *evaluation) need(p *policy, i int, a *asked) {
	l := &p.lookups[i]
	of := LookupOf{PolicyID: p.ID, PolicyName: p.Name, Version: p.Version, Name: l.name}
	for n := range e.needs {
		if e.needs[n].Key == a.key {
			e.needs[n].For = append(e.needs[n].For, of)
			return
		}
	}
	if len(e.needs)+len(e.call.Context.Lookups) >= maxCallLookups {
		a.reason = whyLookupTooMany
		return
	}
	keep := make([][]segment, 0, len(l.read.keep))
	for _, path := range l.read.keep {
		keep = append(keep, path)
	}
	e.needs = append(e.needs, LookupCall{Key: a.key, Verb: l.read.verb, Args: a.args, For: []LookupOf{of}, keep: keep})
}

// blocks reports whether an enforced policy blocks the call whatever look-ups answer.
func (e *evaluation) blocks() bool {
	return slices.ContainsFunc(e.matched.all(), func(m matched) bool { return m.Mode == Enforce && m.Action == ActionBlock && !m.depends })
}

// stillNeeded returns the look-ups to be made. A call that is blocked whatever they answer needs none.
func (e *evaluation) stillNeeded() []LookupCall {
	if e.blocks() {
		return nil
	}
	return e.needs
}

// ofAnswer is direct for a field of a look-up's answer. A field that the answer lacks cannot be
// judged, unless the operator asks whether it is there.
func (c *condition) ofAnswer(e *evaluation, strict bool) (ok bool, reason why) {
	a := e.ask(c.lookup)
	d := &a.answer
	d.left = e.args.left
	defer func() { e.args.left = d.left }()
	if a.reason != whyJudged {
		return strict, a.reason
	}
	if !d.load() {
		return strict, whyLookupFailed
	}
	s := side{strict: strict, ok: !strict}
	d.each(0, c.path, func(i uint32, found bool) bool {
		f, why := c.at(d, i, found, true, kindAny)
		if why == whyLacks {
			why = whyAnswerLacks
		}
		return s.add(f, why)
	})
	return s.within(d)
}

// LookupsOf returns the verbs that the look-ups of a policy read, by their places in the request
// body, and the names of those that no condition uses.
func LookupsOf(p Policy) (verbs map[string]verb.Name, unused []string) {
	verbs = map[string]verb.Name{}
	used := map[string]bool{}
	for _, c := range Leaves(p.Conditions) {
		for _, name := range []string{c.Field, c.ValueField} {
			if f, problem := readField(name, ""); problem == nil && f.from == ofLookup {
				used[f.lookupName] = true
			}
		}
	}
	for i, l := range p.Lookups[:min(len(p.Lookups), MaxLookups)] {
		if name, err := verb.Parse(l.Verb); err == nil {
			verbs["/lookups/"+strconv.Itoa(i)+"/verb"] = name
		}
		if !used[l.Name] {
			unused = append(unused, l.Name)
		}
	}
	return verbs, unused
}

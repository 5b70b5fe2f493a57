package openapi

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"agentruntime/internal/base/argschema"
	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/base/httpfield"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/httpplan"
	"agentruntime/internal/provider/resultnote"
	"agentruntime/internal/provider/swagger"
)

// Limits on what one verb keeps.
const (
	maxDescription   = 1024
	maxArgName       = 255
	maxDeclared      = 8
	maxDeclaredInput = 64
	maxHeaders       = 32  // of answers
	maxHeaderName    = 128 // bytes
	maxUnknown       = 20  // unknown members of x-agent-runtime; a report has room for fewer
)

// operation is one method of one path on its way to a verb.
type operation struct {
	im     *importer
	method string // upper case
	path   string // as the document writes it
	item   map[string]any
	node   map[string]any

	plan     httpplan.Plan
	props    map[string]any // converted schemas of the arguments
	required []string
	extra    map[string]any // further keywords of the arguments' schema
	scratch  *scratch
	fixed    []string       // names in the query of the path template
	readBack *verb.ReadBack // declared and not yet checked against the other verbs
	server   *verb.Server   // where the call goes, as the report lists it
	// readBackBy is what declares readBack, for the report.
	readBackBy string
	idemKey    string // a declared Idempotency-Key header, as the document spells it
	hidden     bool   // a rule says that it has no verb
	typed      bool   // the document or a rule says the operation type
}

// label names the operation in a report.
func label(method, path string) string { return method + " " + path }

// verb converts the operation. An error says why it cannot be called.
func (o *operation) verb() (verb.Definition, error) {
	o.props, o.extra, o.scratch = map[string]any{}, map[string]any{}, newScratch()
	o.plan = httpplan.Plan{Method: o.method}
	id := text(o.node, "operationId")
	if !o.im.doc.spend(len(id) / bytesPerUnit) {
		return verb.Definition{}, o.im.doc.err
	}
	name, other := o.im.names.propose(id, o.method, o.path)
	if other != "" {
		o.scratch.lose("another operation has the name " + other + "; this one is " + name)
	}
	v := verb.Definition{Name: name, Description: o.description(), Domain: o.domain(), RiskBy: verb.ByMethod}
	v.Risk, v.Operation = verb.OfMethod(o.method)
	if err := o.readNotes(); err != nil {
		return verb.Definition{}, err
	}
	if err := o.setPath(); err != nil {
		return verb.Definition{}, err
	}
	if err := o.setServer(); err != nil {
		return verb.Definition{}, err
	}
	declared := o.correct(&v, o.extension(&v))
	o.judgeName(&v)
	if err := o.setSecurity(); err != nil {
		return verb.Definition{}, err
	}
	params, err := o.parameters(declared)
	if err != nil {
		return verb.Definition{}, err
	}
	if err := o.addParameters(params); err != nil {
		return verb.Definition{}, err
	}
	if err := o.addBody(); err != nil {
		return verb.Definition{}, err
	}
	o.setAnswers()
	v.Idempotency = o.idempotency(v.Operation, declared)
	return v, nil
}

// readNotes keeps what the conversion of a Swagger document says of the operation.
func (o *operation) readNotes() error {
	notes, _ := o.node[swagger.NotesKey].(swagger.Notes)
	if notes.Rejected != "" {
		return reason(notes.Rejected)
	}
	for _, lost := range notes.Lost {
		o.scratch.lose(lost)
	}
	return nil
}

// idempotency returns what the extension says. Otherwise a write has none, unless the
// document declares an Idempotency-Key header. PUT and DELETE do not count as idempotent:
// HTTP requires it of them, and providers do otherwise.
func (o *operation) idempotency(op verb.Operation, declared verb.Idempotency) verb.Idempotency {
	switch {
	case declared != "":
		return declared
	case op == verb.Read:
		return verb.IdempotencyIntrinsic
	case o.idemKey != "":
		return verb.Idempotency("header:" + o.idemKey)
	default:
		return verb.IdempotencyNone
	}
}

var htmlTag = regexp.MustCompile(`(?i)</?(?:p|a|b|i|br|ul|ol|li|em|strong|code|pre|div|span|h[1-6])(?:\s[^<>]*)?/?>`)

// description joins summary and description, without their HTML.
func (o *operation) description() string {
	summary, long := text(o.node, "summary"), text(o.node, "description")
	if !o.im.doc.spend((len(summary) + len(long)) / 8) {
		return ""
	}
	summary = strings.TrimSpace(htmlTag.ReplaceAllString(summary, ""))
	long = strings.TrimSpace(htmlTag.ReplaceAllString(long, ""))
	switch {
	case summary == "" && long == "":
		return label(o.method, o.path)
	case summary == "" || strings.HasPrefix(long, summary):
		return argschema.Shorten(long, maxDescription)
	case long == "":
		return argschema.Shorten(summary, maxDescription)
	}
	return argschema.Shorten(summary+"\n\n"+long, maxDescription)
}

// domain returns the first tag, else the provider's domain. The extension may replace it.
func (o *operation) domain() string {
	tags, _ := o.node["tags"].([]any)
	for _, tag := range tags {
		name, _ := tag.(string)
		if !o.im.doc.spend(1 + len(name)/bytesPerUnit) {
			break
		}
		if d := domainName(name); d != "" {
			return d
		}
	}
	return o.im.out.Domain
}

// domainName writes s as a domain, "" where nothing of it can be used.
func domainName(s string) string {
	return strings.TrimRight(argschema.Shorten(snake(s), maxDomain), "_")
}

// extension applies x-agent-runtime. A value that is not understood is reported
// and has no effect. It returns the idempotency that is declared, "" if none.
func (o *operation) extension(v *verb.Definition) verb.Idempotency {
	raw, has := o.node["x-agent-runtime"]
	if !has {
		return ""
	}
	ext, ok := raw.(map[string]any)
	if !ok {
		o.scratch.lose("x-agent-runtime is not an object and is ignored")
		return ""
	}
	if !o.im.doc.spend(len(ext)) {
		return ""
	}
	var idempotency verb.Idempotency
	var unknown []string
	for _, key := range sortedKeys(ext) { // in order: those that are reported are the same each time
		value := ext[key]
		word, _ := value.(string)
		if !o.im.doc.spend(len(word) / bytesPerUnit) {
			break
		}
		known := true
		switch key {
		case "risk_level":
			if known = setRisk(v, word); known {
				v.RiskBy = verb.ByDocument
			}
		case "operation_type":
			known = setOperation(v, word)
			o.typed = o.typed || known
		case "domain":
			if known = domainName(word) != ""; known {
				v.Domain = domainName(word)
			}
		case "idempotency":
			idempotency, known = verb.ParseIdempotency(word)
			if known && httpfield.ForbiddenArg(idempotency.Header()) {
				idempotency, known = "", false
			}
		case "timeout":
			o.plan.TimeoutMS, known = timeout(value)
		case "normalized":
			o.plan.Normalized = o.programOf(key, word)
		case "error_when":
			o.plan.ErrorWhen = o.programOf(key, word)
		case "read_back":
			o.readBackOf(value)
		default:
			unknown = append(unknown, key)
		}
		if !known {
			o.scratch.lose("x-agent-runtime." + key + " is not usable and is ignored")
		}
	}
	o.loseUnknown(unknown)
	return idempotency
}

// programOf returns a jq program of x-agent-runtime; "" where it cannot be used.
func (o *operation) programOf(key, word string) string {
	if why := o.im.unfit(word); why != "" {
		o.scratch.lose("x-agent-runtime." + key + " is ignored: " + why)
		return ""
	}
	return word
}

// loseUnknown reports the first unknown members of x-agent-runtime.
func (o *operation) loseUnknown(names []string) {
	for _, name := range names[:min(len(names), maxUnknown)] {
		o.scratch.lose("x-agent-runtime." + argschema.Shorten(name, maxArgName) + " is not known and is ignored")
	}
}

// readBackOf keeps the read_back of x-agent-runtime.
func (o *operation) readBackOf(value any) {
	var why error
	o.readBackBy = "x-agent-runtime.read_back"
	if o.readBack, why = o.im.readBack(value); why != nil {
		o.scratch.lose("x-agent-runtime.read_back is ignored: " + why.Error())
	}
}

// setRisk sets the risk that word names; false where it names none.
func setRisk(v *verb.Definition, word string) bool {
	risk := verb.Risk(strings.ToLower(word))
	if !slices.Contains([]verb.Risk{verb.RiskLow, verb.RiskMedium, verb.RiskHigh}, risk) {
		return false
	}
	v.Risk = risk
	return true
}

// setOperation sets the operation type that word names; false where it names none.
func setOperation(v *verb.Definition, word string) bool {
	op := verb.Operation(strings.ToLower(word))
	if op != verb.Read && op != verb.Write {
		return false
	}
	v.Operation = op
	return true
}

// setAnswers collects the media types and the headers of the successful answers.
func (o *operation) setAnswers() {
	responses := field(o.node, "responses")
	var declared []string
	o.im.doc.spend(len(responses))
	for _, status := range sortedKeys(responses) {
		if !strings.HasPrefix(status, "2") && status != "default" {
			continue
		}
		response, err := o.im.doc.object(responses[status])
		if err != nil {
			continue
		}
		content, headers := field(response, "content"), field(response, "headers")
		if !o.im.doc.spend(2*len(content) + len(headers)) {
			return
		}
		for _, name := range sortedKeys(headers) {
			if len(name) <= maxHeaderName && len(o.plan.Headers) < maxHeaders && resultnote.Keepable(name) && !slices.Contains(o.plan.Headers, name) {
				o.plan.Headers = append(o.plan.Headers, name)
			}
		}
		for _, name := range sortedKeys(content) {
			media := httpfield.MediaType(name)
			if media != "" && !slices.Contains(declared, media) && len(declared) < maxDeclaredInput {
				declared = append(declared, media)
			}
		}
	}
	o.loseNoJSON(declared)
	o.plan.Accept = accept(declared)
}

// loseNoJSON reports an operation none of whose successful answers is JSON.
func (o *operation) loseNoJSON(declared []string) {
	if slices.ContainsFunc(declared, func(media string) bool { return strings.Contains(media, wildcard) || httpfield.IsJSON(media) }) {
		return
	}
	for _, media := range declared {
		if httpfield.IsText(media) {
			o.scratch.lose("its answers in text are results {text, media_type}")
		} else {
			o.scratch.lose("its answers are files: a result names the file, whose bytes are read apart")
		}
	}
}

// accept asks for JSON first, then for what else is declared. JSON of a vendor is asked for by its name
// where there is no plain JSON, because to a server these are different types.
func accept(declared []string) string {
	const plain = "application/json"
	var first, named, other []string
	for _, media := range declared {
		switch {
		case media == plain || strings.Contains(media, "*"):
			first = []string{plain}
		case httpfield.IsJSON(media):
			named = append(named, media)
		default:
			other = append(other, media)
		}
	}
	switch {
	case len(declared) == 0:
		return plain
	case len(first) == 0 && len(named) > 0:
		first, other = named[:min(len(named), maxDeclared)], append([]string{plain}, other...)
	case len(first) == 0:
		return strings.Join(other[:min(len(other), maxDeclared)], ", ")
	}
	for _, media := range other[:min(len(other), maxDeclared)] {
		first = append(first, media+";q=0.5")
	}
	return strings.Join(first, ", ")
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// argumentSchema is the JSON Schema of a verb's arguments.
type argumentSchema struct {
	own  json.RawMessage // without its definitions
	refs []string        // in own
	defs *closure        // nil where it has none
	// inPlace are those of refs that apply to all arguments.
	inPlace []string
	nodes   int // schemas in own
}

// whole returns it as it is stored.
func (a *argumentSchema) whole() json.RawMessage {
	if a.defs == nil {
		return a.own
	}
	return a.defs.put(a.own)
}

// schemas returns how many schemas are in it.
func (a *argumentSchema) schemas() int {
	if a.defs == nil {
		return a.nodes
	}
	return a.nodes + a.defs.schemas
}

// schema returns the JSON Schema of the verb's arguments within budget bytes.
func (o *operation) schema(budget int) (*argumentSchema, error) {
	slices.Sort(o.required)
	o.required = slices.Compact(o.required)
	if o.required == nil {
		o.required = []string{}
	}
	schema := map[string]any{"additionalProperties": false}
	maps.Copy(schema, o.extra)
	schema["type"], schema["properties"], schema["required"] = "object", o.props, o.required
	own, err := exactjson.Encode(schema)
	if err != nil {
		return nil, err
	}
	o.im.doc.spend(len(own) / 8)
	if len(own) > budget {
		return nil, reason("its arguments' schema is too large")
	}
	if err := o.im.conv.convertQueued(); err != nil {
		return nil, err
	}
	out := &argumentSchema{own: own, refs: sorted(o.scratch.refs), inPlace: sorted(o.scratch.inPlace)}
	if len(out.refs) == 0 {
		return out, nil
	}
	out.defs = o.im.conv.closure(out.refs, budget-len(own))
	for _, why := range out.defs.lost {
		o.scratch.lose(why)
	}
	return out, nil
}

package httpcall

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/httpfield"
	"agentruntime/internal/provider/httpplan"
)

// Request is what will be sent, apart from the credential.
type Request struct {
	Method string
	URL    string
	Header http.Header
	Body   []byte // nil where nothing is sent
	// written lists the names that arguments write.
	written []written
}

// invalid is an INVALID_ARGS for one argument.
func invalid(arg, rule, message string) error {
	f := fault.New(fault.CodeInvalidArgs, "")
	f.Details = []fault.Detail{{Path: "/args/" + fault.PointerToken(arg), Rule: rule, Message: message}}
	return f
}

// BuildRequest makes the request of a call. args is a JSON object that fits the
// verb's schema; numbers in it reach the provider digit by digit. Arguments that
// cannot be put into a request (a path segment "..", a line break in a header)
// are INVALID_ARGS.
func BuildRequest(plan httpplan.Plan, baseURL string, args json.RawMessage) (*Request, error) {
	values, err := readArgs(args)
	if err != nil {
		return nil, err
	}
	if plan.BaseURL != "" {
		baseURL = plan.BaseURL
	}
	b := builder{plan: plan, values: values, header: http.Header{}, names: map[string]*names{}, room: &room{maxRoom}}
	b.query, b.cookie = pairs{sep: "&", room: b.room}, pairs{sep: "; ", room: b.room}
	path, err := b.path()
	if err != nil {
		return nil, err
	}
	if err := b.params(); err != nil {
		return nil, err
	}
	r := &Request{Method: plan.Method, URL: strings.TrimRight(baseURL, "/") + path, Header: b.header}
	if query := b.query.b.String(); query != "" {
		r.URL += "?" + query
	}
	if cookie := b.cookie.b.String(); cookie != "" {
		b.header.Set("Cookie", cookie)
	}
	if plan.Accept != "" {
		b.header.Set("Accept", plan.Accept)
	}
	if r.Body, err = b.body(); err == nil {
		err = b.room.check()
	}
	r.written = b.written
	if err == nil {
		err = r.leavesSecrets(plan.Security)
	}
	return r, err
}

// readArgs splits args into its members, each still as the caller wrote it.
func readArgs(args json.RawMessage) (map[string]json.RawMessage, error) {
	values := map[string]json.RawMessage{}
	if len(bytes.TrimSpace(args)) == 0 {
		return values, nil
	}
	if err := json.Unmarshal(args, &values); err != nil || values == nil {
		f := fault.New(fault.CodeInvalidArgs, "")
		f.Details = []fault.Detail{{Path: "/args", Rule: "type", Message: "must be an object"}}
		return nil, f
	}
	return values, nil
}

// builder carries one BuildRequest.
type builder struct {
	plan   httpplan.Plan
	values map[string]json.RawMessage
	header http.Header
	query  pairs
	cookie pairs

	names   map[string]*names // by place
	written []written
	room    *room
}

// value decodes one argument; ok is false where it is absent.
func (b *builder) value(arg string) (v any, ok bool, err error) {
	raw, has := b.values[arg]
	if !has {
		return nil, false, nil
	}
	v, err = exactjson.Decode(raw)
	if err != nil {
		return nil, false, invalid(arg, "type", "must be JSON")
	}
	return v, true, nil
}

// path fills the template. A value never adds a segment, empties one or leads out of one.
func (b *builder) path() (string, error) {
	var out strings.Builder
	rest := b.plan.Path
	for {
		before, after, found := strings.Cut(rest, "{")
		out.WriteString(before)
		if !found {
			break
		}
		name, tail, _ := strings.Cut(after, "}")
		segment, err := b.pathValue(name)
		if err != nil {
			return "", err
		}
		out.WriteString(segment)
		rest = tail
	}
	path := out.String()
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			return "", b.pathRefusal()
		}
	}
	if b.plan.Query != "" {
		b.query.b.WriteString(b.plan.Query)
	}
	return path, nil
}

func (b *builder) pathValue(name string) (string, error) {
	at := slices.IndexFunc(b.plan.Params, func(p httpplan.Param) bool { return p.In == httpplan.InPath && p.Wire() == name })
	if at < 0 {
		return "", invalid(name, "required", "is required")
	}
	p := b.plan.Params[at]
	v, ok, err := b.value(p.Arg)
	if err != nil {
		return "", err
	}
	if !ok || v == nil {
		return "", invalid(p.Arg, "required", "is required")
	}
	if climbs(v) {
		return "", invalid(p.Arg, "pattern", "must not have a path segment of dots")
	}
	if err := b.writes(httpplan.InPath, p.Wire(), fault.PointerToken(p.Arg), p.Style, p.Explode, true, v); err != nil {
		return "", err
	}
	if list, many := v.([]any); many && p.Style == httpplan.StyleMatrix && p.Explode {
		b.room.take(len(p.Wire()) * len(list))
		if err := b.room.check(); err != nil {
			return "", err
		}
	}
	if err := separable(fault.PointerToken(p.Arg), p, v); err != nil {
		return "", err
	}
	if p.Reserved && emptySegment(v) {
		return "", invalid(p.Arg, "pattern", "must not have an empty path segment")
	}
	if scalar(v) == "" || isEmpty(v) {
		return "", invalid(p.Arg, "minLength", "must not be empty")
	}
	if p.Style != httpplan.StyleJSON {
		if err := noGaps(p.Arg, v); err != nil {
			return "", err
		}
	}
	return pathText(p, v), nil
}

// noGaps refuses what a list or an object in a path would show as nothing: null, and an empty item.
func noGaps(arg string, v any) error {
	refuse := func(at, rule, message string) error {
		f := fault.New(fault.CodeInvalidArgs, "")
		f.Details = []fault.Detail{{Path: "/args/" + fault.PointerToken(arg) + "/" + at, Rule: rule, Message: message}}
		return f
	}
	const noNull = "must not be null: a path cannot have it"
	switch v := v.(type) {
	case []any:
		for i, e := range v {
			if e == nil {
				return refuse(strconv.Itoa(i), "null", noNull)
			}
			if e == "" {
				return refuse(strconv.Itoa(i), "minLength", "must not be empty")
			}
		}
	case map[string]any:
		for _, name := range keys(v) {
			if v[name] == nil {
				return refuse(fault.PointerToken(name), "null", noNull)
			}
		}
	}
	return nil
}

// emptySegment reports whether a text whose slashes stay slashes has nothing before, between or
// behind them.
func emptySegment(v any) bool {
	return anyText(v, func(text string) bool {
		return text != "" && slices.Contains(strings.Split(text, "/"), "")
	})
}

// anyText reports whether a text of a value is as said: the value, the names of its members or what is
// in it.
func anyText(v any, is func(string) bool) bool {
	switch v := v.(type) {
	case string:
		return is(v)
	case []any:
		return slices.ContainsFunc(v, func(e any) bool { return anyText(e, is) })
	case map[string]any:
		for name, e := range v {
			if is(name) || anyText(e, is) {
				return true
			}
		}
	}
	return false
}

// pathRefusal is the error for several values that together make a dot segment.
func (b *builder) pathRefusal() error {
	for _, p := range b.plan.Params {
		if p.In == httpplan.InPath {
			return invalid(p.Arg, "pattern", "must not make a path segment of dots")
		}
	}
	return fault.New(fault.CodeInvalidArgs, "")
}

// climbs reports whether a text has a segment of dots between slashes. Slashes are sent
// encoded, but some servers decode before they route, or decode twice. A semicolon ends a
// segment's name for some of them.
func climbs(v any) bool {
	return anyText(v, func(text string) bool {
		for segment := range strings.FieldsFuncSeq(httpfield.Decoded(text), func(r rune) bool { return r == '/' || r == '\\' }) {
			if name, _, _ := strings.Cut(segment, ";"); name == ".." || name == "." {
				return true
			}
		}
		return false
	})
}

// params writes the query, header and cookie parameters. null is not sent.
func (b *builder) params() error {
	for _, p := range b.plan.Params {
		if p.In == httpplan.InPath {
			continue
		}
		v, ok, err := b.value(p.Arg)
		if err != nil {
			return err
		}
		if !ok || v == nil {
			continue
		}
		if err := b.param(p, v); err != nil {
			return err
		}
		if p.In == httpplan.InHeader && !httpfield.ValidValue(headerText(p, v)) {
			return invalid(p.Arg, "pattern", "must not have control characters")
		}
		if v, err = withoutNulls(fault.PointerToken(p.Arg), p.Style, v); err != nil {
			return err
		}
		switch p.In {
		case httpplan.InQuery:
			b.query.write(p.Wire(), p.Style, p.Explode, p.Reserved, v)
		case httpplan.InCookie:
			b.cookie.write(p.Wire(), p.Style, p.Explode, false, v)
		case httpplan.InHeader:
			b.header.Set(p.Wire(), headerText(p, v))
		}
	}
	return nil
}

// body writes the arguments that are no parameters.
func (b *builder) body() ([]byte, error) {
	body := b.plan.Body
	if body == nil {
		return nil, nil
	}
	if err := b.method(); err != nil {
		return nil, err
	}
	fields := b.bodyFields()
	if body.Arg != "" {
		raw, has := b.values[body.Arg]
		switch {
		case !has && body.Required && body.Kind == httpplan.BodyJSON:
			raw = json.RawMessage("{}") // the schema requires the argument unless this is a value of it
		case !has:
			return nil, nil
		}
		return b.whole(raw)
	}
	if len(fields) == 0 && !body.Required {
		return nil, nil
	}
	b.header.Set("Content-Type", body.Type)
	switch body.Kind {
	case httpplan.BodyForm:
		return b.form(fields)
	case httpplan.BodyMultipart:
		return b.multipart(fields)
	}
	return joinObject(fields, b.values), nil
}

// bodyFields names the arguments that belong to the body, in order.
func (b *builder) bodyFields() []string {
	names := make([]string, 0, len(b.values))
	for name := range b.values {
		if !slices.ContainsFunc(b.plan.Params, func(p httpplan.Param) bool { return p.Arg == name }) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// joinObject writes an object from raw members, whose bytes stay as they are.
func joinObject(names []string, values map[string]json.RawMessage) []byte {
	var out bytes.Buffer
	out.WriteByte('{')
	for i, name := range names {
		if i > 0 {
			out.WriteByte(',')
		}
		out.WriteString(exactjson.Text(name))
		out.WriteByte(':')
		out.Write(values[name])
	}
	out.WriteByte('}')
	return out.Bytes()
}

// whole writes a body that is one argument.
func (b *builder) whole(raw json.RawMessage) ([]byte, error) {
	body := b.plan.Body
	b.header.Set("Content-Type", body.Type)
	if body.Kind == httpplan.BodyJSON {
		return bytes.Clone(raw), nil
	}
	v, err := exactjson.Decode(raw)
	if err != nil {
		return nil, invalid(body.Arg, "type", "must be JSON")
	}
	switch body.Kind {
	case httpplan.BodyText:
		return []byte(scalar(v)), nil
	case httpplan.BodyBinary:
		return binary(body.Arg, v)
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, invalid(body.Arg, "type", "must be an object")
	}
	q := pairs{sep: "&", room: b.room}
	for _, name := range keys(object) {
		if err := b.formField(&q, name, object[name]); err != nil {
			return nil, err
		}
	}
	return []byte(q.b.String()), nil
}

func (b *builder) form(names []string) ([]byte, error) {
	q := pairs{sep: "&", room: b.room}
	for _, name := range names {
		v, _, err := b.value(name)
		if err != nil {
			return nil, err
		}
		if err := b.formField(&q, name, v); err != nil {
			return nil, err
		}
	}
	return []byte(q.b.String()), nil
}

// formField writes one field. Without an encoding OpenAPI sends lists repeated and objects as
// JSON. null, which only a schema that allows it lets pass, is left out: a form cannot say it,
// and an empty text is another value.
func (b *builder) formField(q *pairs, name string, v any) error {
	if v == nil {
		return nil
	}
	enc, declared := b.plan.Body.Fields[name]
	if !declared || enc.Style == "" {
		enc.Style, enc.Explode = httpplan.StyleForm, true
		if _, isObject := v.(map[string]any); isObject {
			enc.Style = httpplan.StyleJSON
		}
	}
	if err := b.field(name, enc, v); err != nil {
		return err
	}
	v, err := withoutNulls(b.fieldPointer(name), enc.Style, v)
	if err != nil {
		return err
	}
	q.write(name, enc.Style, enc.Explode, enc.Reserved, v)
	return nil
}

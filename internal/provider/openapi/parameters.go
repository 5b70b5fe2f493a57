package openapi

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"agentruntime/internal/base/argschema"
	"agentruntime/internal/base/httpfield"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/httpplan"
)

// parameter is a declared parameter, read and resolved.
type parameter struct {
	name     string
	in       string
	node     map[string]any
	required bool
}

// parameters reads the parameters of the path and of the operation, which
// override them by name and place, and leaves out those that are not arguments.
func (o *operation) parameters(declared verb.Idempotency) ([]parameter, error) {
	var out []parameter
	place := map[string]int{}
	for _, owner := range []map[string]any{o.item, o.node} {
		list, _ := owner["parameters"].([]any)
		for _, entry := range list {
			if !o.im.doc.spend(3) {
				return nil, o.im.doc.err
			}
			p, err := o.readParameter(entry)
			if err != nil {
				return nil, err
			}
			key := p.in + " " + p.name
			if at, again := place[key]; again {
				out[at] = p
				continue
			}
			place[key] = len(out)
			out = append(out, p)
		}
	}
	return slices.DeleteFunc(out, func(p parameter) bool { return o.notAnArgument(p, declared) }), nil
}

func (o *operation) readParameter(entry any) (parameter, error) {
	node, err := o.im.doc.object(entry)
	if err != nil {
		return parameter{}, reason("a parameter cannot be read: " + err.Error())
	}
	p := parameter{name: text(node, "name"), in: text(node, "in"), node: node}
	if !o.im.doc.spend((len(p.name) + len(p.in)) / bytesPerUnit) {
		return parameter{}, o.im.doc.err
	}
	p.required, _ = flag(node, "required")
	p.required = p.required || p.in == httpplan.InPath
	return p, nil
}

// notAnArgument reports whether a parameter is not for the caller to set: a header of HTTP's
// or OpenAPI's own, the provider's credential, or the idempotency key, which a run sets.
func (o *operation) notAnArgument(p parameter, declared verb.Idempotency) bool {
	if o.isSecrets(p.in, func(name string) bool { return sameName(p, name) }) {
		return true
	}
	if p.in != httpplan.InHeader {
		return false
	}
	if declared.Header() != "" && httpfield.Fold(p.name) == httpfield.Fold(declared.Header()) {
		return true
	}
	switch http.CanonicalHeaderKey(p.name) {
	case "Accept", "Content-Type", "Authorization":
		return true
	case "Idempotency-Key":
		if declared != "" {
			return false
		}
		o.idemKey = p.name
		return true
	}
	return false
}

// sameName compares a parameter's name with another, as its place does.
func sameName(p parameter, name string) bool {
	if p.in == httpplan.InHeader {
		return strings.EqualFold(p.name, name)
	}
	return p.name == name
}

// addParameters makes an argument of each parameter.
func (o *operation) addParameters(params []parameter) error {
	inTemplate := templateNames(o.path)
	o.fixed = fixedNames(o.plan.Query)
	for _, p := range params {
		if !o.im.doc.spend(3 + 2*len(o.fixed)) {
			return o.im.doc.err
		}
		if p.in == httpplan.InPath && !slices.Contains(inTemplate, p.name) {
			o.scratch.lose("a path parameter that is not in the path is dropped")
			continue
		}
		why := o.unusable(p)
		if why == "" {
			why = o.addParameter(p)
		}
		if why == "" {
			continue
		}
		if p.required && !o.setElsewhere(p) {
			return reason("the required parameter " + argschema.Shorten(p.name, maxSchemeName) + " cannot be sent: " + why)
		}
		o.scratch.lose("a parameter is dropped: " + why)
	}
	for _, name := range inTemplate {
		if o.hasPathParam(name) {
			continue
		}
		o.scratch.lose("a path parameter is not declared and taken as text")
		p := parameter{name: name, in: httpplan.InPath, required: true, node: map[string]any{"schema": map[string]any{"type": "string"}}}
		if why := o.addParameter(p); why != "" {
			return reason("the path parameter " + argschema.Shorten(name, maxSchemeName) + " cannot be sent: " + why)
		}
	}
	return nil
}

func (o *operation) hasPathParam(name string) bool {
	return slices.ContainsFunc(o.plan.Params, func(p httpplan.Param) bool { return p.In == httpplan.InPath && p.Wire() == name })
}

// setElsewhere reports whether something other than the caller sets what a parameter is for.
// Then a call does without the parameter, even where it is required.
func (o *operation) setElsewhere(p parameter) bool {
	return httpfield.ForbiddenArg(p.name) || o.isCredentials(p.in, p.name) || p.in == httpplan.InQuery && o.inTemplate(p.name)
}

// isCredentials reports whether a server may take a name for the one that the credential is
// sent under.
func (o *operation) isCredentials(in, name string) bool {
	return o.isSecrets(in, func(secret string) bool {
		if in == httpplan.InHeader {
			return httpfield.Fold(name) == httpfield.Fold(secret)
		}
		return httpfield.Overlap(name, secret)
	})
}

// inTemplate reports whether the query of the path template has the name.
func (o *operation) inTemplate(name string) bool {
	return slices.ContainsFunc(o.fixed, func(fixed string) bool { return httpfield.Overlap(name, fixed) })
}

// fixedNames returns the names in the query of a path template.
func fixedNames(query string) []string {
	values, _ := url.ParseQuery(query) // of a malformed one, what can be read
	return slices.Collect(maps.Keys(values))
}

// unusable returns why a parameter cannot be sent, "" if it can.
func (o *operation) unusable(p parameter) string {
	switch {
	case !usableName(p.name):
		return "its name is not usable"
	case p.in == httpplan.InHeader && httpfield.ForbiddenArg(p.name):
		return "the header is not the caller's to set"
	case o.isCredentials(p.in, p.name):
		return "its name could be taken for the credential's"
	case p.in == httpplan.InQuery && o.inTemplate(p.name):
		return "its path gives it a value"
	case p.in == httpplan.InHeader && !httpfield.IsToken(p.name), p.in == httpplan.InCookie && !httpfield.IsToken(p.name):
		return "its name is not usable"
	case p.in != httpplan.InPath && p.in != httpplan.InQuery && p.in != httpplan.InHeader && p.in != httpplan.InCookie:
		return "its place is not known"
	}
	return ""
}

// addParameter makes p an argument. It returns why it cannot, "" if it did.
func (o *operation) addParameter(p parameter) string {
	param := httpplan.Param{In: p.in, Arg: o.argName(p)}
	if param.Arg != p.name {
		param.Name = p.name
	}
	schema, why := o.style(p, &param)
	if why != "" {
		return why
	}
	l := sendable(param)
	if p.required && param.In == httpplan.InQuery {
		l.some = l.some || param.Style != httpplan.StyleJSON // a query shows nothing of an empty list
	}
	converted := o.im.conv.limit(o.im.conv.value(schema, o.scratch), schema, l)
	if object, ok := converted.(map[string]any); ok && object["description"] == nil {
		if d := text(p.node, "description"); d != "" && o.im.doc.spend(len(d)/8) {
			object["description"] = argschema.Shorten(htmlTag.ReplaceAllString(d, ""), maxText)
		}
	}
	o.props[param.Arg] = converted
	if p.required {
		o.required = append(o.required, param.Arg)
	}
	o.plan.Params = append(o.plan.Params, param)
	return ""
}

// argName returns the parameter's name. Where another place uses it too, the place is put in
// front.
func (o *operation) argName(p parameter) string {
	name := p.name
	for o.props[name] != nil {
		name = p.in + "_" + name
	}
	return name
}

// style reads how the parameter is written and returns its schema.
func (o *operation) style(p parameter, param *httpplan.Param) (any, string) {
	if content := field(p.node, "content"); len(content) > 0 && o.im.doc.spend(2*len(content)) {
		return contentStyle(content, param)
	}
	param.Style = text(p.node, "style")
	if param.Style == "" {
		param.Style = defaultStyle(p.in)
	}
	if !slices.Contains(stylesOf(p.in), param.Style) {
		o.scratch.lose("a parameter has a style that is not known; the default is used")
		param.Style = defaultStyle(p.in)
	}
	explode, given := flag(p.node, "explode")
	param.Explode = explode || (!given && param.Style == httpplan.StyleForm)
	reserved, _ := flag(p.node, "allowReserved")
	param.Reserved = reserved && (p.in == httpplan.InQuery || p.in == httpplan.InPath)
	schema, has := p.node["schema"]
	if !has {
		schema = map[string]any{}
	}
	return schema, ""
}

// contentStyle reads a parameter that has a media type instead of a style.
func contentStyle(content map[string]any, param *httpplan.Param) (any, string) {
	for _, name := range sortedKeys(content) {
		media := httpfield.MediaType(name)
		switch {
		case httpfield.IsJSON(media):
			param.Style = httpplan.StyleJSON
		case strings.HasPrefix(media, "text/"):
			param.Style = defaultStyle(param.In)
		default:
			continue
		}
		entry, _ := content[name].(map[string]any)
		if schema, has := entry["schema"]; has {
			return schema, ""
		}
		return map[string]any{}, ""
	}
	return nil, "its media type is not supported"
}

func defaultStyle(in string) string {
	if in == httpplan.InQuery || in == httpplan.InCookie {
		return httpplan.StyleForm
	}
	return httpplan.StyleSimple
}

func stylesOf(in string) []string {
	switch in {
	case httpplan.InPath:
		return []string{httpplan.StyleSimple, httpplan.StyleLabel, httpplan.StyleMatrix}
	case httpplan.InQuery:
		return []string{httpplan.StyleForm, httpplan.StyleSpace, httpplan.StylePipe, httpplan.StyleTab, httpplan.StyleDeep}
	case httpplan.InHeader:
		return []string{httpplan.StyleSimple}
	default:
		return []string{httpplan.StyleForm}
	}
}

// usableName reports whether s can be the name of an argument.
func usableName(s string) bool {
	return s != "" && len(s) <= maxArgName && !strings.ContainsFunc(s, unicode.IsControl)
}

// maxPathNames is how many parameters a path may have.
const maxPathNames = 100

var templateName = regexp.MustCompile(`\{([^{}]*)\}`)

// templateNames returns the names in a path template.
func templateNames(path string) []string {
	var out []string
	for _, m := range templateName.FindAllStringSubmatch(path, -1) {
		if !slices.Contains(out, m[1]) && len(out) <= maxPathNames {
			out = append(out, m[1])
		}
	}
	return out
}

// setPath checks the path template and keeps it in the form that is sent.
func (o *operation) setPath() error {
	template, _, _ := strings.Cut(o.path, "#")
	if !strings.HasPrefix(template, "/") {
		return reason("its path does not begin with a slash")
	}
	names := templateNames(template)
	if len(names) > maxPathNames {
		return reason("its path has too many parameters")
	}
	for _, name := range names {
		if !usableName(name) || strings.ContainsAny(name, "/?#") {
			return reason("its path template is not understood")
		}
	}
	if strings.ContainsAny(templateName.ReplaceAllString(template, ""), "{}") {
		return reason("its path template is not understood")
	}
	path, query, _ := strings.Cut(template, "?")
	if strings.Contains(query, "{") {
		return reason("its path has a template behind a question mark")
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			return reason("its path has a dot segment")
		}
	}
	o.plan.Path, o.plan.Query = escapeTemplate(path), escapeTemplate(query)
	return nil
}

// escapeTemplate percent-encodes what may not stand in a URL, leaving {names}
// and what is encoded already.
func escapeTemplate(s string) string {
	var b strings.Builder
	inName := false
	for i := range len(s) {
		switch ch := s[i]; {
		case ch == '{' || ch == '}':
			inName = ch == '{'
			b.WriteByte(ch)
		case inName || httpfield.IsAlnum(ch) || strings.IndexByte("-._~!$&'()*+,;=:@/%?", ch) >= 0:
			b.WriteByte(ch)
		default:
			fmt.Fprintf(&b, "%%%02X", ch)
		}
	}
	return b.String()
}

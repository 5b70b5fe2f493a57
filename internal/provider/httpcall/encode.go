package httpcall

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/httpfield"
	"agentruntime/internal/provider/httpplan"
)

const hexDigits = "0123456789ABCDEF"

func escapeByte(b *strings.Builder, ch byte) {
	b.WriteByte('%')
	b.WriteByte(hexDigits[ch>>4])
	b.WriteByte(hexDigits[ch&15])
}

// escape percent-encodes all but unreserved characters (RFC 3986 section 2.3).
// With reserved, reserved characters stay too, apart from those that would end the value
// (& # +, and ; for some servers) and the brackets, which a URL's query may not contain.
func escape(s string, reserved bool) string {
	clean := true
	for i := range len(s) {
		if !plain(s[i], reserved) {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 16)
	for i := range len(s) {
		if plain(s[i], reserved) {
			b.WriteByte(s[i])
		} else {
			escapeByte(&b, s[i])
		}
	}
	return b.String()
}

func plain(ch byte, reserved bool) bool {
	return httpfield.IsAlnum(ch) || ch == '-' || ch == '.' || ch == '_' || ch == '~' ||
		(reserved && strings.IndexByte(":/?@!$'()*,=", ch) >= 0)
}

// scalar writes one value as text. Numbers keep their digits; a list or object
// inside a list has no place in OpenAPI's styles and is written as JSON.
func scalar(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case json.Number:
		return v.String()
	case bool:
		return strconv.FormatBool(v)
	default:
		return jsonText(v)
	}
}

// jsonText writes a value as JSON that a header can carry too: JSON does not escape the character 127.
func jsonText(v any) string {
	return strings.ReplaceAll(exactjson.Text(v), "\x7f", `\u007f`)
}

// keys returns the names of an object in order, so that a request is the same
// each time it is built.
func keys(m map[string]any) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// joined writes a list or object as one text: its items, or its names and values,
// with sep between them. explode writes name=value pairs.
func joined(v any, sep string, explode bool, esc func(string) string) string {
	var parts []string
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			parts = append(parts, esc(scalar(e)))
		}
	case map[string]any:
		for _, k := range keys(v) {
			if explode {
				parts = append(parts, esc(k)+"="+esc(scalar(v[k])))
			} else {
				parts = append(parts, esc(k), esc(scalar(v[k])))
			}
		}
	default:
		return esc(scalar(v))
	}
	return strings.Join(parts, sep)
}

// pathText writes a path parameter in the styles simple, label and matrix
// (RFC 6570 sections 3.2.2, 3.2.5 and 3.2.7).
func pathText(p httpplan.Param, v any) string {
	esc := func(s string) string { return escapePath(s, p.Reserved) }
	switch p.Style {
	case httpplan.StyleJSON:
		return esc(jsonText(v))
	case httpplan.StyleLabel:
		sep := ","
		if p.Explode {
			sep = "."
		}
		return "." + joined(v, sep, p.Explode, esc)
	case httpplan.StyleMatrix:
		return matrixText(p, v, esc)
	default:
		return joined(v, ",", p.Explode, esc)
	}
}

func matrixText(p httpplan.Param, v any, esc func(string) string) string {
	name := ";" + esc(p.Wire()) + "="
	switch list := v.(type) {
	case []any:
		if p.Explode {
			var b strings.Builder
			for _, e := range list {
				b.WriteString(name + esc(scalar(e)))
			}
			return b.String()
		}
	case map[string]any:
		if p.Explode {
			return ";" + joined(v, ";", true, esc)
		}
	}
	return name + joined(v, ",", false, esc)
}

// headerText writes a header parameter. Headers are not percent-encoded.
func headerText(p httpplan.Param, v any) string {
	if p.Style == httpplan.StyleJSON {
		return jsonText(v)
	}
	return joined(v, ",", p.Explode, func(s string) string { return s })
}

// maxRoom is how many bytes the names and values of one request may take as text, with what
// writing them takes. A name is repeated for everything below it, so arguments of 1 MiB could
// become gigabytes.
const maxRoom = 16 << 20

// room is what is left of maxRoom.
type room struct{ left int }

// take reports whether so many bytes more fit.
func (r *room) take(n int) bool {
	r.left -= min(n, maxRoom+1)
	return r.left >= 0
}

// check returns INVALID_ARGS where something did not fit.
func (r *room) check() error {
	if r.left >= 0 {
		return nil
	}
	f := fault.New(fault.CodeInvalidArgs, "")
	f.Details = []fault.Detail{{Path: "/args", Rule: "complexity", Message: "would make a request that is too large: long names are repeated for everything below them"}}
	return f
}

// pairs collects name=value pairs of a query, a form or a Cookie header.
type pairs struct {
	b    strings.Builder
	sep  string
	room *room
}

func (q *pairs) add(name, value string) {
	if !q.room.take(len(name) + len(value)) {
		return
	}
	if q.b.Len() > 0 {
		q.b.WriteString(q.sep)
	}
	q.b.WriteString(name)
	q.b.WriteByte('=')
	q.b.WriteString(value)
}

// write adds one parameter or form field in its style.
func (q *pairs) write(name, style string, explode, reserved bool, v any) {
	esc := func(s string) string { return escape(s, reserved) }
	wire := escape(name, false)
	switch v.(type) {
	case []any, map[string]any:
	default:
		if style != httpplan.StyleJSON {
			q.add(wire, esc(scalar(v)))
			return
		}
	}
	switch {
	case style == httpplan.StyleJSON:
		q.add(wire, esc(jsonText(v)))
	case style == httpplan.StyleDeep:
		q.deep(wire, v, esc)
	case explode:
		q.explode(wire, v, esc)
	case isEmpty(v):
	case style == httpplan.StyleSpace:
		q.add(wire, joined(v, "%20", false, esc))
	case style == httpplan.StylePipe:
		q.add(wire, joined(v, "%7C", false, esc))
	case style == httpplan.StyleTab:
		q.add(wire, joined(v, "%09", false, esc))
	default:
		q.add(wire, joined(v, ",", false, esc))
	}
}

// explode repeats the name for each item; an object's names stand for themselves.
func (q *pairs) explode(wire string, v any, esc func(string) string) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			q.add(wire, esc(scalar(e)))
		}
	case map[string]any:
		for _, k := range keys(v) {
			q.add(escape(k, false), esc(scalar(v[k])))
		}
	}
}

// deep writes a[b][c]=v, and lists by index (a[0][b]=v). OpenAPI does not say how lists are
// written; Stripe and similar providers read them like this.
func (q *pairs) deep(wire string, v any, esc func(string) string) {
	if !q.room.take(len(wire)) {
		return
	}
	switch v := v.(type) {
	case []any:
		for i, e := range v {
			q.deep(wire+"%5B"+strconv.Itoa(i)+"%5D", e, esc)
		}
	case map[string]any:
		for _, k := range keys(v) {
			q.deep(wire+"%5B"+escape(k, false)+"%5D", v[k], esc)
		}
	default:
		q.add(wire, esc(scalar(v)))
	}
}

// escapePath percent-encodes a value for a path. With reserved, its slashes and other reserved
// characters stay, apart from those that end a path (? #), separate the items of a list or end a
// segment's name (, ;).
func escapePath(s string, reserved bool) string {
	if !reserved {
		return escape(s, false)
	}
	return strings.ReplaceAll(strings.ReplaceAll(escape(s, true), ",", "%2C"), "?", "%3F")
}

// withoutNulls returns a value without the members that are null, which no style but JSON can
// write. A null in a list is INVALID_ARGS: without it the others would move. pointer is where in
// args the value stands.
func withoutNulls(pointer, style string, v any) (any, error) {
	if style == httpplan.StyleJSON {
		return v, nil
	}
	switch v := v.(type) {
	case []any:
		return v, nullsRefused(pointer, style, v)
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, name := range keys(v) {
			if v[name] == nil {
				continue
			}
			out[name] = v[name]
			if style == httpplan.StyleDeep {
				var err error
				if out[name], err = withoutNulls(pointer+"/"+fault.PointerToken(name), style, v[name]); err != nil {
					return nil, err
				}
			}
		}
		return out, nil
	}
	return v, nil
}

// nullsRefused is INVALID_ARGS where an item of a list is null. It also takes the nulls out of the
// items of a deepObject.
func nullsRefused(pointer, style string, list []any) (err error) {
	for i, e := range list {
		at := pointer + "/" + strconv.Itoa(i)
		if e == nil {
			f := fault.New(fault.CodeInvalidArgs, "")
			f.Details = []fault.Detail{{Path: "/args/" + at, Rule: "null", Message: "must not be null: only JSON can have it in a list"}}
			return f
		}
		if style == httpplan.StyleDeep {
			if list[i], err = withoutNulls(at, style, e); err != nil {
				return err
			}
		}
	}
	return nil
}

// isEmpty reports whether v is a list or object with nothing in it.
func isEmpty(v any) bool {
	switch v := v.(type) {
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

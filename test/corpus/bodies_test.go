//go:build corpus

package corpus

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/httpplan"
)

// kindOf says how a body of the media type is written.
func kindOf(media string) string {
	media, _, _ = mime.ParseMediaType(media)
	switch {
	case media == "application/json" || media == "text/json" || strings.HasSuffix(media, "+json") || strings.HasSuffix(media, "/*"):
		return httpplan.BodyJSON
	case media == "application/x-www-form-urlencoded":
		return httpplan.BodyForm
	case media == "multipart/form-data":
		return httpplan.BodyMultipart
	case strings.HasPrefix(media, "text/"):
		return httpplan.BodyText
	}
	return httpplan.BodyBinary
}

// argsOf returns the arguments by which the service sends the example, otherwise why it cannot.
func (d *document) argsOf(t *testing.T, v verb.Definition, e example, params node) (args node, why string) {
	t.Helper()
	p := planOf(t, v)
	args = maps.Clone(params)
	if args == nil {
		args = node{}
	}
	kind := kindOf(e.media)
	switch {
	case p.Body == nil:
		return nil, isNoBody
	case kind != p.Body.Kind:
		return nil, isOtherMedia
	case string(e.body) == "null" && !p.Body.Required:
		return args, "" // it says that there is no body
	case kind == httpplan.BodyBinary:
		args[p.Body.Arg] = inBase64(t, e.body)
		return args, ""
	}
	members := membersOf(e)
	switch {
	case p.Body.Arg != "" && members != nil && kind == httpplan.BodyForm:
		args[p.Body.Arg] = raw(t, members)
		return args, ""
	case p.Body.Arg != "":
		args[p.Body.Arg] = e.body
		return args, ""
	case members == nil:
		return nil, isNoObject
	}
	for name, value := range members {
		if slices.ContainsFunc(p.Params, func(q httpplan.Param) bool { return q.Arg == name }) {
			require.Contains(t, d.readOnly(e.schema, 0), name, "%s: a member has the name of a parameter", d.id(e))
			return nil, isReadOnly
		}
		if p.Body.Fields[name].File {
			value = inBase64(t, value)
		}
		args[name] = value
	}
	return args, ""
}

// membersOf returns the members of an object, nil where the example is none. A form may be shown as a
// text.
func membersOf(e example) (members node) {
	if kind := kindOf(e.media); kind != httpplan.BodyJSON && typeOf(e.body) == "string" {
		for pair := range strings.SplitSeq(textIn(e.body), "&") {
			name, value, is := strings.Cut(pair, "=")
			if !is {
				return nil
			}
			if members == nil {
				members = node{}
			}
			text, _ := json.Marshal(value) //nolint:errchkjson // a text always can be
			members[name] = text
		}
		return members
	}
	_ = json.Unmarshal(e.body, &members) // what is no object is nil
	return members
}

func inBase64(t *testing.T, text json.RawMessage) json.RawMessage {
	t.Helper()
	return raw(t, base64.StdEncoding.EncodeToString([]byte(textIn(text))))
}

// same says how the body that arrived is not the example, "" where it is.
func same(t *testing.T, e example, got *arrival) string {
	t.Helper()
	differs := func(is bool) string { return map[bool]string{false: "its body differs"}[is] }
	if string(e.body) == "null" {
		return differs(len(got.body) == 0)
	}
	switch kindOf(e.media) {
	case httpplan.BodyForm:
		arrived, err := url.ParseQuery(string(got.body))
		require.NoError(t, err)
		return differs(sameFields(t, e, arrived))
	case httpplan.BodyMultipart:
		return differs(sameFields(t, e, partsOf(t, got)))
	case httpplan.BodyText, httpplan.BodyBinary:
		return differs(string(got.body) == textIn(e.body))
	}
	return differs(len(exact(t, e.body)) > 0 && bytes.Equal(exact(t, got.body), exact(t, e.body)))
}

// sameFields compares the fields of a form: a list is there once for each item, and an object is JSON.
func sameFields(t *testing.T, e example, arrived url.Values) bool {
	t.Helper()
	want := url.Values{}
	for name, value := range membersOf(e) {
		items := []json.RawMessage{value}
		if typeOf(value) == "array" {
			require.NoError(t, json.Unmarshal(value, &items))
		}
		for i, item := range items {
			switch typeOf(item) {
			case "object":
				want.Add(name, string(exact(t, item)))
				if i < len(arrived[name]) {
					arrived[name][i] = string(exact(t, []byte(arrived[name][i])))
				}
			case "null":
			default:
				want.Add(name, scalarOf(item))
			}
		}
	}
	return maps.EqualFunc(want, arrived, slices.Equal[[]string])
}

// scalarOf returns a value as the text that a form or a query has of it.
func scalarOf(value json.RawMessage) string {
	if typeOf(value) == "string" {
		return textIn(value)
	}
	return string(value)
}

// partsOf reads a multipart body.
func partsOf(t *testing.T, got *arrival) url.Values {
	t.Helper()
	_, params, err := mime.ParseMediaType(got.header.Get("Content-Type"))
	require.NoError(t, err)
	reader := multipart.NewReader(bytes.NewReader(got.body), params["boundary"])
	parts := url.Values{}
	for {
		part, err := reader.NextRawPart()
		if errors.Is(err, io.EOF) {
			return parts
		}
		require.NoError(t, err)
		content, err := io.ReadAll(part)
		require.NoError(t, err)
		parts.Add(part.FormName(), string(content))
	}
}

// alone writes the example without the service, and returns its Content-Type.
func (d *document) alone(t *testing.T, e example) (body []byte, media string) {
	t.Helper()
	kind, members := kindOf(e.media), membersOf(e)
	switch {
	case kind == httpplan.BodyJSON && strings.Contains(e.media, "*"):
		return e.body, "application/json"
	case kind == httpplan.BodyText, kind == httpplan.BodyBinary:
		return []byte(scalarOf(e.body)), e.media
	case kind == httpplan.BodyForm:
		form := url.Values{}
		for name, value := range members {
			form.Set(name, scalarOf(value))
		}
		return []byte(form.Encode()), e.media
	case kind == httpplan.BodyMultipart:
		var out bytes.Buffer
		w := multipart.NewWriter(&out)
		for _, name := range slices.Sorted(maps.Keys(members)) {
			require.NoError(t, w.WriteField(name, scalarOf(members[name])))
		}
		require.NoError(t, w.Close())
		return out.Bytes(), w.FormDataContentType()
	}
	return e.body, e.media
}

// exact returns JSON in one form, with every digit of its numbers.
func exact(t *testing.T, text []byte) []byte {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil
	}
	return raw(t, v)
}

package httpcall

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"strings"
	"unicode"
	"unicode/utf8"

	"agentruntime/internal/base/httpfield"
	"agentruntime/internal/provider/httpplan"
)

// MaxFileBytes is the largest file that an answer may be, after decompression.
const MaxFileBytes = 25 << 20

// File is a file with which a call was answered.
type File struct {
	Size   int64
	SHA256 string // in hexadecimal digits
	Name   string // as the provider names it, "" where it does not; no path and no control characters
}

// isFile reports whether a body is neither JSON nor text. An empty one is no file.
func isFile(contentType string, head []byte) bool {
	return len(bytes.TrimSpace(trimMark(head))) > 0 && formOf(contentType, head) == formFile
}

// readFile gives the parts of a file to opt.Keep. The time for it is that of the attempt.
func (c *Client) readFile(ctx context.Context, head []byte, resp *http.Response, opt SendOptions, out *Outcome) {
	if out.IsFile = true; resp.ContentLength > MaxFileBytes {
		out.Truncated = true
		return
	}
	if len(head) > smallBody {
		free, err := c.files.Take(ctx, opt.Owner, "")
		if err != nil {
			out.BodyErr = publicError(err)
			return
		}
		defer free()
	}
	f, hash, part := &File{Name: fileName(out.Header.Get("Content-Disposition"))}, sha256.New(), make([]byte, opt.PartBytes)
	all := io.MultiReader(bytes.NewReader(head), resp.Body)
	for ended := false; !ended; {
		n, err := fill(all, part)
		if err != nil && !errors.Is(err, io.EOF) {
			out.BodyErr = publicError(err)
			return
		}
		ended = err != nil
		if f.Size += int64(n); f.Size > MaxFileBytes {
			out.Truncated = true
			return
		}
		if n == 0 {
			break
		}
		hash.Write(part[:n])
		if out.KeepErr = opt.Keep(part[:n], resp.ContentLength); out.KeepErr != nil {
			return
		}
	}
	f.SHA256 = hex.EncodeToString(hash.Sum(nil))
	out.File = f
}

// fill reads until part is full. The error is io.EOF only where all was read.
func fill(r io.Reader, part []byte) (n int, err error) {
	for n < len(part) && err == nil {
		var more int
		more, err = r.Read(part[n:])
		n += more
	}
	return n, err
}

// maxFileName is how many bytes the name of a file may have.
const maxFileName = 200

// fileName returns the name that a Content-Disposition has for a file, "" where it has none.
func fileName(disposition string) string {
	_, params, err := mime.ParseMediaType(disposition)
	if err != nil {
		return ""
	}
	return SafeFileName(params["filename"])
}

// SafeFileName returns the last part of a path, without control characters and what a shell, a header
// or a file system may take for more than a name; "" where nothing is left.
func SafeFileName(name string) string {
	name = strings.ToValidUTF8(name, "")
	name = name[strings.LastIndexAny(name, `/\`)+1:]
	name = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || strings.ContainsRune(`"<>|*?:;%`, r) {
			return -1
		}
		return r
	}, name)
	for len(name) > maxFileName {
		_, last := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-last]
	}
	return strings.Trim(name, " .")
}

// binary decodes a base64 argument: in either alphabet, with or without padding, as the format byte of
// a schema has it.
func binary(arg string, v any) ([]byte, error) {
	encoded, ok := v.(string)
	raw, err := base64.RawStdEncoding.DecodeString(strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(encoded, "=")))
	if !ok || err != nil || strings.ContainsAny(encoded, "\r\n") {
		return nil, invalid(arg, "contentEncoding", "must be base64")
	}
	return raw, nil
}

// multipart writes the body's fields as multipart/form-data. The boundary is a
// hash of the fields: the same call makes the same bytes.
func (b *builder) multipart(names []string) ([]byte, error) {
	var out bytes.Buffer
	w := multipart.NewWriter(&out)
	if err := w.SetBoundary(boundary(names, b.values)); err != nil {
		return nil, fmt.Errorf("write a multipart body: %w", err)
	}
	named := map[string]int{} // how many files there are for an argument that names files
	for _, name := range names {
		if b.namesFile(name) {
			continue
		}
		v, _, err := b.value(name)
		if err != nil {
			return nil, err
		}
		// A part of its own separates each item of a list, and an object is JSON.
		if err := b.field(name, httpplan.Encoding{Style: partStyle(v), Explode: true}, v); err != nil {
			return nil, err
		}
		if v == nil {
			continue
		}
		if v, err = withoutNulls(b.fieldPointer(name), partStyle(v), v); err != nil {
			return nil, err
		}
		values, repeated := v.([]any)
		if !repeated {
			values = []any{v}
		}
		named[b.plan.Body.Fields[name].NameArg] = len(values)
		b.room.take(len(name) * len(values))
		if err := b.room.check(); err != nil {
			return nil, err
		}
		for i, e := range values {
			if err := b.part(w, name, i, e); err != nil {
				return nil, err
			}
		}
	}
	if err := b.checkNames(names, named); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("write a multipart body: %w", err)
	}
	b.header.Set("Content-Type", w.FormDataContentType())
	return out.Bytes(), nil
}

// partStyle returns the style by which a part is written: an object is JSON, which has null.
func partStyle(v any) string {
	if _, isObject := v.(map[string]any); isObject {
		return httpplan.StyleJSON
	}
	return httpplan.StyleForm
}

// part writes one field: a file, an object as JSON, or text.
func (b *builder) part(w *multipart.Writer, name string, i int, v any) error {
	enc := b.plan.Body.Fields[name]
	quoted := quotedName(name)
	header := textproto.MIMEHeader{}
	disposition, media := `form-data; name="`+quoted+`"`, enc.Type
	content := []byte(scalar(v))
	if enc.File {
		var err error
		if content, err = binary(name, v); err != nil {
			return err
		}
		file, err := b.fileName(enc.NameArg, i)
		if err != nil {
			return err
		}
		if file == "" {
			file = quoted
		}
		disposition += `; filename="` + file + `"`
		if media == "" {
			media = httpfield.Octets
		}
	} else if _, isObject := v.(map[string]any); isObject && media == "" {
		media = "application/json"
	}
	header.Set("Content-Disposition", disposition)
	if media != "" {
		header.Set("Content-Type", media)
	}
	part, err := w.CreatePart(header)
	if err == nil {
		_, err = part.Write(content)
	}
	if err != nil {
		return fmt.Errorf("write a multipart body: %w", err)
	}
	return nil
}

func quotedName(name string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\r", "%0D", "\n", "%0A").Replace(name)
}

// namesFile reports whether an argument is no field, but the name of a file.
func (b *builder) namesFile(arg string) bool {
	for _, enc := range b.plan.Body.Fields {
		if enc.NameArg == arg {
			return true
		}
	}
	return false
}

// checkNames refuses names for which there is no file. files says how many there are for each argument.
func (b *builder) checkNames(args []string, files map[string]int) error {
	for _, arg := range args {
		v, _, err := b.value(arg)
		if err != nil {
			return err
		}
		if v == nil || !b.namesFile(arg) {
			continue
		}
		names, many := v.([]any)
		if !many {
			names = []any{v}
		}
		if len(names) > files[arg] {
			return invalid(arg, "maxItems", fmt.Sprintf("names %d files, and the call has %d", len(names), files[arg]))
		}
	}
	return nil
}

// fileName returns the name that the caller gives the file at a place, "" where they give none.
func (b *builder) fileName(arg string, i int) (string, error) {
	v, _, err := b.value(arg)
	if err != nil {
		return "", err
	}
	if list, many := v.([]any); many {
		v = nil
		if i < len(list) {
			v = list[i]
		}
	}
	name, _ := v.(string)
	if name != SafeFileName(name) {
		return "", invalid(arg, "pattern", "must be the name of a file, without a path and without special signs")
	}
	return name, nil
}

func boundary(names []string, values map[string]json.RawMessage) string {
	h := sha256.New()
	for _, name := range names {
		fmt.Fprintf(h, "%d:%s=%d:", len(name), name, len(values[name]))
		h.Write(values[name])
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

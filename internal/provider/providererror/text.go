package providererror

import (
	"encoding/xml"
	"html"
	"strings"
)

// takeText takes the parts of an answer that is no JSON.
func (e *Error) takeText(media string, body []byte, m Masker) {
	text := strings.ToValidUTF8(string(body[:min(len(body), maxText)]), "")
	cut := len(body) > maxText
	switch {
	case isHTML(media, text):
		var title string
		title, text = page(text)
		e.Message = line(m.MaskText(title), maxMessage)
		cut = true // it is no longer as it was written
	case strings.HasPrefix(text, "<"):
		code, message := complaint(text)
		e.Message = line(m.MaskText(message), maxMessage)
		if code = m.MaskText(code); len(code) <= maxCode && code == line(code, maxCode) {
			e.Code = code
		}
	default:
		first, _, _ := strings.Cut(text, "\n")
		e.Message = line(m.MaskText(first), maxMessage)
	}
	if shown := encode(m.MaskText(text)); !cut && len(shown) <= e.room() {
		e.Body = shown
		return
	}
	e.cut(text, m)
}

func isHTML(media, text string) bool {
	start := strings.ToLower(text[:min(len(text), 64)])
	return media == "text/html" || media == "application/xhtml+xml" || strings.HasPrefix(start, "<!doctype html") || strings.HasPrefix(start, "<html")
}

// page returns the title of an HTML page, otherwise its first heading, and its text without markup.
func page(text string) (title, rest string) {
	m := markup{text: text, lower: lower(text)}
	title = m.inside("title")
	if title == "" {
		title = m.inside("h1")
	}
	for _, name := range []string{"head", "script", "style"} {
		m = m.without(name)
	}
	return plain(title), plain(m.text)
}

// markup is a text with tags, and the same with small letters A to Z.
type markup struct{ text, lower string }

// lower changes no length, as strings.ToLower may.
func lower(text string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, text)
}

// inside returns what stands between the first tags of that name.
func (m markup) inside(name string) string {
	from, to := m.element(name, 0)
	inner := m.text[from:to]
	if i := strings.IndexByte(inner, '>'); i >= 0 {
		inner = inner[i+1:]
	}
	if i := strings.LastIndex(inner, "</"); i >= 0 {
		inner = inner[:i]
	}
	return inner
}

// without returns the text without the elements of that name.
func (m markup) without(name string) markup {
	var text, lower strings.Builder
	done := 0
	for {
		from, to := m.element(name, done)
		text.WriteString(m.text[done:from])
		lower.WriteString(m.lower[done:from])
		if done = to; from == to {
			return markup{text.String(), lower.String()}
		}
	}
}

// element returns where the next element of that name begins and ends, from a place on; the end of
// the text twice where there is none. One without an end tag ends with the text.
func (m markup) element(name string, start int) (from, to int) {
	for {
		i := strings.Index(m.lower[start:], "<"+name)
		if i < 0 {
			return len(m.text), len(m.text)
		}
		from = start + i
		after := m.lower[from+1+len(name):]
		if after == "" || strings.IndexByte("> \t\r\n/", after[0]) >= 0 {
			break
		}
		start = from + 1
	}
	end := strings.Index(m.lower[from:], "</"+name)
	if end < 0 {
		return from, len(m.text)
	}
	if closing := strings.IndexByte(m.text[from+end:], '>'); closing >= 0 {
		return from, from + end + closing + 1
	}
	return from, len(m.text)
}

// plain returns a text without tags, in one line.
func plain(text string) string {
	var out strings.Builder
	for {
		before, tag, found := strings.Cut(text, "<")
		out.WriteString(before)
		if !found {
			break
		}
		_, after, closed := strings.Cut(tag, ">")
		if !closed {
			break
		}
		out.WriteByte(' ')
		text = after
	}
	return line(html.UnescapeString(out.String()), maxText)
}

// complaint returns the code and the message of an error in XML, as Amazon S3 and SOAP write them.
func complaint(text string) (code, message string) {
	dec := xml.NewDecoder(strings.NewReader(text))
	dec.Strict = false
	name := ""
	for code == "" || message == "" {
		token, err := dec.Token()
		if err != nil {
			break // its end, or no XML: what was found is all there is
		}
		switch t := token.(type) {
		case xml.StartElement:
			name = strings.ToLower(t.Name.Local)
		case xml.EndElement:
			name = ""
		case xml.CharData:
			said := strings.TrimSpace(string(t))
			switch name {
			case "code", "faultcode", "errorcode":
				code = first(code, said)
			case "message", "faultstring", "errormessage", "description", "text":
				message = first(message, said)
			}
		}
	}
	return code, message
}

func first(text, otherwise string) string {
	if text != "" {
		return text
	}
	return otherwise
}

package strictjson

import (
	"bytes"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Limits on canonical numbers: they may be longer, with larger exponents, than Check
// allows to callers. 0.001e-400 is 1e-403.
const (
	canonicalNumberLen = 2 * MaxNumberLen
	canonicalExponent  = 2*MaxNumberExponent + canonicalNumberLen
)

// Canonical returns the one text of the JSON value in data. It has no white space.
// Names are sorted by Unicode code point: the byte order of UTF-8, not the UTF-16
// order of RFC 8785. Strings have only the escapes that JSON demands. Numbers are
// exact decimals: 1, 1.0, 1e0 and 10e-1 are one text, -0 is 0, and
// 9007199254740993 stays itself. The error is the fault INVALID_JSON.
func Canonical(data []byte) ([]byte, error) {
	lim := limits{canonicalNumberLen, canonicalExponent}
	if p := check(data, Options{Free: []string{""}}, lim); p != nil {
		return nil, p.fault()
	}
	w := writer{out: make([]byte, 0, len(data))}
	w.value(data, skipSpace(data, 0))
	return w.out, nil
}

// writer builds the canonical text from checked data.
type writer struct {
	out     []byte
	names   []byte   // unescaped names of the open objects
	members []member // of the open objects
	scratch []byte
}

// member is where a member's name stands in names, and its text in out.
type member struct {
	nameFrom, nameTo int
	from, to         int
}

// value writes the value at i and returns the position after it.
func (w *writer) value(data []byte, i int) int {
	switch data[i] {
	case '{':
		return w.object(data, i)
	case '[':
		return w.array(data, i)
	case '"':
		end := skipString(data, i)
		w.scratch = unescape(w.scratch[:0], data[i+1:end-1])
		w.out = appendString(w.out, w.scratch)
		return end
	case 't', 'f', 'n':
		end := skipToken(data, i)
		w.out = append(w.out, data[i:end]...)
		return end
	}
	end := skipToken(data, i)
	var buf [canonicalNumberLen]byte
	w.out = parseDecimal(data[i:end], buf[:]).append(w.out)
	return end
}

func (w *writer) array(data []byte, i int) int {
	w.out = append(w.out, '[')
	i = skipSpace(data, i+1)
	for first := true; data[i] != ']'; first = false {
		if !first {
			w.out = append(w.out, ',')
		}
		i = skipSpace(data, w.value(data, i))
		if data[i] == ',' {
			i = skipSpace(data, i+1)
		}
	}
	w.out = append(w.out, ']')
	return i + 1
}

// object writes the members in the order of the source and sorts them afterwards.
// That costs nothing where they are sorted already.
func (w *writer) object(data []byte, i int) int {
	baseNames, base, start := len(w.names), len(w.members), len(w.out)
	i = skipSpace(data, i+1)
	sorted := true
	for data[i] == '"' {
		end := skipString(data, i)
		m := member{nameFrom: len(w.names), from: len(w.out)}
		w.names = unescape(w.names, data[i+1:end-1])
		m.nameTo = len(w.names)
		w.out = append(appendString(append(w.out, ','), w.names[m.nameFrom:]), ':')
		i = skipSpace(data, skipSpace(data, end)+1)
		i = skipSpace(data, w.value(data, i))
		m.to = len(w.out)
		if n := len(w.members); n > base && w.compare(w.members[n-1], m) > 0 {
			sorted = false
		}
		w.members = append(w.members, m)
		if data[i] == ',' {
			i = skipSpace(data, i+1)
		}
	}
	if !sorted {
		w.sort(start, w.members[base:])
	}
	if len(w.out) == start {
		w.out = append(w.out, '{')
	}
	w.out[start] = '{' // instead of the first member's comma
	w.out = append(w.out, '}')
	w.names, w.members = w.names[:baseNames], w.members[:base]
	return i + 1
}

func (w *writer) compare(a, b member) int {
	return bytes.Compare(w.names[a.nameFrom:a.nameTo], w.names[b.nameFrom:b.nameTo])
}

func (w *writer) sort(start int, list []member) {
	slices.SortFunc(list, w.compare)
	w.scratch = w.scratch[:0]
	for _, m := range list {
		w.scratch = append(w.scratch, w.out[m.from:m.to]...)
	}
	w.out = append(w.out[:start], w.scratch...)
}

// appendString writes a string literal with the fewest escapes: quote,
// backslash and control characters.
func appendString(dst, s []byte) []byte {
	dst = append(dst, '"')
	for _, c := range s {
		switch {
		case plain[c] || c >= utf8.RuneSelf:
			dst = append(dst, c)
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		default:
			dst = appendControl(dst, c)
		}
	}
	return append(dst, '"')
}

func appendControl(dst []byte, c byte) []byte {
	switch c {
	case '\b':
		return append(dst, `\b`...)
	case '\f':
		return append(dst, `\f`...)
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
	}
	const hexDigits = "0123456789abcdef"
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

// maxDiff is how many places Diff names at most.
const maxDiff = 10

// Diff returns the JSON Pointers of the places where two documents differ, at most
// 10, in the order of the canonical form. It returns the root ("") where either is
// not JSON. The result contains no values.
func Diff(a, b []byte) []string {
	left, errLeft := Canonical(a)
	right, errRight := Canonical(b)
	if errLeft != nil || errRight != nil {
		return []string{""}
	}
	var d differ
	d.value("", left, right)
	return d.found
}

type differ struct{ found []string }

func (d *differ) add(path string) {
	if len(d.found) < maxDiff {
		d.found = append(d.found, path)
	}
}

func (d *differ) value(path string, a, b []byte) {
	switch {
	case bytes.Equal(a, b) || len(d.found) >= maxDiff:
	case a[0] == '{' && b[0] == '{':
		d.object(path, a, b)
	case a[0] == '[' && b[0] == '[':
		d.array(path, a, b)
	default:
		d.add(path)
	}
}

func (d *differ) object(path string, a, b []byte) {
	left, right := pairs(a), pairs(b)
	for len(left) > 0 || len(right) > 0 {
		var order int
		switch {
		case len(left) == 0:
			order = 1
		case len(right) == 0:
			order = -1
		default:
			order = bytes.Compare(left[0].name, right[0].name)
		}
		switch {
		case order < 0:
			d.add(join(path, string(left[0].name)))
			left = left[1:]
		case order > 0:
			d.add(join(path, string(right[0].name)))
			right = right[1:]
		default:
			d.value(join(path, string(left[0].name)), left[0].value, right[0].value)
			left, right = left[1:], right[1:]
		}
		if len(d.found) >= maxDiff {
			return
		}
	}
}

type pair struct{ name, value []byte }

func pairs(object []byte) []pair {
	var list []pair
	members(object, func(name, value []byte) bool {
		list = append(list, pair{unescape(nil, name), value})
		return true
	})
	return list
}

func (d *differ) array(path string, a, b []byte) {
	var left, right [][]byte
	elements(a, func(v []byte) bool { left = append(left, v); return true })
	elements(b, func(v []byte) bool { right = append(right, v); return true })
	for i := range max(len(left), len(right)) {
		at := join(path, strconv.Itoa(i))
		if i < len(left) && i < len(right) {
			d.value(at, left[i], right[i])
		} else {
			d.add(at)
		}
		if len(d.found) >= maxDiff {
			return
		}
	}
}

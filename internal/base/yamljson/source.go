package yamljson

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// The parser takes time that is not in proportion to a text in two places. It moves all of a list or an
// object that turns out to be a name, and it compares and repeats what a %TAG line says.
const (
	// maxTags is the most lines %TAG of a text, and maxTagLine the most bytes of one.
	maxTags    = 16
	maxTagLine = 256
	// What the parser moves is at most spareMoves signs and movesPerByte for each byte of the text. A sign
	// stands for up to two tokens. Moving one takes about 30 ns (measured).
	spareMoves   = 500_000
	movesPerByte = 3
)

// lineEnds has the last bytes of what the parser takes for the end of a line, and of the mark before a text.
const lineEnds = "\n\r\x85\xa8\xa9\xbf"

// inUTF8 returns a text that is in UTF-16 in UTF-8, so that the signs in it can be counted. It is an
// error where the text is not valid. Any other text is returned as it is.
func inUTF8(source []byte) ([]byte, error) {
	var order binary.ByteOrder = binary.LittleEndian
	switch {
	case bytes.HasPrefix(source, []byte("\xff\xfe")):
	case bytes.HasPrefix(source, []byte("\xfe\xff")):
		order = binary.BigEndian
	default:
		return source, nil
	}
	units := make([]uint16, len(source)/2-1)
	for i := range units {
		units[i] = order.Uint16(source[2+2*i:])
	}
	runes := utf16.Decode(units)
	if len(source)%2 != 0 || slices.Contains(runes, utf8.RuneError) {
		return nil, errors.New("yamljson: the text is not in UTF-16")
	}
	return []byte(string(runes)), nil
}

// tagTooMany returns the number of the line %TAG that is one too many for the parser to compare, or too
// long to be repeated. It is 0 where there is none.
func tagTooMany(source []byte) (number int) {
	number = 1
	for n := 0; ; {
		before, line, found := bytes.Cut(source, []byte("%TAG"))
		if !found {
			return 0
		}
		source = line
		number += linesIn(before)
		if len(before) > 0 && !strings.Contains(lineEnds, string(before[len(before)-1:])) {
			continue
		}
		if n++; n > maxTags || !bytes.ContainsAny(line[:min(len(line), maxTagLine)], "\r\n") {
			return number
		}
	}
}

// linesIn returns how many lines end in a text, as editors count them.
func linesIn(text []byte) int {
	return bytes.Count(text, []byte("\n")) + bytes.Count(text, []byte("\r")) - bytes.Count(text, []byte("\r\n"))
}

// moves returns how many signs the parser moves at most. A list or an object is a name where a colon
// follows its end in the same line. So it begins in that line, and is at most as long as the line
// from its first bracket on. Texts count too, where they look so. The line is the one that adds most.
func moves(source []byte) (n, line int) {
	from, to := jsonIn(source)
	signs, inside, ended := 0, false, false
	begin, before := 0, 0 // of the line that is read
	worst, most := 0, 0   // where the line begins that adds most, and what it adds
	for i := 0; i < len(source); i++ {
		if i == from && to > from { // it may be a name itself
			signs, inside, ended = countSigns(source[from:to]), true, true
			i = to - 1
			continue
		}
		c := source[i]
		switch c {
		case '\n', '\r':
			signs, inside, ended = 0, false, false
			begin, before = i+1, n
			continue
		case ' ', '\t':
			continue
		case '[', '{':
			inside = true
		}
		if inside && isSign(c) {
			signs++
		}
		if ended && c == ':' {
			n += signs
			if n-before > most {
				most, worst = n-before, begin
			}
		}
		ended = inside && (c == ']' || c == '}')
	}
	return n, 1 + linesIn(source[:worst])
}

// jsonIn returns where the first list or object of a text stands, if it is JSON. No names in it are lists
// or objects, however many brackets its texts have before colons. A document in one line has many. The
// parser must take it for a value at its first bracket: else it takes what is within its texts for values.
func jsonIn(source []byte) (from, to int) {
	from = bytes.IndexAny(source, "[{\"'|>")
	if from < 0 || source[from] != '[' && source[from] != '{' || !beginsValue(source[:from]) {
		return 0, 0
	}
	read := json.NewDecoder(bytes.NewReader(source[from:]))
	var value json.RawMessage
	if read.Decode(&value) != nil {
		return 0, 0
	}
	return from, from + int(read.InputOffset())
}

// beginsValue reports whether a value begins after a text without brackets, quotes and blocks: where only
// comments are before it, or a colon and a space in a line that is no comment and no directive.
func beginsValue(before []byte) bool {
	if bytes.ContainsFunc(before, func(r rune) bool { return r > '~' }) {
		return false // some of these end a line
	}
	begin := bytes.LastIndexAny(before, "\r\n") + 1
	line := before[begin:]
	if name := bytes.TrimRight(line, " \t"); len(name) > 0 {
		return len(name) < len(line) && bytes.HasSuffix(name, []byte(":")) && !bytes.ContainsAny(name, "#%")
	}
	for _, above := range bytes.FieldsFunc(before, func(r rune) bool { return r == '\r' || r == '\n' }) {
		if above = bytes.Trim(above, " \t"); len(above) > 0 && above[0] != '#' {
			return false
		}
	}
	return true
}

func countSigns(text []byte) (n int) {
	for _, c := range text {
		if isSign(c) {
			n++
		}
	}
	return n
}

// isSign reports whether a character begins or ends a token within brackets.
func isSign(c byte) bool {
	switch c {
	case ',', '[', ']', '{', '}', ':', '?', '-', '&', '*', '!', '"', '\'':
		return true
	}
	return false
}

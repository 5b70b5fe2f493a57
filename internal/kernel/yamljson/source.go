package yamljson

import (
	"bytes"
	"encoding/binary"
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
		if n++; n > maxTags || bytes.IndexAny(line[:min(len(line), maxTagLine)], "\r\n") < 0 {
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
	signs, inside, ended := 0, false, false
	begin, before := 0, 0 // of the line that is read
	worst, most := 0, 0   // where the line begins that adds most, and what it adds
	for i, c := range source {
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
		if inside && isSign[c] {
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

// isSign has the characters that begin or end a token within brackets.
var isSign = [256]bool{
	',': true, '[': true, ']': true, '{': true, '}': true, ':': true, '?': true, '-': true,
	'&': true, '*': true, '!': true, '"': true, '\'': true,
}

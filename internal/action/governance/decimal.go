package governance

import (
	"bytes"
	"cmp"
	"strconv"

	"agentruntime/internal/base/strictjson"
)

// decimal is an exact number, 0.d₁d₂d₃… × 10^point, negative or not. It is only compared,
// never computed with. So a comparison costs as much as the digits, whatever the exponents.
type decimal struct {
	negative bool
	n        uint8 // digits, without leading or trailing zeros; 0 for zero
	point    int32
	digits   [strictjson.MaxNumberLen]byte
}

// parseDecimal reads a JSON number. ok is false for anything else, and for what the reader
// of requests refuses: too many characters, too large an exponent.
func parseDecimal(token []byte) (d decimal, ok bool) {
	if len(token) == 0 || len(token) > strictjson.MaxNumberLen {
		return decimal{}, false
	}
	if token[0] == '-' {
		d.negative, token = true, token[1:]
	}
	whole := countDigits(token)
	if whole == 0 || (whole > 1 && token[0] == '0') {
		return decimal{}, false
	}
	d.point = int32(whole)
	d.add(token[:whole])
	token = token[whole:]
	if len(token) > 0 && token[0] == '.' {
		fraction := countDigits(token[1:])
		if fraction == 0 {
			return decimal{}, false
		}
		d.add(token[1 : 1+fraction])
		token = token[1+fraction:]
	}
	exponent, ok := parseExponent(token)
	if !ok {
		return decimal{}, false
	}
	d.point += exponent
	for d.n > 0 && d.digits[d.n-1] == '0' {
		d.n--
	}
	if d.n == 0 {
		return decimal{}, true
	}
	return d, true
}

// add appends digits; a leading zero moves the point instead.
func (d *decimal) add(digits []byte) {
	for _, c := range digits {
		if d.n == 0 && c == '0' {
			d.point--
			continue
		}
		d.digits[d.n] = c
		d.n++
	}
}

// parseExponent reads e±digits; nothing is 0.
func parseExponent(token []byte) (int32, bool) {
	if len(token) == 0 {
		return 0, true
	}
	if token[0] != 'e' && token[0] != 'E' {
		return 0, false
	}
	token = token[1:]
	negative := false
	if len(token) > 0 && (token[0] == '+' || token[0] == '-') {
		negative, token = token[0] == '-', token[1:]
	}
	if len(token) == 0 || countDigits(token) != len(token) {
		return 0, false
	}
	n := int32(0)
	for _, c := range token {
		if n = n*10 + int32(c-'0'); n > strictjson.MaxNumberExponent {
			return 0, false
		}
	}
	if negative {
		n = -n
	}
	return n, true
}

func countDigits(token []byte) int {
	for i, c := range token {
		if c < '0' || c > '9' {
			return i
		}
	}
	return len(token)
}

// compare returns -1, 0 or 1 as d is less than, equal to or greater than e.
func (d *decimal) compare(e *decimal) int {
	if s, t := d.sign(), e.sign(); s != t || s == 0 {
		return cmp.Compare(s, t)
	}
	c := cmp.Compare(d.point, e.point)
	if c == 0 {
		c = bytes.Compare(d.digits[:d.n], e.digits[:e.n])
	}
	if d.negative {
		return -c
	}
	return c
}

func (d *decimal) sign() int {
	switch {
	case d.n == 0:
		return 0
	case d.negative:
		return -1
	}
	return 1
}

// plainDigits is up to how many places around the point a number is written without an exponent. It is
// that of JavaScript, which most callers write numbers with.
const plainDigits = 21

// text returns the number as most callers write it. Equal numbers have equal texts.
func (d *decimal) text() []byte {
	out, digits := []byte{}, d.digits[:d.n]
	if d.negative && d.n > 0 {
		out = append(out, '-')
	}
	switch point := int(d.point); {
	case d.n == 0:
		return append(out, '0')
	case point > plainDigits || point < -plainDigits:
		return strconv.AppendInt(append(append(out, digits...), 'e'), int64(point-len(digits)), 10)
	case point <= 0:
		out = append(append(out, '0', '.'), bytes.Repeat([]byte("0"), -point)...)
		return append(out, digits...)
	case point >= len(digits):
		return append(append(out, digits...), bytes.Repeat([]byte("0"), point-len(digits))...)
	default:
		return append(append(append(out, digits[:point]...), '.'), digits[point:]...)
	}
}

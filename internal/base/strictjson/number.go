package strictjson

import "strconv"

// number reads a number token; the scanner is at its first byte.
func (s *scanner) number() *problem {
	start := s.pos
	if s.peek() == '-' {
		s.pos++
	}
	if s.peek() == '0' {
		s.pos++
	} else if s.digits() == 0 {
		return s.unexpected("a digit")
	}
	if s.peek() == '.' {
		if s.pos++; s.digits() == 0 {
			return s.unexpected("a digit")
		}
	}
	big := false
	if c := s.peek(); c == 'e' || c == 'E' {
		s.pos++
		if c := s.peek(); c == '+' || c == '-' {
			s.pos++
		}
		from := s.pos
		if s.digits() == 0 {
			return s.unexpected("a digit")
		}
		big = exponent(s.data[from:s.pos], s.lim.exponent) > s.lim.exponent
	}
	tooLong := s.pos-start > s.lim.numberLen
	if big || tooLong {
		s.pos = start
	}
	switch {
	case tooLong:
		return s.fail(RuleNumber, "a number has more than "+strconv.Itoa(s.lim.numberLen)+" characters")
	case big:
		return s.fail(RuleNumber, "a number's exponent is beyond ±"+strconv.Itoa(s.lim.exponent))
	}
	return nil
}

// digits skips digits and returns how many there were.
func (s *scanner) digits() int {
	start := s.pos
	for s.pos < len(s.data) && isDigit(s.data[s.pos]) {
		s.pos++
	}
	return s.pos - start
}

// exponent reads digits and stops growing above limit, so that it cannot overflow.
func exponent(digits []byte, limit int) int {
	n := 0
	for _, c := range digits {
		if n = n*10 + int(c-'0'); n > limit {
			return n
		}
	}
	return n
}

// decimal is an exact number: digits × 10^exp, without leading or trailing
// zeros; zero has no digits.
type decimal struct {
	negative bool
	digits   []byte
	exp      int
}

// parseDecimal reads a checked number token. The digits may alias buf.
func parseDecimal(token, buf []byte) decimal {
	d := decimal{digits: buf[:0]}
	i := 0
	if token[0] == '-' {
		d.negative, i = true, 1
	}
	fraction := false
scan:
	for ; i < len(token); i++ {
		switch c := token[i]; c {
		case '.':
			fraction = true
		case 'e', 'E':
			e, _ := strconv.Atoi(string(token[i+1:])) // checked: at most four digits
			d.exp += e
			break scan
		default:
			d.digits = append(d.digits, c)
			if fraction {
				d.exp--
			}
		}
	}
	for len(d.digits) > 0 && d.digits[0] == '0' {
		d.digits = d.digits[1:]
	}
	for len(d.digits) > 0 && d.digits[len(d.digits)-1] == '0' {
		d.digits = d.digits[:len(d.digits)-1]
		d.exp++
	}
	if len(d.digits) == 0 {
		return decimal{}
	}
	return d
}

// maxPlain is the longest number that the canonical form writes without an
// exponent, in characters without the sign.
const maxPlain = 40

// append appends the one canonical text of the number: plain (12, 0.5) where that
// takes at most maxPlain characters, otherwise digits and exponent (12e97).
func (d decimal) append(dst []byte) []byte {
	n := len(d.digits)
	if n == 0 {
		return append(dst, '0')
	}
	if d.negative {
		dst = append(dst, '-')
	}
	switch {
	case d.exp >= 0 && n+d.exp <= maxPlain:
		return zeros(append(dst, d.digits...), d.exp)
	case d.exp < 0 && -d.exp < n && n+1 <= maxPlain:
		dst = append(append(dst, d.digits[:n+d.exp]...), '.')
		return append(dst, d.digits[n+d.exp:]...)
	case d.exp < 0 && -d.exp >= n && 2-d.exp <= maxPlain:
		return append(zeros(append(dst, "0."...), -d.exp-n), d.digits...)
	}
	dst = append(append(dst, d.digits...), 'e')
	return strconv.AppendInt(dst, int64(d.exp), 10)
}

func zeros(dst []byte, n int) []byte {
	for range n {
		dst = append(dst, '0')
	}
	return dst
}

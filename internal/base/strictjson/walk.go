package strictjson

// The functions here read data that Check has accepted. On other data they may panic.

// skipSpace returns the position of the first byte at or after i that is not
// white space.
func skipSpace(data []byte, i int) int {
	for i < len(data) && (data[i] == ' ' || data[i] == '\t' || data[i] == '\n' || data[i] == '\r') {
		i++
	}
	return i
}

// skipString returns the position after the string literal that begins at i.
func skipString(data []byte, i int) int {
	for i++; ; i++ {
		switch data[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
	}
}

// skipValue returns the position after the value that begins at i.
func skipValue(data []byte, i int) int {
	switch data[i] {
	case '"':
		return skipString(data, i)
	case '{', '[':
	default:
		return skipToken(data, i)
	}
	depth := 0
	for {
		switch data[i] {
		case '"':
			i = skipString(data, i)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		i++
		if depth == 0 {
			return i
		}
	}
}

// skipToken returns the position after a number or literal.
func skipToken(data []byte, i int) int {
	for i < len(data) {
		switch data[i] {
		case ',', ']', '}', ' ', '\t', '\n', '\r':
			return i
		}
		i++
	}
	return i
}

// members calls f with the raw name (without quotes) and raw value of each
// member of an object, in order, until f returns false.
func members(object []byte, f func(name, value []byte) bool) {
	i := skipSpace(object, 1)
	for object[i] == '"' {
		end := skipString(object, i)
		name := object[i+1 : end-1]
		i = skipSpace(object, skipSpace(object, end)+1) // the colon
		end = skipValue(object, i)
		if !f(name, object[i:end]) {
			return
		}
		i = skipSpace(object, skipSpace(object, end)+1) // comma or end
		if i >= len(object) {
			return
		}
	}
}

// elements calls f with each raw element of an array, in order, until f returns
// false.
func elements(array []byte, f func(value []byte) bool) {
	i := skipSpace(array, 1)
	for i < len(array) && array[i] != ']' {
		end := skipValue(array, i)
		if !f(array[i:end]) {
			return
		}
		i = skipSpace(array, skipSpace(array, end)+1)
	}
}

// trim returns data without white space at both ends.
func trim(data []byte) []byte {
	data = data[skipSpace(data, 0):]
	return data[:skipValue(data, 0)]
}

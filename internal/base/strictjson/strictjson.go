// Package strictjson is the one reader of JSON request bodies. Check refuses what two
// readers could understand differently: duplicate names, bad UTF-8, absurd numbers.
// Decode stores a body in a struct by exact field names. Canonical returns the one text
// that fingerprints are made of.
//
// Every package that takes JSON from outside uses it. It does no I/O. It never puts a
// value that it has read into an error, and never converts a number to a float.
package strictjson

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"unicode/utf8"

	"agentruntime/internal/base/fault"
)

// Limits on a body. A number beyond them costs a validator seconds, or makes it panic
// (jsonschema v6.0.3 on 1e999999999 with minimum). So Check refuses it first.
const (
	DefaultMaxDepth   = 64  // nested arrays and objects
	MaxNumberLen      = 64  // characters of one number token
	MaxNumberExponent = 400 // absolute value
)

// Rules that a Detail of an INVALID_JSON names.
const (
	RuleDuplicateName = "duplicate_name"
	RuleDepth         = "depth"
	RuleNumber        = "number"
	RuleUTF8          = "utf8"
	RuleSurrogate     = "surrogate"
	RuleNUL           = "nul"
	RuleTrailingData  = "trailing_data"
	RuleSyntax        = "syntax"
	RuleEmpty         = "empty"
)

// Options say how a body is read. The zero value is the strictest.
type Options struct {
	// Free lists JSON Pointers of subtrees that are not ours ("/args", "/metadata",
	// "/conditions/*/value"). Inside them names that differ only in case are two names.
	// "*" matches any one segment, "" the whole document. Segments are compared as
	// plain text, without ~0 and ~1. Only the first 64 count.
	Free []string
	// AllowUnknown makes Decode ignore fields that dst does not have, instead
	// of refusing them.
	AllowUnknown bool
	// MaxDepth is the deepest nesting; 0 means DefaultMaxDepth.
	MaxDepth int
}

// Check returns nil where data is exactly one acceptable JSON value. Otherwise it
// returns the fault INVALID_JSON, with one detail that has the rule and the JSON Pointer.
func Check(data []byte, opts Options) error {
	if p := check(data, opts, limits{MaxNumberLen, MaxNumberExponent}); p != nil {
		return p.fault()
	}
	return nil
}

// limits are those of number tokens: length in characters, absolute exponent.
type limits struct {
	numberLen int
	exponent  int
}

const byteOrderMark = "\xef\xbb\xbf"

func check(data []byte, opts Options, lim limits) *problem {
	var names [32]name // enough for most bodies without an allocation
	var arena [512]byte
	s := scanner{
		data: data, free: opts.Free, lim: lim, maxDepth: opts.MaxDepth,
		names: names[:0], arena: arena[:0], seed: maphash.MakeSeed(),
	}
	if s.maxDepth <= 0 {
		s.maxDepth = DefaultMaxDepth
	}
	if len(s.free) > maxFree {
		s.free = s.free[:maxFree]
	}
	if strings.HasPrefix(string(data[:min(len(data), len(byteOrderMark))]), byteOrderMark) {
		return &problem{rule: RuleSyntax, what: "a byte order mark is not allowed"}
	}
	s.space()
	if s.pos == len(data) {
		return &problem{rule: RuleEmpty, what: "the body is empty", off: s.pos}
	}
	if p := s.value(s.root()); p != nil {
		return p
	}
	if s.space(); s.pos != len(data) {
		return s.fail(RuleTrailingData, "there is data after the JSON value")
	}
	return nil
}

// problem is what is wrong, and where. The path is collected from the inside out
// while the scanner returns, so that a good body pays nothing for it.
type problem struct {
	rule string
	what string
	off  int      // bytes from the start of the body
	path []string // segments, innermost first
}

// under records that the problem is in the member or element called segment.
func (p *problem) under(segment string) *problem {
	p.path = append(p.path, segment)
	return p
}

func (p *problem) fault() *fault.Error {
	path := ""
	for _, segment := range slices.Backward(p.path) {
		path = join(path, segment)
	}
	where := fmt.Sprintf("at byte %d", p.off)
	if path != "" {
		where += " (" + path + ")"
	}
	e := fault.Newf(fault.CodeInvalidJSON, "The request body is not acceptable JSON: %s %s.", p.what, where)
	e.Details = []fault.Detail{{Path: path, Rule: p.rule, Message: p.what + " " + where}}
	return e
}

// maxSegment is how much of one name an error repeats at most, in bytes.
const maxSegment = 80

// join returns a JSON Pointer (RFC 6901) with a segment appended. It shortens a segment
// of more than maxSegment bytes.
func join(pointer, segment string) string {
	if len(segment) > maxSegment {
		cut := maxSegment
		for cut > 0 && !utf8.RuneStart(segment[cut]) {
			cut--
		}
		segment = segment[:cut] + "…"
	}
	return pointer + "/" + fault.PointerToken(segment)
}

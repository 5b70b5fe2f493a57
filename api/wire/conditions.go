package wire

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"agentruntime/internal/base/fault"
)

// conditions are the If-Match and the If-None-Match of a call (RFC 9110, section 13).
//
// read is false where the route has no object that could have an ETag.
type conditions struct {
	read             bool
	match, noneMatch tagList
}

// tagList is the value of one of the two fields.
type tagList struct {
	given bool
	any   bool     // the field is *
	tags  []string // each with its quotes, a weak one with its W/
}

// ReadConditions reads If-Match and If-None-Match, which the answer is then checked against.
// A field that is no list of entity tags is a VALIDATION_ERROR. An object's GET, PUT, PATCH and
// DELETE take them; other calls do not read them.
func (c *Call) ReadConditions() error {
	var v Validation
	c.conditions = conditions{true, v.tags(c, "If-Match"), v.tags(c, "If-None-Match")}
	return v.Err()
}

func (v *Validation) tags(c *Call, name string) tagList {
	// Lines of one field are one list (RFC 9110, section 5.3).
	text := strings.Join(c.Request.Header.Values(name), ",")
	list := tagList{given: strings.Trim(text, " \t,") != "", any: strings.TrimSpace(text) == "*"}
	if !list.given || list.any {
		return list
	}
	tags, ok := splitTags(text)
	if !ok {
		v.Add("header."+name, "format", name+` is * or a list of entity tags, each in double quotes as ETag has it.`)
	}
	list.tags = tags
	return list
}

// splitTags returns the entity tags of a list, in the form of RFC 9110, section 8.8.3. Empty
// members of a list count as nothing.
func splitTags(text string) (tags []string, ok bool) {
	for {
		text = strings.TrimLeft(text, " \t,")
		if text == "" {
			return tags, true
		}
		weak := strings.HasPrefix(text, "W/")
		opaque := strings.TrimPrefix(text, "W/")
		if !strings.HasPrefix(opaque, `"`) {
			return nil, false
		}
		end := strings.IndexByte(opaque[1:], '"')
		if end < 0 || strings.ContainsFunc(opaque[1:end+1], func(r rune) bool { return r < 0x21 || r == 0x7f }) {
			return nil, false
		}
		tag := opaque[:end+2]
		text = strings.TrimLeft(opaque[end+2:], " \t")
		if text != "" && text[0] != ',' {
			return nil, false
		}
		if weak {
			tag = "W/" + tag
		}
		tags = append(tags, tag)
	}
}

// matches is the strong comparison: a weak tag matches none. All tags that we make are strong.
func (l tagList) matches(tag string) bool { return l.any || slices.Contains(l.tags, tag) }

// matchesWeakly is the weak comparison, which looks at the text in the quotes only.
func (l tagList) matchesWeakly(tag string) bool {
	return l.matches(tag) || slices.Contains(l.tags, "W/"+tag)
}

// unmet reports whether a call that changes an object must not be made, because the object's
// tag is not one that the caller expects.
func (s conditions) unmet(tag string) bool {
	return s.match.given && !s.match.matches(tag) || s.noneMatch.given && s.noneMatch.matchesWeakly(tag)
}

func preconditionFailed() error {
	return fault.New(fault.CodePreconditionFailed, "")
}

// Expect returns the check of the caller's If-Match and If-None-Match against an object as it
// is in the transaction that changes it, and nil for a call without them. tag returns the ETag
// of the object. The check fails with PRECONDITION_FAILED.
func Expect[T any](c *Call, tag func(T) string) fault.Expect[T] {
	if !c.conditions.match.given && !c.conditions.noneMatch.given {
		return nil
	}
	return func(current T) error {
		if c.conditions.unmet(tag(current)) {
			return preconditionFailed()
		}
		return nil
	}
}

// VersionTag returns the ETag of an object that has version numbers.
func VersionTag(version int32) string { return fmt.Sprintf(`"%d"`, version) }

// HashTag returns the ETag of an object that is told by a hash of it.
func HashTag(hash []byte) string { return `"` + base64.RawURLEncoding.EncodeToString(hash) + `"` }

// Steady is a view with fields that change while nobody changes the object, such as the time
// of its last use. Its ETag is made without them. Otherwise a call would fail its If-Match
// because of a change that no caller made.
type Steady interface {
	// Steady returns the view with these fields empty.
	Steady() any
}

// ViewTag returns the ETag of an object from the bytes of the answer that shows it as view, or
// as view.Steady. A GET that answers view has the same ETag.
func ViewTag(view any) string {
	if s, is := view.(Steady); is {
		view = s.Steady()
	}
	raw, err := json.Marshal(envelope{Success: true, Data: view})
	if err != nil {
		return `""` // no answer shows it, so no caller has its tag
	}
	return tagOf(raw)
}

// tagOf returns a strong entity tag: 128 bits of the hash of an answer.
func tagOf(answer []byte) string {
	sum := sha256.Sum256(answer)
	return HashTag(sum[:16])
}

// tagged reports whether an answer shows one object as its GET does. A list is no object.
func (c *Call) tagged(rep Reply) bool {
	return c.conditions.read && c.Request.Method != http.MethodDelete && rep.Status == http.StatusOK &&
		rep.Page == nil && reflect.ValueOf(rep.Data).Kind() != reflect.Slice
}

// unsent returns what a GET is answered instead of the object with the tag: a failure, or 304.
// The conditions of other methods were checked before the change.
func (c *Call) unsent(tag string) (notModified bool, err error) {
	if c.Request.Method != http.MethodGet {
		return false, nil
	}
	if c.conditions.match.given && !c.conditions.match.matches(tag) {
		return false, preconditionFailed()
	}
	return c.conditions.noneMatch.given && c.conditions.noneMatch.matchesWeakly(tag), nil
}

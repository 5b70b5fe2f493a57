package customer

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/mail"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nyaruka/phonenumbers"

	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/base/fault"
)

// Sizes of what a customer has.
const (
	maxEmail    = 254      // characters: RFC 5321 gives a path 256 with its brackets
	maxName     = 255      // characters (docs/reference/api.md, sizes)
	maxExternal = 255      // characters
	maxMetadata = 16 << 10 // bytes, as of a run
	maxTags     = 50
	maxTag      = 64 // characters
)

// Identity is what a caller knows of a customer. What is nil was not given.
type Identity struct {
	Email, Phone, ExternalID *string
	Name                     *string
	// Metadata is a JSON Merge Patch (RFC 7396) of the metadata that the customer has.
	Metadata json.RawMessage
	// Tags replaces the tags that the customer has; nil keeps them.
	Tags []string
	// Word: a caller says so who may not write customers. It finds a customer and makes one, and what it
	// says beyond that is Claimed.
	Word bool
}

// claims returns what the word says beside what is known of the customer, as an object. An identifier that
// the customer has is none.
func (in Identity) claims(c Customer) (json.RawMessage, error) {
	said := map[string]json.RawMessage{}
	given, _ := members(in.Metadata)
	maps.Copy(said, given)
	for _, one := range []struct {
		name     string
		has, new *string
	}{{"email", c.Email, in.Email}, {"phone", c.Phone, in.Phone}, {"external_id", c.ExternalID, in.ExternalID}, {"name", c.Name, in.Name}} {
		if one.new != nil && !same(one.has, one.new) {
			said[one.name] = mustJSON(*one.new)
		}
	}
	if in.Tags != nil {
		said["tags"] = mustJSON(in.Tags)
	}
	claims, err := exactjson.Encode(said)
	if err != nil {
		return nil, fmt.Errorf("customer: claims: %w", err)
	}
	return mergePatch(c.Claimed, claims)
}

// mustJSON encodes what always encodes.
func mustJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

// checked returns the identity with its identifiers in their canonical form. The error is a
// VALIDATION_ERROR that names everything that is wrong.
func (in Identity) checked() (Identity, error) {
	var wrong []fault.Detail
	canonical := func(path string, text *string, form func(string) (string, error)) *string {
		if text == nil {
			return nil
		}
		done, err := form(*text)
		if err != nil {
			wrong = append(wrong, fault.Detail{Path: path, Rule: "format", Message: err.Error()})
		}
		return &done
	}
	in.Email = canonical("/email", in.Email, canonicalEmail)
	in.Phone = canonical("/phone", in.Phone, canonicalPhone)
	in.ExternalID = canonical("/external_id", in.ExternalID, checkedExternal)
	in.Name = canonical("/name", in.Name, checkedName)
	tags, bad := checkedTags(in.Tags)
	in.Tags = tags
	return in, refusal(append(wrong, bad...))
}

func refusal(wrong []fault.Detail) error {
	if len(wrong) == 0 {
		return nil
	}
	f := fault.New(fault.CodeValidation, "")
	if len(wrong) == 1 {
		f.Message = wrong[0].Message
	}
	f.Details = wrong
	return f
}

// formError is what a caller is told of a text without the right form.
type formError string

// Error implements error.
func (e formError) Error() string { return string(e) }

// canonicalEmail returns an address in lower case. RFC 5321 allows a case-sensitive local part;
// no provider of note makes use of it.
func canonicalEmail(text string) (string, error) {
	parsed, err := mail.ParseAddress(text)
	ascii := !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
	if err != nil || !ascii || parsed.Address != text || len(text) > maxEmail || strings.Contains(text, `"`) {
		return "", formError("email is an address like name@example.com.")
	}
	return strings.ToLower(text), nil
}

// canonicalPhone returns a number in the form of E.164. Spaces, dots, dashes, slashes and
// brackets are for people; a trunk zero in brackets is left out as its country does.
func canonicalPhone(text string) (string, error) {
	refused := formError("phone is an international number like +4915123456789: + and the country's code come first.")
	wrong := func(r rune) bool { return !strings.ContainsRune("0123456789 .-/()", r) }
	if !strings.HasPrefix(text, "+") || len(text) > 40 || strings.ContainsFunc(text[1:], wrong) {
		return "", refused
	}
	number, err := phonenumbers.Parse(text, "")
	if err != nil || !phonenumbers.IsPossibleNumber(number) {
		return "", refused
	}
	return phonenumbers.Format(number, phonenumbers.E164), nil
}

func checkedExternal(text string) (string, error) {
	if text == "" || len(text) > maxExternal || strings.ContainsFunc(text, func(r rune) bool { return r < 0x21 || r > 0x7e }) {
		return "", formError("external_id is 1 to 255 visible ASCII characters.")
	}
	return text, nil
}

func checkedName(text string) (string, error) {
	if n := utf8.RuneCountInString(text); n < 1 || n > maxName || strings.ContainsFunc(text, unicode.IsControl) {
		return "", formError("name is 1 to 255 characters, none of them a control character.")
	}
	return text, nil
}

// notInTag reports whether no tag has the character: tags are compared by eye, so what cannot be
// seen is not part of one.
func notInTag(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) }

// checkedTags returns the tags without those that are there twice, nil for nil.
func checkedTags(tags []string) (list []string, wrong []fault.Detail) {
	if tags == nil {
		return nil, nil
	}
	list = []string{}
	for i, tag := range tags {
		if n := utf8.RuneCountInString(tag); n < 1 || n > maxTag || strings.ContainsFunc(tag, notInTag) {
			wrong = append(wrong, fault.Detail{Path: fmt.Sprintf("/tags/%d", i), Rule: "format", Message: "A tag is 1 to 64 characters that can be seen, without a space."})
		}
		if !slices.Contains(list, tag) {
			list = append(list, tag)
		}
	}
	if len(list) > maxTags {
		wrong = []fault.Detail{{Path: "/tags", Rule: "maxItems", Message: fmt.Sprintf("A customer has at most %d tags.", maxTags)}}
	}
	return list, wrong
}

// The kinds of identifiers, as they begin in customer_identifiers, from the strongest to the
// weakest. People share a telephone, and less often an address.
const (
	kindReference = "id:"
	kindEmail     = "email:"
	kindPhone     = "phone:"
)

// identifiers returns those that are given, the strongest first.
func (in Identity) identifiers() []string {
	list := []string{}
	for _, i := range []struct {
		kind  string
		value *string
	}{{kindReference, in.ExternalID}, {kindEmail, in.Email}, {kindPhone, in.Phone}} {
		if i.value != nil {
			list = append(list, i.kind+*i.value)
		}
	}
	return list
}

// identifiers returns those of the record itself. It may have others, of customers that were
// merged into it.
func (c Customer) identifiers() []string {
	return append(Identity{Email: c.Email, Phone: c.Phone, ExternalID: c.ExternalID}.identifiers(), kindReference+c.ID.String())
}

// memberOf returns the path of the member of a body that has an identifier.
func memberOf(identifier string) string {
	kind, _, _ := strings.Cut(identifier, ":")
	if kind == "id" {
		return "/external_id"
	}
	return "/" + kind
}

package strictjson

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/near"
)

// Rules of the details that Decode adds to a VALIDATION_ERROR.
const (
	RuleUnknownField = "unknown_field"
	RuleType         = "type"
)

// maxDetails is how many problems one answer lists at most.
const maxDetails = 50

// Decode checks data and stores it in dst, a pointer. Names are matched exactly, at
// every level: a name in another case than the field's is an unknown name. An unknown
// name in any of our structs is refused, unless opts.AllowUnknown is set. null means
// absent for pointers, maps, slices and any. A type with an UnmarshalJSON of its own,
// such as json.RawMessage, gets it. For all others null is refused. Numbers in an any
// are json.Number.
//
// The error is the fault INVALID_JSON, or VALIDATION_ERROR with a detail for every
// unknown field and wrong type, at most 50. dst is undefined after an error.
func Decode(data []byte, dst any, opts Options) error {
	if err := Check(data, opts); err != nil {
		return err
	}
	v := reflect.ValueOf(dst)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return fmt.Errorf("strictjson: Decode needs a pointer, not %T", dst)
	}
	d := decoder{allowUnknown: opts.AllowUnknown}
	d.value("", trim(data), v.Elem())
	return d.fault()
}

// decoder stores checked data in Go values and collects what does not fit.
type decoder struct {
	allowUnknown bool
	details      []fault.Detail
	more         int // problems beyond maxDetails
}

func (d *decoder) fail(path, rule, message string) {
	if len(d.details) >= maxDetails {
		d.more++
		return
	}
	d.details = append(d.details, fault.Detail{Path: path, Rule: rule, Message: message})
}

func (d *decoder) fault() error {
	if len(d.details) == 0 {
		return nil
	}
	first := d.details[0]
	message := first.Message
	if first.Path != "" {
		message = first.Path + ": " + message
	}
	if n := len(d.details) + d.more; n > 1 {
		message += fmt.Sprintf(" (and %d more)", n-1)
	}
	e := fault.New(fault.CodeValidation, message)
	e.Details = d.details
	return e
}

//nolint:gochecknoglobals // immutable: the types that decode themselves
var (
	rawType  = reflect.TypeFor[json.RawMessage]()
	jsonType = reflect.TypeFor[json.Unmarshaler]()
	textType = reflect.TypeFor[encoding.TextUnmarshaler]()
	timeType = reflect.TypeFor[time.Time]()
)

// value stores raw in v.
func (d *decoder) value(path string, raw []byte, v reflect.Value) {
	t := v.Type()
	switch {
	case t == rawType:
		v.SetBytes(bytes.Clone(raw))
		return
	case t.Kind() == reflect.Pointer:
		d.pointer(path, raw, v)
		return
	case reflect.PointerTo(t).Implements(jsonType):
		d.custom(path, raw, v)
		return
	case reflect.PointerTo(t).Implements(textType):
		if d.expect(path, raw, '"', "must be a string") {
			d.custom(path, raw, v)
		}
		return
	}
	switch t.Kind() {
	case reflect.Struct:
		if d.expect(path, raw, '{', "must be an object") {
			d.structure(path, raw, v)
		}
	case reflect.Map:
		d.mapping(path, raw, v)
	case reflect.Slice:
		d.slice(path, raw, v)
	case reflect.Interface:
		d.free(path, raw, v)
	default:
		d.scalar(path, raw, v)
	}
}

// expect reports whether raw begins with the byte first, and records message where
// it does not.
func (d *decoder) expect(path string, raw []byte, first byte, message string) bool {
	if raw[0] != first {
		d.fail(path, RuleType, message)
		return false
	}
	return true
}

func isNull(raw []byte) bool { return raw[0] == 'n' }

func (d *decoder) pointer(path string, raw []byte, v reflect.Value) {
	if isNull(raw) {
		v.SetZero()
		return
	}
	if v.IsNil() {
		v.Set(reflect.New(v.Type().Elem()))
	}
	d.value(path, raw, v.Elem())
}

// custom lets a type decode itself. The details of a fault that it returns are kept,
// below path. Any other error is a wrong type, without its text.
func (d *decoder) custom(path string, raw []byte, v reflect.Value) {
	err := json.Unmarshal(raw, v.Addr().Interface())
	if err == nil {
		return
	}
	f := fault.As(err)
	switch {
	case f == nil && v.Type() == timeType:
		d.fail(path, RuleType, "must be an RFC 3339 time")
	case f == nil:
		d.fail(path, RuleType, "does not have the expected form")
	case len(f.Details) == 0:
		d.fail(path, RuleType, f.Message)
	default:
		for _, detail := range f.Details {
			d.fail(path+detail.Path, detail.Rule, detail.Message)
		}
	}
}

// free stores any value, numbers as json.Number.
func (d *decoder) free(path string, raw []byte, v reflect.Value) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(v.Addr().Interface()); err != nil {
		d.fail(path, RuleType, "does not have the expected form")
	}
}

func (d *decoder) mapping(path string, raw []byte, v reflect.Value) {
	if isNull(raw) {
		v.SetZero()
		return
	}
	if !d.expect(path, raw, '{', "must be an object") {
		return
	}
	t := v.Type()
	if t.Key().Kind() != reflect.String {
		d.custom(path, raw, v)
		return
	}
	v.Set(reflect.MakeMap(t))
	members(raw, func(name, value []byte) bool {
		key := string(unescape(nil, name))
		element := reflect.New(t.Elem()).Elem()
		d.value(join(path, key), value, element)
		v.SetMapIndex(reflect.ValueOf(key).Convert(t.Key()), element)
		return true
	})
}

func (d *decoder) slice(path string, raw []byte, v reflect.Value) {
	t := v.Type()
	switch {
	case isNull(raw):
		v.SetZero()
		return
	case t.Elem().Kind() == reflect.Uint8:
		if d.expect(path, raw, '"', "must be a base64 string") && json.Unmarshal(raw, v.Addr().Interface()) != nil {
			d.fail(path, RuleType, "must be a base64 string")
		}
		return
	case !d.expect(path, raw, '[', "must be an array"):
		return
	}
	v.Set(reflect.MakeSlice(t, 0, 4))
	elements(raw, func(value []byte) bool {
		element := reflect.New(t.Elem()).Elem()
		d.value(join(path, strconv.Itoa(v.Len())), value, element)
		v.Set(reflect.Append(v, element))
		return true
	})
}

func (d *decoder) scalar(path string, raw []byte, v reflect.Value) {
	want := "must be a value of another kind"
	ok := false
	switch v.Kind() {
	case reflect.String:
		if v.Type() == reflect.TypeFor[json.Number]() {
			want, ok = "must be a number", raw[0] == '-' || isDigit(raw[0])
			break
		}
		want, ok = "must be a string", raw[0] == '"'
	case reflect.Bool:
		want, ok = "must be true or false", raw[0] == 't' || raw[0] == 'f'
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		want, ok = "must be a whole number that fits its range", raw[0] == '-' || isDigit(raw[0])
	case reflect.Float32, reflect.Float64:
		want, ok = "must be a number", raw[0] == '-' || isDigit(raw[0])
	default: // value has dealt with the kinds that contain others
	}
	if !ok || json.Unmarshal(raw, v.Addr().Interface()) != nil {
		d.fail(path, RuleType, want)
	}
}

// structure stores an object's members in the fields of the same names.
func (d *decoder) structure(path string, raw []byte, v reflect.Value) {
	fields := fieldsOf(v.Type(), nil, nil)
	members(raw, func(name, value []byte) bool {
		key := string(unescape(nil, name))
		for _, f := range fields {
			if f.name == key {
				d.value(join(path, key), value, v.FieldByIndex(f.index))
				return true
			}
		}
		switch {
		case d.allowUnknown:
		case len(d.details) >= maxDetails:
			d.more++
		default:
			d.fail(join(path, key), RuleUnknownField, unknownMessage(key, fields))
		}
		return true
	})
}

type field struct {
	name  string
	index []int
}

// fieldsOf lists the exported fields with their JSON names, those of embedded
// structs included.
func fieldsOf(t reflect.Type, index []int, list []field) []field {
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		at := append(append([]int(nil), index...), i)
		name, _, _ := strings.Cut(tag, ",")
		switch {
		case tag == "-":
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
			list = fieldsOf(f.Type, at, list)
		case !f.IsExported():
		case name == "":
			list = append(list, field{f.Name, at})
		default:
			list = append(list, field{name, at})
		}
	}
	return list
}

// unknownMessage names the fields that exist. Where only the case differs it names
// the field that was meant.
func unknownMessage(key string, fields []field) string {
	known := make([]string, len(fields))
	for i, f := range fields {
		known[i] = f.name
		if strings.EqualFold(f.name, key) {
			return "unknown field; names are case-sensitive, write " + f.name
		}
	}
	if name := near.Name(key, known); name != "" {
		return "unknown field; did you mean " + name + "? Known fields are " + strings.Join(known, ", ")
	}
	return "unknown field; known fields are " + strings.Join(known, ", ")
}

package openapi

import (
	"bytes"
	"encoding/json"

	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/strictjson"
	"agentruntime/internal/base/yamljson"
)

// Form is how a document is written.
type Form string

// The forms of documents.
const (
	FormJSON Form = "json"
	FormYAML Form = "yaml"
	FormZip  Form = "zip" // an archive of several files
)

// Bounds of YAML. The parser takes about a kilobyte for a value of a dense document.
const (
	MaxYAML       = 5 << 20 // bytes
	maxExpanded   = 25 << 20
	maxYAMLValues = 500_000
	// A document with more of them is not small.
	maxSmallYAMLValues = 50_000
)

// FormOf returns how a text is written. JSON is YAML too, so what is valid JSON is JSON.
func FormOf(text []byte) Form {
	if json.Valid(text) {
		return FormJSON
	}
	return FormYAML
}

// YAML returns the JSON of a text of YAML, within the bounds of a document. It is a
// VALIDATION_ERROR that names the line and the place below path.
func YAML(source []byte, path string) (json.RawMessage, error) {
	return readYAML(source, path, yamljson.Options{MaxBytes: MaxYAML, MaxJSON: maxExpanded, MaxValues: maxYAMLValues})
}

// SmallYAML is YAML for a text that becomes at most MaxSmallDocument bytes, without many values. It
// returns ErrNotSmall for any other.
func SmallYAML(source []byte, path string) (json.RawMessage, error) {
	w := work{small: true}
	return w.yamlOf(source, path)
}

// yamlOf is YAML or SmallYAML, within what the texts before it have left.
func (w *work) yamlOf(source []byte, path string) (json.RawMessage, error) {
	opts := yamljson.Options{MaxBytes: MaxYAML - w.yaml, MaxJSON: maxExpanded - w.read, MaxValues: maxYAMLValues, Meter: &w.meter}
	if w.small {
		opts.MaxJSON, opts.MaxValues = MaxSmallDocument-w.read, maxSmallYAMLValues
		if len(source) > MaxSmallDocument || yamljson.Values(source) > maxSmallYAMLValues {
			return nil, ErrNotSmall
		}
	}
	w.yaml += len(source)
	out, err := readYAML(source, path, opts)
	if f := fault.As(err); w.small && f != nil && len(f.Details) > 0 && f.Details[0].Rule == "maxLength" {
		return nil, ErrNotSmall
	}
	return out, err
}

func readYAML(source []byte, path string, opts yamljson.Options) (json.RawMessage, error) {
	opts.What, opts.MaxDepth, opts.Full = "a document", exactjson.MaxDepth, true
	out, wrong := yamljson.Convert(source, opts)
	if len(wrong) == 0 {
		return out, nil
	}
	var details []fault.Detail
	for _, w := range wrong[:min(len(wrong), maxFaultsTold)] {
		details = append(details, fault.Detail{Path: path + w.Path, Rule: w.Rule, Message: w.Message})
	}
	f := fault.Newf(fault.CodeValidation, "The YAML cannot be read: %s.", wrong[0].Message)
	f.Details = details
	return nil, f
}

// maxFaultsTold is how many faults of a text one answer lists.
const maxFaultsTold = 20

// decode reads a document, and returns the form in which it is written. It is ErrNotSmall where the
// documents of a small import are too much together.
func (w *work) decode(raw []byte) (any, Form, error) {
	const path = "/openapi" // where faults are
	raw = bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf"))
	w.text += len(raw)
	if looksLikeJSON(raw) {
		if err := w.checkShape(raw, path); err != nil {
			return nil, FormJSON, err
		}
	}
	form := FormOf(raw)
	if form == FormYAML {
		if looksLikeJSON(raw) {
			return nil, form, fault.Invalid(path, "json", "The document is not valid JSON.")
		}
		var err error
		if raw, err = w.yamlOf(raw, path); err != nil {
			return nil, form, err
		}
		if err := w.checkShape(raw, path); err != nil {
			return nil, form, err
		}
	}
	if w.read += len(raw); w.read > maxExpanded {
		return nil, form, fault.Invalid(path, "size", "The document has more than 25 MiB.")
	}
	if w.small && w.read > MaxSmallDocument {
		return nil, form, ErrNotSmall
	}
	if form == FormYAML || w.unchecked {
		if err := checkJSON(raw, path); err != nil {
			return nil, form, err
		}
	}
	tree, err := exactjson.Decode(raw)
	if err != nil {
		err = fault.Invalid(path, "json", "The document is not valid JSON.")
	}
	return tree, form, err
}

// checkShape refuses a document that is too much to take apart. It counts the values of all
// documents that the work reads.
func (w *work) checkShape(raw []byte, path string) error {
	depth, values := exactjson.Shape(raw)
	if depth > exactjson.MaxDepth {
		return fault.Invalid(path, "depth", "The document is nested too deeply.")
	}
	w.tree += exactjson.TreeBytes(raw)
	if w.values += values; w.values > maxDocumentValues || w.tree > maxTreeBytes {
		return fault.Invalid(path, "size", "The document has too many values.")
	}
	return nil
}

// looksLikeJSON reports whether a text is meant to be JSON: it is an object whose first name has
// quotes, or a list. YAML that people write begins otherwise.
func looksLikeJSON(raw []byte) bool {
	raw = bytes.TrimSpace(raw)
	rest, object := bytes.CutPrefix(raw, []byte("{"))
	rest = bytes.TrimSpace(rest)
	return bytes.HasPrefix(raw, []byte("[")) || object && (bytes.HasPrefix(rest, []byte(`"`)) || bytes.HasPrefix(rest, []byte("}")))
}

// checkJSON refuses what a request body may not have either: a name that is there twice, a text
// with the character 0, a number of unbounded size.
func checkJSON(raw []byte, path string) error {
	err := strictjson.Check(raw, strictjson.Options{Free: []string{""}, MaxDepth: exactjson.MaxDepth})
	f := fault.As(err)
	if f == nil || len(f.Details) == 0 {
		return err
	}
	d := f.Details[0]
	if d.Rule == strictjson.RuleDepth {
		return fault.Invalid(path, "depth", "The document is nested too deeply.")
	}
	return fault.Invalid(path+d.Path, d.Rule, "The document cannot be read: "+d.Message+".")
}

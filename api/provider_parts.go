package api

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"

	"agentruntime/api/wire"
	"agentruntime/internal/base/fault"
)

// multipartType is the media type of a request with a document as a file.
const multipartType = "multipart/form-data"

// The parts of such a request: the members of the request as JSON, and the document.
const (
	requestPart  = "request"
	documentPart = "document"
)

// maxRequestPart is the most bytes of the members beside a document.
const maxRequestPart = 256 << 10

// parts returns the two parts of a multipart body.
func parts(c *wire.Call) (request, document []byte, err error) {
	_, params, err := mime.ParseMediaType(c.Request.Header.Get("Content-Type"))
	if err != nil || params["boundary"] == "" {
		return nil, nil, fault.New(fault.CodeUnsupportedMediaType, "The Content-Type of a multipart body names its boundary.")
	}
	r := multipart.NewReader(bytes.NewReader(c.Body()), params["boundary"])
	for {
		part, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, badParts("syntax", "The multipart body cannot be read.")
		}
		switch name := part.FormName(); {
		case name == requestPart && request == nil:
			request, err = readPart(part, maxRequestPart)
		case name == documentPart && document == nil:
			document, err = readPart(part, len(c.Body()))
		default:
			return nil, nil, badParts("unknown", "The multipart body has one part request and one part document, and no others.")
		}
		if err != nil {
			return nil, nil, err
		}
	}
	if request == nil || document == nil {
		return nil, nil, badParts("required", "The multipart body needs the parts request (a JSON object) and document (a file).")
	}
	return request, document, nil
}

// readPart reads a part into one piece of memory.
func readPart(part *multipart.Part, most int) ([]byte, error) {
	var out bytes.Buffer
	out.Grow(most + bytes.MinRead)
	n, err := io.Copy(&out, io.LimitReader(part, int64(most)+1))
	switch {
	case err != nil:
		return nil, badParts("syntax", "The multipart body ends within a part.")
	case n > int64(most):
		return nil, badParts("maxLength", "The part request has at most 262144 bytes.")
	}
	return out.Bytes(), nil
}

func badParts(rule, message string) error { return fault.Invalid("", rule, message) }

package wire

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/strictjson"
)

// A body arrives within bodyTime and bodyTimePerMiB for each MiB of it. While it arrives it takes
// the place of others, so a caller must not send it as slowly as they like.
const (
	bodyTime       = 10 * time.Second
	bodyTimePerMiB = time.Second
	largeBody      = 1 << 20 // bytes
)

// ReadBody reads the body of at most limit bytes for the Decode methods. It is JSON, or of one of
// the media types also. It fails with PAYLOAD_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE or INVALID_JSON,
// the latter also for a body that arrives too slowly.
func (c *Call) ReadBody(limit int64, also ...string) error {
	return c.readBody(limit, append([]string{"application/json"}, also...)...)
}

func (c *Call) readBody(limit int64, kinds ...string) error {
	if c.Request.ContentLength > limit {
		return tooLarge(limit)
	}
	if ct := c.Request.Header.Get("Content-Type"); ct != "" || c.Request.ContentLength != 0 {
		media, params, err := mime.ParseMediaType(ct)
		charset := strings.ToLower(params["charset"])
		if err != nil || !slices.Contains(kinds, media) || (charset != "" && charset != "utf-8") {
			return fault.New(fault.CodeUnsupportedMediaType, "The request body must be "+strings.Join(kinds, " or ")+".")
		}
	}
	if enc := c.Request.Header.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return fault.New(fault.CodeUnsupportedMediaType, "The request body must not be compressed.")
	}
	paced := &pacedReader{body: http.MaxBytesReader(c.w, c.Request.Body, limit), control: http.NewResponseController(c.w), began: time.Now()}
	body, err := readAll(paced, c.Request.ContentLength)
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return tooLarge(limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fault.New(fault.CodeInvalidJSON, "The request body arrived too slowly. It may take 10 seconds, and one more for each MiB.").Because(err)
	case err != nil:
		return fault.New(fault.CodeInvalidJSON, "The request body ended before it was complete.").Because(err)
	}
	// The deadline would end the call later: the server reads on to see the caller leave.
	_ = paced.control.SetReadDeadline(time.Time{})
	c.body, c.bodySize = body, len(body)
	return nil
}

// readAll is io.ReadAll, which puts a large body together from pieces. One whose size is known has its
// place at once, and is in memory only once.
func readAll(r io.Reader, size int64) ([]byte, error) {
	if size < largeBody {
		return io.ReadAll(r) //nolint:wrapcheck // the caller tells the errors apart
	}
	var body bytes.Buffer
	body.Grow(int(size) + bytes.MinRead)
	_, err := body.ReadFrom(r)
	return body.Bytes(), err //nolint:wrapcheck // the caller tells the errors apart
}

// pacedReader reads a body and moves the deadline of the connection with each part that arrived.
type pacedReader struct {
	body    io.Reader
	control *http.ResponseController
	began   time.Time
	read    int
}

// Read implements io.Reader. It fails with os.ErrDeadlineExceeded if the body is too slow.
func (p *pacedReader) Read(b []byte) (int, error) {
	_ = p.control.SetReadDeadline(p.began.Add(bodyTime + time.Duration(p.read>>20)*bodyTimePerMiB)) // only the recorder of a test has none
	n, err := p.body.Read(b)
	p.read += n
	return n, err
}

// BodyType returns the media type of the body, "" where the call has none.
func (c *Call) BodyType() string {
	media, _, _ := mime.ParseMediaType(c.Request.Header.Get("Content-Type")) // ReadBody has read it
	return media
}

// Body returns the body that ReadBody has read. It must not be changed.
func (c *Call) Body() []byte { return c.body }

// Identity returns what tells the body from others: the body, without the boundary of its parts,
// which each call makes up.
func (c *Call) Identity() []byte {
	_, params, _ := mime.ParseMediaType(c.Request.Header.Get("Content-Type"))
	if boundary := params["boundary"]; boundary != "" {
		return bytes.ReplaceAll(c.body, []byte("--"+boundary), []byte("--"))
	}
	return c.body
}

// SkipBody reads at most limit bytes of the body and keeps none.
func (c *Call) SkipBody(limit int64) {
	_, _ = io.Copy(io.Discard, io.LimitReader(c.Request.Body, limit)) // the call has failed anyway
}

// DropBody lets go of the body that was read. Who has taken a large one apart needs it no longer.
func (c *Call) DropBody() { c.body = nil }

// BodySize returns how many bytes the body that was read has, or had.
func (c *Call) BodySize() int { return c.bodySize }

func tooLarge(limit int64) error {
	return fault.Newf(fault.CodePayloadTooLarge, "The request body may have at most %d bytes.", limit)
}

// Decode reads the body into dst by the strict rules and ignores unknown members. free
// names the members ("/args") whose content belongs to the caller: in it, names may
// differ in case only.
func (c *Call) Decode(dst any, free ...string) error {
	return strictjson.Decode(c.body, dst, strictjson.Options{Free: free, AllowUnknown: true})
}

// DecodeExact is Decode, but it refuses unknown members. Calls use it where a misspelt
// member must not pass.
func (c *Call) DecodeExact(dst any, free ...string) error {
	return strictjson.Decode(c.body, dst, strictjson.Options{Free: free})
}

// DecodeOptional is DecodeExact for calls whose path says all that is required: an
// absent body means {}.
func (c *Call) DecodeOptional(dst any, free ...string) error {
	if len(c.body) == 0 {
		return nil
	}
	return c.DecodeExact(dst, free...)
}

package wire

import (
	"io"
	"maps"
	"net/http"
	"time"
)

// chunkTimeout is how long the caller may take to read an answer, or one chunk of a stream.
const chunkTimeout = 30 * time.Second

// Stream answers 200 and sends what write writes, chunk by chunk. The handler sets the
// headers before, by ResponseHeader. Where write fails, the connection is closed in the
// middle of the body, so that the caller does not take a part for the whole.
func (c *Call) Stream(write func(io.Writer) error) error {
	c.allowOrigin()
	c.streamed = true
	c.w.WriteHeader(http.StatusOK)
	control := http.NewResponseController(c.w)
	// What the server allows for reading a request must not end its answer.
	_ = control.SetReadDeadline(time.Time{}) // only the recorder of a test has none
	err := write(chunks{c.w, control})
	deadline := time.Time{} // none for the next response on this connection
	if err != nil {
		deadline = time.Unix(1, 0)
	}
	_ = control.SetWriteDeadline(deadline)
	return err
}

// StreamObject is Stream for one object with the ETag tag, which does not stand in an envelope.
// Where the caller has the object already, or expects another one, it sends nothing of it: 304
// or PRECONDITION_FAILED. header belongs to the object.
func (c *Call) StreamObject(tag string, header http.Header, write func(io.Writer) error) error {
	notModified, err := c.unsent(tag)
	if err != nil {
		return err
	}
	h := c.w.Header()
	h.Set("ETag", tag)
	h.Set("Cache-Control", "no-store")
	if notModified {
		c.allowOrigin()
		c.streamed = true
		c.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	maps.Copy(h, header)
	return c.Stream(write)
}

// chunks sends each write at once, and allows the caller chunkTimeout to read it.
type chunks struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

// Write implements io.Writer.
func (s chunks) Write(b []byte) (int, error) {
	_ = s.control.SetWriteDeadline(time.Now().Add(chunkTimeout)) // only the recorder of a test has none
	n, err := s.w.Write(b)
	if err == nil {
		err = s.control.Flush()
	}
	return n, err
}

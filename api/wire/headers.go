package wire

import "agentruntime/internal/base/fault"

// CheckHeaders returns a VALIDATION_ERROR if a header that a call is judged by occurs in two
// lines. A proxy before the runtime could judge the call by the other line. The HTTP server
// refuses two lengths, and a run refuses two idempotency keys.
func (c *Call) CheckHeaders() error {
	for _, name := range []string{"X-API-Key", "Authorization", "Content-Type", "Content-Encoding", "Origin"} {
		if len(c.Request.Header.Values(name)) > 1 {
			return fault.Invalid("header."+name, "unique", "Send "+name+" once.")
		}
	}
	return nil
}
